"""One file per head; see ``multitask.config.registry.HEADS``.

A head owns its batch. ``loss(pooled, batch)`` maps the pooled vectors of a
``multitask.data.collate.Batch`` to the loss and the scores; nobody else asks what the head takes:

- A head of vectors has ``forward`` with one argument per sequence of a row: ``vector`` for a text,
  or for texts that are read together, ``u`` and ``v`` for a pair. Each is [B, d].
- A head of tokens gets [M, d], the tokens with a label, or [B, T, d], all tokens.

``reads`` says which inputs a head fits. The task type is usually that of its base class. The
contrastive heads are in ``multitask.models.losses``.

The constructor has flat keyword arguments. The program supplies those that the constructor takes of
``dim`` (width of a vector), ``num_labels``, ``class_counts`` (training rows per class),
``row_count`` (training rows), ``low`` and ``high`` (the label range), for the masked-LM head
``word_embedding``, ``norm_eps`` and ``mlm_weights``, and for DiffCSE ``encoder`` and ``autocast``.
All others are options in YAML.

A constructor checks its arguments, never the values of a tensor: a saved run is first rebuilt on
torch's device `meta`, where tensors have shapes only.
"""
