"""Losses over several views of a text, as heads; see ``multitask.config.registry.HEADS``.

Such a head takes "views" and has the task type "views": 2 or 3 vectors [B, d] per row, whose texts
are numbered (equal texts have equal numbers). ``multitask.models.multitask_model`` combines it with
encoder, pooler and projection.
"""
