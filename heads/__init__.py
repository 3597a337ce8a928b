"""One file per head; see ``multitask.config.registry.HEADS``.

A head is built with flat keyword arguments, of which the program supplies ``dim`` (width of a
vector), ``num_labels``, ``class_counts`` (training rows a class), ``low`` and ``high`` (the label
range) where the constructor takes them; the rest are options of the YAML file. It declares
``takes`` ("vector" or "pair") and, through its base, ``task_type`` ("class", "binary", "number" or
"labels", several classes at once). It maps vectors [B, d] to ``scores``, and knows its loss and its
predictions.

The masked-LM head takes "tokens" and has the task type "tokens": vectors [M, d] of the tokens to
predict. It is also given ``word_embedding``, ``norm_eps`` and ``mlm_weights``. So does the head of
tagged words (task type "tags"): vectors [M, d] of the words' first pieces. The head of answers
(task type "span") takes a "sequence": vectors [B, T, d] of all tokens, and the mask [B, T].
"""
