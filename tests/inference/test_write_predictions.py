"""Prediction files: JSON lines, and the format of the course."""

import json
from pathlib import Path

import numpy as np
import pytest

from multitask.config import Choice, CourseFileConfig, DataConfig, TaskConfig
from multitask.config.registry import task_type
from multitask.inference.scoring import Scores
from multitask.inference.write_predictions import write_predictions
from multitask.store.run_directory import RunDirectory
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows

NUMBERS = LabelReader(task_type("number"), {}, (), 0.0, 5.0)
COURSE = TaskConfig(
    data=DataConfig(train="train.csv"),
    head=Choice(name="cosine_regression"),
    course_file=CourseFileConfig(name="sts", column="Predicted_Similiary"),
)


def scores_of(*predictions: float) -> Scores:
    values = np.array(predictions)
    return Scores(values, values[:, None].astype(float), float("nan"))


@pytest.mark.parametrize("split", ["dev", "test", "holdout"])
def test_files_of_a_split(split, tmp_path: Path):
    labels = None if split == "test" else np.array([1.0, 2.0, 5.0])
    texts = [("a\u2028b", "é"), ("c\nd\x85\x1c\x7f", "\r\n"), ("e", "f")]
    rows = Rows("file", ["x", "y", "z"], texts, labels)
    how = {"rows": rows, "scores": scores_of(0.0, 2.25, 5.0), "reader": NUMBERS, "entry": COURSE}
    written = write_predictions(RunDirectory(tmp_path), "similarity", split, **how)
    names = [f"similarity.{split}.jsonl"]
    names += [] if split == "holdout" else [f"sts-{split}-output.csv"]
    assert [file.relative_to(tmp_path / "predictions").name for file in written] == names

    lines = written[0].read_text(encoding="utf-8").split("\n")
    records = [json.loads(line) for line in lines[:-1]]
    gold = [None] * 3 if labels is None else labels.tolist()
    for place, (name, label, number) in enumerate(zip("xyz", gold, [0.0, 2.25, 5.0], strict=True)):
        record = {"label": label, "prediction": number, "scores": [number]}
        assert records[place] == {"id": name, "texts": list(rows.texts[place]), **record}
    if split != "holdout":
        assert written[1].read_text() == ("id \t Predicted_Similiary \nx , 0 \ny , 2.25 \nz , 5 \n")


def test_no_course_file_without_its_settings(tmp_path):
    rows = Rows("file", ["x"], [("a",)], None)
    (file,) = write_predictions(
        RunDirectory(tmp_path), "t", "dev", rows=rows, scores=scores_of(1.0), reader=NUMBERS
    )
    assert file.name == "t.dev.jsonl"
