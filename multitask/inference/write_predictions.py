"""Write prediction files: JSON lines, the formats of courses, the GLUE server's."""

import json
from pathlib import Path

from multitask.config import TaskConfig
from multitask.data.readers.course_files import course_text
from multitask.inference.scoring import Scores
from multitask.store.run_directory import RunDirectory
from multitask.tasks.glue import submission
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.records import file_records
from multitask.tasks.rows import Rows


def write_predictions(
    run: RunDirectory,
    task: str,
    split: str,
    *,
    rows: Rows,
    scores: Scores,
    reader: LabelReader,
    entry: TaskConfig | None = None,
) -> list[Path]:
    """Write ``predictions/TASK.SPLIT.jsonl`` and return the paths of all files.

    ``entry`` is the task's config, which may name two more files: the course's for dev and test,
    and the GLUE server's for test (``predictions/glue/NAME.tsv``). The files have the predictions
    that are scored.
    """
    predictions = scores.predictions
    records = file_records(rows, reader, predictions, scores.scores)
    lines = [json.dumps(record, ensure_ascii=False) for record in records]
    written = [run.write_text(run.predictions_of(task, split), "\n".join(lines) + "\n")]
    course_file, glue_file = (entry.course_file, entry.glue_file) if entry else (None, None)
    if course_file is not None and split in ("dev", "test"):
        values = reader.task_type.course_values(predictions, reader)
        text = course_text(course_file.format, course_file.column, rows.ids, values)
        written.append(run.write_text(run.course_file(course_file.name, split), text))
    if glue_file is not None and split == "test":
        text = submission(glue_file, rows.ids, predictions, reader.names)
        written.append(run.write_text(run.glue_file(glue_file), text))
    return written


def prediction_files(run: RunDirectory, task: str, split: str, entry: TaskConfig) -> list[Path]:
    """Return the paths of the files that ``write_predictions`` writes."""
    files = [run.predictions_of(task, split)]
    if entry.course_file is not None and split in ("dev", "test"):
        files.append(run.course_file(entry.course_file.name, split))
    if entry.glue_file is not None and split == "test":
        files.append(run.glue_file(entry.glue_file))
    return files
