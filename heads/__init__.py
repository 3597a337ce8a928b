"""One file per head; see ``multitask.config.registry.HEADS``.

A head maps vectors to ``scores``, and computes its loss and predictions from them. It declares what
it ``takes`` and, usually through its base class, its ``task_type``:

- "vector" or "pair": vectors [B, d]. The task type is "class", "binary", "number" or "labels" (any
  number of classes).
- "choice": n vectors [B, d], one per ending (task type "choice").
- "tokens": vectors [M, d]. The masked-LM head (task type "tokens") takes the tokens to predict; the
  head for tagged words (task type "tags") takes the first word piece of each word.
- "sequence": vectors [B, T, d] of all tokens, and the mask [B, T]. The head for answers (task type
  "span") takes it.
- "views": the texts of a row. The contrastive heads are in ``multitask.models.losses``.

The constructor has flat keyword arguments. The program supplies those that the constructor takes of
``dim`` (width of a vector), ``num_labels``, ``class_counts`` (training rows per class), ``low`` and
``high`` (the label range), and for the masked-LM head ``word_embedding``, ``norm_eps`` and
``mlm_weights``. All others are options in YAML.

A constructor checks its arguments, never the values of a tensor: a saved run is first rebuilt on
torch's device `meta`, where tensors have shapes only.
"""
