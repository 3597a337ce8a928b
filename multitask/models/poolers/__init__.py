"""One file per pooling method; see ``multitask.config.registry.POOLERS``.

A pooler is built with the encoder's width ``dim`` and its number of layers ``num_layers``. It
declares which hidden states it needs (``layers``, numbers from 0, the embeddings, to
``num_layers``) and which of their tokens (``tokens``: "first" or "all"). It maps them to one vector
of width ``output_dim`` per sequence; only `tokens` returns all tokens, for heads that read tokens.
Every row of the mask has a token; a pooler that reads the mask raises ValueError for a row without
(``base.check_mask``).

A pooler that weights hidden states also declares three attributes, which
``multitask.inference.analysis.layer_weights`` reads:

- ``scored``: the numbers of the n states
- ``weigher``: a module that the forward pass calls once; it maps scores of B inputs to weights
  [B, n] whose rows sum to 1
- ``rectified``: True if the scores come from a ReLU
"""
