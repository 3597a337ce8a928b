# Tested by tests/data/inputs/test_base.py
"""``input: cross``: two texts in one sequence."""

from multitask.data.inputs.base import Input


class Cross(Input):
    """The two texts of a pair in one sequence, told apart by token types."""

    columns = ("text", "text2")
    joins = True
    items = "pairs of texts"
    line = "two texts with a tab between"
    reads = "two texts, read together"
    example = '"A man is running.", "Someone runs."'
