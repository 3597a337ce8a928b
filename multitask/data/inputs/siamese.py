# Tested by tests/data/inputs/test_base.py
"""``input: siamese``: two texts, encoded separately."""

from multitask.data.inputs.base import Input


class Siamese(Input):
    """The two texts of a pair, each read alone."""

    columns = ("text", "text2")
    compares = True
    items = "pairs of texts"
    line = "two texts with a tab between"
    reads = "two texts, read apart"
    views = "pairs, all other texts of the batch are negatives"
