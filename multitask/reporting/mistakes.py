"""The wrong dev predictions of a finished run, the worst first."""

from typing import Any

from multitask.config.registry import task_type
from multitask.config.saved.report_model import TaskReport
from multitask.reporting.page import Text
from multitask.reporting.table_formats import Table, score
from multitask.tasks.rows import ordinal

MISTAKES = 20
TEXT_WIDTH = 200


def mistakes(result: TaskReport, records: list[dict[str, Any]]) -> Table | Text:
    """List the wrong dev predictions, the worst first; ``TaskType.mistake`` measures them.

    ``records`` are saved predictions, whose keys depend on the task type.
    """
    kind, classes = task_type(result.label_type), result.classes or ()
    labelled = [record for record in records if None not in (record["label"], record["prediction"])]
    pairs = [(kind.mistake(record, classes), record) for record in labelled]
    wrong = [(mistake, record) for mistake, record in pairs if mistake is not None]
    if not wrong:
        return Text("None.")
    # an undefined confidence (a diverged model) comes last
    wrong.sort(key=lambda pair: -1.0 if pair[0].size is None else pair[0].size, reverse=True)

    count = len(wrong[0][1]["texts"])
    titles = [f"{ordinal(number)} text" for number in range(count)] if count > 1 else ["text"]
    titles = [*kind.shown_texts] or titles
    rows = [
        (
            record["id"],
            *map(_shortened, record["texts"][: len(titles)]),
            _shortened(mistake.gold),
            _shortened(mistake.predicted),
            score(mistake.size),
        )
        for mistake, record in wrong[:MISTAKES]
    ]
    return Table(("id", *titles, "gold", "predicted", kind.mistakes_by), rows)


def _shortened(text: str) -> str:
    """Put the text on one line and cut it at TEXT_WIDTH characters."""
    line = " ".join(text.split())
    return line if len(line) <= TEXT_WIDTH else line[: TEXT_WIDTH - 1] + "…"
