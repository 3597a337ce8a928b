"""The prediction files of the GLUE server: one per task (gluebenchmark.com).

The numbers of labels differ between tasks and between copies of the data (RTE and QNLI: 0 is
entailment; MNLI: 0, 1, 2 are entailment, neutral, contradiction; other copies of MNLI have the
opposite order). So files with words are written by class name, and a file with numbers is refused
if a config reads 0 and 1 in another order. No torch, no config.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from multitask.utils.errors import UserError

if TYPE_CHECKING:
    import numpy as np  # slow to import, and this module is imported with every config

    from multitask.tasks.label_reader import LabelReader

ENTAILMENT = ("entailment", "not_entailment")
NLI = ("entailment", "neutral", "contradiction")
NUMBERS = ("0", "1")


# the files of the server: number of test rows, labels (none for the numbers of STS-B)
FILES: dict[str, tuple[int, tuple[str, ...]]] = {
    "CoLA": (1063, NUMBERS),
    "SST-2": (1821, NUMBERS),
    "MRPC": (1725, NUMBERS),
    "QQP": (390965, NUMBERS),
    "STS-B": (1379, ()),
    "MNLI-m": (9796, NLI),
    "MNLI-mm": (9847, NLI),
    "QNLI": (5463, ENTAILMENT),
    "RTE": (3000, ENTAILMENT),
    "WNLI": (146, NUMBERS),
    "AX": (1104, NLI),
}


def check_labels(name: str, reader: "LabelReader") -> None:
    """Raise UserError if the labels of a task do not fit the file ``name``."""
    wanted = FILES[name][1]
    if not wanted:
        numbers = reader.task_type.described_by == "label_range"
        if not numbers or reader.low != 0 or reader.high > 5:
            raise UserError(f"{name}.tsv holds numbers from 0 to 5: give `label_range: [0, 5]`")
    elif wanted == NUMBERS:
        if len(reader.names) != 2 or [reader.ids.get(value) for value in NUMBERS] != [0, 1]:
            raise UserError(
                f"{name}.tsv holds 0 and 1 as in the official files: `labels` must name 0, then 1"
            )
    elif sorted(reader.names) != sorted(wanted):
        shown = ", ".join(wanted)
        raise UserError(f"{name}.tsv holds the words {shown}: `labels` must name them so")


def check_index(name: str, ids: Sequence[str]) -> str | None:
    """Return a remark if the number of rows is not that of GLUE's test set.

    Raises UserError if ``ids`` are not the numbers 0 to N - 1, each once, in any order.
    """
    wrong = next((name for name in ids if not name.isdecimal()), None)
    if wrong is not None:
        raise UserError(f"{name}.tsv needs the rows' index, and a test row has the id {wrong!r}")
    if sorted(map(int, ids)) != list(range(len(ids))):
        raise UserError(f"{name}.tsv needs every test row once, with the index 0 to {len(ids) - 1}")
    if len(ids) != FILES[name][0]:
        return f"{name}.tsv: {len(ids):,} test rows, and the server wants {FILES[name][0]:,}"
    return None


def submission(
    name: str, ids: Sequence[str], predictions: "np.ndarray", names: Sequence[str]
) -> str:
    """Return the text of a file of the server: a header, then index and prediction per row.

    Args:
        name: a key of ``FILES``.
        ids: the index of each row, 0 to N - 1, in any order.
        predictions: class ids or numbers [N]; numbers are clipped to 0 to 5.
        names: the names of the classes.

    Raises:
        UserError: see ``check_index``.
    """
    check_index(name, ids)
    labels = FILES[name][1]
    if not labels:
        values = [f"{number:.5f}" for number in predictions.clip(0, 5)]
    elif labels == NUMBERS:
        values = [str(int(number)) for number in predictions]
    else:
        values = [names[int(number)] for number in predictions]
    rows = sorted((int(index), value) for index, value in zip(ids, values, strict=True))
    return "".join(["index\tprediction\n", *(f"{place}\t{value}\n" for place, value in rows)])
