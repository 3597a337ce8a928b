"""Prediction files: JSON lines for everyone, the CS224N course's format, the GLUE server's."""

import json
from pathlib import Path

import numpy as np

from multitask.config import CourseFileConfig
from multitask.inference.scoring import Scores
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.glue import submission
from multitask.tasks.metric_names import OUTCOMES
from multitask.tasks.records import in_words, numbers_of
from multitask.utils.files import write_text


def write_predictions(
    run_dir: Path,
    task: str,
    split: str,
    rows: Rows,
    scores: Scores,
    reader: LabelReader,
    course_file: CourseFileConfig | None,
    glue_file: str | None = None,
) -> list[Path]:
    """Write ``predictions/TASK.SPLIT.jsonl``; for dev and test also the course's file, for test
    also the GLUE server's (``predictions/glue/NAME.tsv``).

    Numbers are clipped to the label range in the files (and nowhere else).
    """
    directory = run_dir / "predictions"
    directory.mkdir(exist_ok=True)
    predictions = scores.predictions
    if reader.label_type == "number":
        predictions = np.clip(predictions, reader.low, reader.high)
    worded = None
    if reader.label_type in OUTCOMES:
        worded = list(in_words(rows, reader, predictions, scores.scores))
    lines = []
    for i, (name, texts) in enumerate(zip(rows.ids, rows.texts, strict=True)):
        if worded is not None:
            record = {"id": name, "texts": texts, **worded[i]}
            lines.append(json.dumps(record, ensure_ascii=False))
            continue
        if reader.label_type == "labels":
            label = None if rows.labels is None else numbers_of(rows.labels[i])
            prediction = numbers_of(predictions[i])
        else:
            label = None if rows.labels is None else rows.labels[i].tolist()
            prediction = predictions[i].item()
        record = {
            "id": name,
            "texts": texts,
            "label": label,
            "prediction": prediction,
            "scores": [round(float(score), 6) for score in scores.scores[i]],
        }
        lines.append(json.dumps(record, ensure_ascii=False))
    written = [directory / f"{task}.{split}.jsonl"]
    write_text(written[0], "\n".join(lines) + "\n")
    if course_file is not None and split in ("dev", "test"):
        written.append(directory / f"{course_file.name}-{split}-output.csv")
        write_text(written[1], course_text(course_file.column, rows.ids, predictions, reader))
    if glue_file is not None and split == "test":
        written.append(directory / "glue" / f"{glue_file}.tsv")
        written[-1].parent.mkdir(exist_ok=True)
        write_text(written[-1], submission(glue_file, rows.ids, predictions, reader.names))
    return written


def course_text(column: str, ids: list[str], predictions: np.ndarray, reader: LabelReader) -> str:
    """The course's file to the letter: header ``id \\t COLUMN \\n``, rows ``ID , VALUE \\n``.

    Classes are written as the value in the data files, paraphrase labels as 0.0 and 1.0.
    """
    if reader.label_type == "class":
        value_of = {number: value for value, number in reversed(reader.ids.items())}
        values = [value_of[int(prediction)] for prediction in predictions]
    elif reader.label_type == "binary":
        values = [f"{float(prediction):.1f}" for prediction in predictions]
    else:
        values = [f"{prediction:.6g}" for prediction in predictions]
    rows = [f"{name} , {value} \n" for name, value in zip(ids, values, strict=True)]
    return "".join([f"id \t {column} \n", *rows])
