# Tested by tests/data/inputs/test_base.py
"""``input: triplet``: a text, a similar one and a different one, encoded separately."""

from multitask.data.inputs.base import Input


class Triplet(Input):
    """A text, a similar text and a different one, each read alone."""

    columns = ("text", "text2", "text3")
    items = "triplets of texts"
    line = "three texts with a tab between"
    reads = "three texts, read apart"
    views = "pairs with a hard negative, all other texts of the batch too"
