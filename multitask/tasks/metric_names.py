"""Which metrics each label type has (``multitask.tasks.metrics`` computes them).

Without numpy: every config error would wait for it.
"""

# The first metric of a label type is its default.
METRICS: dict[str, tuple[str, ...]] = {
    "class": ("accuracy", "macro_f1", "mcc", "mae"),
    "binary": ("accuracy", "f1", "average_precision", "mcc"),
    "labels": ("f1", "macro_f1", "exact_match"),
    "number": ("pearson", "spearman", "mse"),
    "tokens": ("accuracy", "perplexity"),
    "views": ("probability", "accuracy"),
    "tags": ("f1", "precision", "recall", "accuracy"),
    "span": ("f1", "exact_match"),
}
# What is measured of each row where a prediction is no single number. Of tagged words: the entities
# in the gold tags, in the predicted ones, in both; the words, those with the right tag.
OUTCOMES: dict[str, tuple[str, ...]] = {
    "tags": ("entities", "predicted", "right", "words", "right_words"),
    "span": ("f1", "exact_match"),
}
UNLABELLED = ("tokens", "views")  # trained on texts alone, for the other tasks' sake
ERRORS = ("mae", "mse", "perplexity")

# A task's `metric:` is averaged with other tasks' and maximised: no errors.
SELECTABLE: dict[str, tuple[str, ...]] = {
    label_type: tuple(name for name in names if name not in ERRORS)
    for label_type, names in METRICS.items()
}

CORRELATIONS = ("pearson", "spearman")
