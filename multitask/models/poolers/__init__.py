"""One file per pooling method; see ``multitask.config.registry.POOLERS``.

A pooler is built with the encoder's width ``dim`` and its number of layers ``num_layers``. It says
which hidden states it needs (``layers``, indices from 0, the embeddings, to ``num_layers``) and
which tokens of them (``tokens``: "first" or "all"), and maps them to one vector a sequence of
width ``output_dim``. `tokens` alone keeps them all, for a head that looks at tokens. Every row of
the mask has a token: a pooler that reads the mask raises ValueError where one has none
(``base.check_mask``).

One that weighs hidden states declares, so that
``multitask.inference.analysis.layer_weights`` can tell how much each counts: ``scored``, the
numbers of the n states; ``weigher``, a module that its forward pass calls once, scores of B inputs
-> weights [B, n] whose rows sum to 1; ``rectified``, whether a ReLU made those scores.
"""
