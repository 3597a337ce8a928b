"""The layout of a paper's table, a YAML file with columns, rows and printed values.

title: MaxPoolBERT, Table 2
source: BERT-base, GLUE dev, mean of 3 seeds     # what the printed values are
paper: {encoder: bert-base-uncased, rows: all, epochs: 4, seeds: 3}
statistic: mean                                  # of our seeds: mean, median or sd
baseline: cls
columns:
  - {title: CoLA MCC, task: cola, metric: mcc}
  - {title: MNLI-mm, task: mnli_mm, metric: accuracy, of: mnli}   # one task of nine
  - {title: RTE 250, task: rte, metric: accuracy, cells: rows_250}    # rows_250-cls is `cls`
  - {title: GLUE avg., mean: columns}            # of those before it; or of tasks, as GLUE's score
rows:
  cls: {title: BERT base, printed: [53.59, 84.57, null, 69.08]}     # in percent; null: not printed
"""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from pydantic import Field

from multitask.config import Strict, parsed
from multitask.config.yaml_merge import load_extended


class Column(Strict):
    """One score: a task and a metric.

    Attributes:
        title: the head of the column.
        task: the task in our runs; without it the column has the paper's values alone.
        metric: its metric, as report.json calls it.
        of: columns with one name are one task in a mean of tasks; default: the task's name.
        cells: a label: the column is about the cells of the grid whose names begin with it, and the
            rows are called what follows it.
        mean: the column is the mean of the columns before it that every row has: `columns`, of
            those that the paper prints; `tasks`, first over the columns of a task, as GLUE's score.
    """

    title: str
    task: str = ""
    metric: str = ""
    of: str | None = None
    cells: str | None = None
    mean: Literal["columns", "tasks"] | None = None


class Row(Strict):
    """One method; its key is its name in the grid.

    Attributes:
        title: the name in the table; default: the key.
        printed: the paper's values in percent, in the order of the columns.
        baseline: the row that this one is compared with; default: the layout's, and none for a row
            that another one names.
    """

    title: str | None = None
    printed: list[float | int | None] = []
    baseline: str | None = None


class PaperSetting(Strict):
    """How the paper's runs were trained, for a warning where ours were not.

    Attributes:
        encoder: its name, as in `encoder.name`.
        rows: training rows per task; `all` if none were left out.
        epochs: the number of epochs.
        seeds: the number of seeds.
    """

    encoder: str | None = None
    rows: int | Literal["all"] | None = None
    epochs: int | None = None
    seeds: int | None = None


class Layout(Strict):
    """The keys of a layout file.

    Attributes:
        title: what the table is.
        source: where the printed values are from.
        paper: how the paper's runs were trained.
        statistic: what is shown of our seeds.
        baseline: the row that others are compared with; default: the first that names none.
        margin: differences whose interval is within ± it, in points, are called equal where the
            paper prints none; default: none are.
        columns: the columns, in order.
        rows: the rows, in order.
        other_rows: whether rows of our runs that are not among ``rows`` follow them.
        curve: what the rows are values of, such as `k`: they are drawn as a curve, without
            ``other_rows``.
    """

    title: str
    source: str | None = None
    paper: PaperSetting | None = None
    statistic: Literal["mean", "median", "sd"] = "mean"
    baseline: str | None = None
    margin: float | None = Field(None, gt=0)
    columns: list[Column] = Field(min_length=1)
    rows: dict[str, Row] = {}
    other_rows: bool = True
    curve: str | None = None

    @property
    def takes_other_rows(self) -> bool:
        """Return True if rows of our runs that are not among ``rows`` are in the table."""
        return self.other_rows and not self.curve

    def baselines(self, names: Sequence[str]) -> tuple[str, dict[str, str | None]]:
        """Return the baseline of rows that name none, and that of each row of ``names``.

        By default the first is the first row that names none. A row that others are compared with
        is compared with none, unless it names one.
        """
        own = {name: row.baseline for name, row in self.rows.items()}
        first = self.baseline or next((n for n in names if not own.get(n)), names[0])
        compared_with = {first, *own.values()}
        return first, {
            name: own.get(name) or (None if name in compared_with else first) for name in names
        }


def load_layout(path: str | os.PathLike[str]) -> Layout:
    """Read a layout file. Raises UserError: one line with file, line and key path."""
    tree = load_extended(Path(path))
    layout = parsed(tree, Layout)
    for place, column in enumerate(layout.columns):
        if column.title in [before.title for before in layout.columns[:place]]:
            raise tree.error(("columns", place, "title"), "an earlier column has this title")
    for name, row in layout.rows.items():
        if row.printed and len(row.printed) != len(layout.columns):
            message = f"{len(row.printed)} values for {len(layout.columns)} columns"
            raise tree.error(("rows", name, "printed"), message)
        others = [key for key in layout.rows if key != name]
        if row.baseline is not None and row.baseline not in others:
            message = f"expected one of {', '.join(others)}"
            raise tree.error(("rows", name, "baseline"), message)
    return layout
