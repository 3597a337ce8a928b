# Tested by tests/data/inputs/test_base.py
"""``input: single``: one text."""

from multitask.data.inputs.base import Input


class Single(Input):
    """One text, in one sequence."""

    columns = ("text",)
    items = "single texts"
    line = "one text, without a tab"
    reads = "one text"
    views = "each text with itself, under other dropout"
