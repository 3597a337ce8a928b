"""The wrong dev predictions of a run, the worst first."""

from pathlib import Path

import pytest

from multitask.config.run_directory import RunDirectory
from multitask.reporting.mistakes import mistakes
from multitask.reporting.page import markdown_block
from tests.support.fabricated_run import CLASSES, write_run
from tests.support.run_files import task_entry


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("runs") / "run"
    write_run(folder, noise=0.4)
    return RunDirectory(folder)


def table_of(run, task):
    """The table of a task's mistakes, and the records that it is made from."""
    records = run.load_predictions(task, "dev")
    return mistakes(run.load_report().tasks[task], records), records


@pytest.mark.parametrize("task", ["sst", "para"])
def test_the_mistakes_are_the_wrong_rows_of_highest_probability(run, task):
    table, records = table_of(run, task)
    wrong = {}
    for record in records:
        if record["prediction"] != record["label"]:
            first = record["scores"][0]
            binary = first if record["prediction"] == 1 else 1 - first
            confidence = binary if task == "para" else max(record["scores"])
            wrong[record["id"]] = (confidence, record)
    assert len(wrong) > 20
    expected = sorted(wrong, key=lambda row: -wrong[row][0])[:20]
    assert [row[0] for row in table.rows] == expected
    assert [row[-1] for row in table.rows] == [f"{wrong[row][0]:.3f}" for row in expected]
    for row in table.rows:
        record = wrong[row[0]][1]
        pair = record["label"], record["prediction"]
        named = [CLASSES[label] for label in pair] if task == "sst" else map(str, pair)
        assert list(row[-3:-1]) == list(named)


def test_the_mistakes_of_numbers_are_the_largest_errors(run):
    table, records = table_of(run, "sts")
    errors = {r["id"]: abs(r["prediction"] - r["label"]) for r in records}
    expected = sorted(errors, key=lambda row: -errors[row])[:20]
    assert [row[0] for row in table.rows] == expected
    assert [row[-1] for row in table.rows] == [f"{errors[row]:.3f}" for row in expected]


def one_mistake(**changes):
    """The table of mistakes of a task with this single dev record."""
    record = {"id": "x", "texts": ["t"], "label": 0, "prediction": 1, "scores": [0.1, 0.9, 0, 0, 0]}
    block = mistakes(task_entry("class", CLASSES), [record | changes])
    return markdown_block(block, Path())


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("a | b \\ c", r"a \| b \\ c"),
        ("two\r\nlines\tand   blanks", "two lines and blanks"),
        ("<b>&amp;</b>", "&lt;b&gt;&amp;amp;&lt;/b&gt;"),
        (
            "[a](b) ![c](d) *e* _f_ `g` ~h~ $i$ # j",
            r"[a]\(b) ![c]\(d) \*e\* \_f\_ \`g\` \~h\~ \$i\$ \# j",
        ),
        ("[brackets] (alone)", "[brackets] (alone)"),
        ("x" * 201, "x" * 199 + "…"),
        ("x" * 200, "x" * 200),
        ("", ""),
    ],
)
def test_texts_are_escaped_and_shortened(text, cell):
    assert (
        one_mistake(texts=[text]).splitlines()[2]
        == f"| x | {cell} | very \\| negative | negative | 0.900 |"
    )


def test_rows_without_label_are_no_mistakes_and_an_undefined_confidence_is_shown():
    assert one_mistake(label=None) == one_mistake(prediction=0) == "None."
    assert one_mistake(scores=[None] * 5).endswith("| - |")
