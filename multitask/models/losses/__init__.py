"""Losses over several views of a text, as heads of tasks; see ``multitask.config.registry.HEADS``.

Such a head takes "views" and has the label type "views": 2 or 3 vectors a row [B, d], whose texts
are numbered (equal texts alike). It knows no encoder, pooler or projection;
``multitask.models.multitask_model`` puts them together.
"""
