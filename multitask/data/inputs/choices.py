# Tested by tests/data/inputs/test_base.py
"""``input: choices``: a context with several endings, each read together with the context."""

from collections.abc import Sequence

from multitask.data.inputs.base import Input, Texts


class Choices(Input):
    """The context and one ending per sequence, told apart by token types.

    The texts of a row are the context and its n endings, n >= 2. All rows have the same n.
    """

    columns = ("text", "choices")
    may_have = ("text2",)
    joins = True
    items = "rows of a context and at least two endings"
    line = "a context and at least two endings with tabs between"
    example = '["A man runs."] * 2, ["He stops.", "She sings."], padding=True'
    reads = "a context, and one ending a line"

    @property
    def sides(self) -> None:
        """Rows of other data may have another number of endings."""

    def sequences(self, texts: Sequence[str]) -> list[Texts]:
        """Return n sequences: the context with each ending."""
        return [(texts[0], ending) for ending in texts[1:]]

    def side_name(self, side: int) -> str:
        """Name a side as labels do."""
        return str(side)

    def fits(self, count: int) -> bool:
        return count > self.texts

    def row_of_typed(self, texts: Sequence[str]) -> Texts:
        """Return the context, and a text per line of the second typed text."""
        context, endings = texts
        return (context, *(line.strip() for line in endings.split("\n") if line.strip()))

    def typed(self, texts: Sequence[str]) -> Texts:
        """Return the context, and the endings with a line for each."""
        return (texts[0], "\n".join(texts[1:]))
