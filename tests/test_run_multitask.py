"""Every command end to end on a tiny encoder: check, train, evaluate, predict, the notebook API."""

import csv
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import run_multitask
from multitask import UserError, load
from tests.conftest import ROOT

COURSE_HEADERS = {
    "sst": "id \t Predicted_Sentiment ",
    "para": "id \t Predicted_Is_Paraphrase ",
    "sts": "id \t Predicted_Similiary ",
}


def main(*arguments: object) -> int:
    return run_multitask.main([str(argument) for argument in arguments])


@pytest.fixture(scope="module")
def run_dir(
    tiny_encoder: Path, course_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    directory = tmp_path_factory.mktemp("runs") / "run"
    lengths = [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts")]
    assert (
        main(
            "configs/cs224n.yaml",
            f"data_dir={course_files}",
            f"encoder.name={tiny_encoder}",
            f"output_dir={directory}",
            "training.epochs=2",
            "training.precision=fp32",
            "training.select=per_task",
            "training.holdout=0.2",
            *lengths,
        )
        == 0
    )
    return directory


def read_jsonl(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_check_prints_the_plan_and_writes_nothing(tiny_overrides, capsys):
    above = ["tasks.sts.projection=mlp", "tasks.sts.adapter={name: pal, size: 4, heads: 2}"]
    assert main("check", "configs/cs224n.yaml", *tiny_overrides, *above) == 0
    plan = capsys.readouterr().out
    for words in (
        "sst   train  40",
        "negative 8, somewhat negative 8",
        "numbers from 0 to 5",
        "encoder: ",
        "tasks.sst: 165",  # 32 * 5 + 5
        "tasks.qqp: 33",
        "sts   mean     mlp         cosine_regression   pal (size 4, heads 2)  -",
        "steps: 18 planned",
        "2 of them warm-up",
        "sampling share  loss weight",
        "33.3%",
        "sst (label ",
        "[CLS]",
        "    u ",
        "    v ",
    ):
        assert words in plan, words
    output = next(o for o in tiny_overrides if o.startswith("output_dir=")).partition("=")[2]
    assert not Path(output).exists()


def test_check_shows_both_segments_of_a_cross_encoded_pair(tiny_overrides, capsys):
    cross = ["tasks.qqp.input=cross", "tasks.qqp.pooling=cls", "tasks.qqp.head=binary"]
    assert main("check", "configs/cs224n.yaml", *tiny_overrides, *cross) == 0
    assert "(segments: 2)" in capsys.readouterr().out


def test_run_directory_holds_what_is_documented(run_dir):
    names = {path.name for path in run_dir.iterdir()}
    assert names >= {
        "config.yaml",
        "metrics.jsonl",
        "report.json",
        "report.md",
        "report.html",
        "predictions",
        "figures",
        "encoder",
        "weights",
    }
    report = json.loads((run_dir / "report.json").read_text())
    values = [report["tasks"][t]["dev"][report["tasks"][t]["metric"]] for t in report["tasks"]]
    r = values[2]
    assert report["overall"]["mean"] == pytest.approx(np.mean(values))
    assert report["overall"]["cs224n"] == pytest.approx(np.mean([*values[:2], (r + 1) / 2]))
    assert report["selection_split"] == "holdout"
    assert report["tasks"]["sst"]["baselines"]["frozen"]["accuracy"] is not None
    assert set(report["tasks"]["sst"]["data"]) == {"train", "dev", "test", "holdout"}


def test_predictions_stand_in_file_order(run_dir, course_files):
    with (course_files / "ids-sst-dev.csv").open() as file:
        expected = [row["id"] for row in csv.DictReader(file, delimiter="\t")]
    found = [record["id"] for record in read_jsonl(run_dir / "predictions" / "sst.dev.jsonl")]
    assert found == expected


@pytest.mark.parametrize("name", COURSE_HEADERS)
@pytest.mark.parametrize("split", ["dev", "test"])
def test_course_files_are_written_to_the_letter(name, split, run_dir):
    text = (run_dir / "predictions" / f"{name}-{split}-output.csv").read_text()
    header, *rows = text.split("\n")[:-1]
    assert header == COURSE_HEADERS[name]
    assert len(rows) == (12 if split == "dev" else 6)
    for row in rows:
        identifier, value = row.split(" , ")
        assert identifier and value.endswith(" ") and not value.endswith("  ")
        if name == "sst":
            assert value.strip() in {"0", "1", "2", "3", "4"}
        elif name == "para":
            assert value.strip() in {"0.0", "1.0"}
        else:
            assert 0 <= float(value) <= 5


def test_evaluate_repeats_the_report(run_dir, capsys):
    assert main("evaluate", run_dir) == 0
    assert "sst      accuracy" in capsys.readouterr().out
    report = json.loads((run_dir / "report.json").read_text())
    again = json.loads((run_dir / "evaluation-dev.json").read_text())
    for task, entry in report["tasks"].items():
        assert again[task]["metrics"] == entry["dev"]
        assert again[task]["intervals"] == entry["dev_intervals"]


def test_evaluate_on_an_unlabelled_test_split_says_so(run_dir, capsys):
    assert main("evaluate", run_dir, "--split", "test") == 2
    captured = capsys.readouterr()
    assert "has no labels" in captured.out and "no task has a labelled test" in captured.err


def test_predict_rewrites_the_same_files(run_dir):
    files = sorted((run_dir / "predictions").glob("*-output.csv"))
    before = {file.name: file.read_bytes() for file in files}
    assert len(before) == 6
    for file in files:
        file.unlink()
    assert main("predict", run_dir) == 0
    assert {file.name: file.read_bytes() for file in files} == before


FRESH = """
import json, sys
from multitask import load
run = load(sys.argv[1])
texts = json.loads(sys.argv[2])
print(json.dumps({task: run.predict(task, items) for task, items in texts.items()}))
"""


def test_fresh_process_predicts_the_same_for_every_task(run_dir):
    texts = {}
    for task in ("sst", "qqp", "sts"):
        records = read_jsonl(run_dir / "predictions" / f"{task}.dev.jsonl")
        texts[task] = [r["texts"] if len(r["texts"]) > 1 else r["texts"][0] for r in records]
    result = subprocess.run(
        [sys.executable, "-c", FRESH, str(run_dir), json.dumps(texts)],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    found = json.loads(result.stdout)
    for task in texts:
        records = read_jsonl(run_dir / "predictions" / f"{task}.dev.jsonl")
        for record, again in zip(records, found[task], strict=True):
            np.testing.assert_allclose(again["scores"], record["scores"], atol=2e-6)


def test_predict_texts_of_ones_own(run_dir, tmp_path, capsys):
    pairs = tmp_path / "pairs.txt"
    pairs.write_text("the cat runs .\tthe dog runs .\na man\ta woman\n")
    assert main("predict", run_dir, "--task", "sts", "--file", pairs) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["texts"][0] for record in printed] == ["the cat runs .", "a man"]
    table = tmp_path / "own.jsonl"
    table.write_text('{"sentence": "a good film", "id": "x"}\n')
    output = tmp_path / "found.jsonl"
    assert main("predict", run_dir, "--task", "sst", "--file", table, "--output", output) == 0
    (record,) = read_jsonl(output)
    assert record["name"] in (
        "negative",
        "somewhat negative",
        "neutral",
        "somewhat positive",
        "positive",
    )
    assert record["prediction"] == int(np.argmax(record["scores"]))
    assert (record["id"], record["texts"]) == ("x", ["a good film"])
    # predictions may be written anew; nothing else is overwritten
    assert main("predict", run_dir, "--task", "sst", "--file", table, "--output", output) == 0
    before = table.read_text()
    for place, words in ((table, "holds no predictions"), (tmp_path, "is a directory")):
        assert main("predict", run_dir, "--task", "sst", "--file", table, "--output", place) == 2
        assert words in capsys.readouterr().err
    assert table.read_text() == before


def test_texts_of_ones_own_need_no_ids(run_dir, tmp_path, capsys):
    table = tmp_path / "own.jsonl"
    table.write_text('{"sentence": "a good film"}\n{"sentence": "a bad film"}\n')
    assert main("predict", run_dir, "--task", "sst", "--file", table) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert [record["id"] for record in printed] == ["0", "1"]


@pytest.mark.parametrize("content", ["{", "[]", "{}", '{"joint": "x"}', '{"joint": true}'])
def test_a_damaged_list_of_best_steps_is_one_line(content, run_dir, tmp_path, capsys):
    hurt = tmp_path / "hurt"
    shutil.copytree(run_dir, hurt)
    (hurt / "best.json").write_text(content)
    assert main("evaluate", hurt) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1 and "best.json is damaged: go on with --resume" in error


def test_notebook_interface(run_dir):
    run = load(run_dir)
    assert run.tasks == ["sst", "qqp", "sts"]
    (good,) = run.predict("sst", ["a good film"])
    assert set(good) == {"prediction", "name", "scores"} and len(good["scores"]) == 5
    vectors = run.encode(["the cat runs .", "a man", "the cat runs ."])
    assert vectors.shape == (3, 32) and vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], vectors[2], atol=1e-6)
    (pair,) = run.predict("sts", [("the cat runs .", "a man")])
    a, b = run.encode(["the cat runs .", "a man"], task="sts")
    cosine = a @ b / np.linalg.norm(a) / np.linalg.norm(b)
    assert pair["prediction"] == pytest.approx(5 * cosine, abs=1e-4)
    for wrong in (lambda: run.predict("sst", [("a", "b")]), lambda: run.predict("nli", ["a"])):
        with pytest.raises(UserError):
            wrong()


def test_overrides_that_do_not_fit_the_weights_are_refused(run_dir, capsys):
    assert main("evaluate", run_dir, "tasks.sst.projection=tanh") == 2
    assert "do not fit the config" in capsys.readouterr().err


@pytest.mark.parametrize("texts", ["great", [], [None], [float("nan")], [["a", "b"]]])
def test_texts_of_another_shape_are_refused(texts, run_dir):
    with pytest.raises(UserError, match="single texts"):
        load(run_dir).predict("sst", texts)


def test_saved_config_reproduces_the_run(run_dir, tmp_path):
    again = tmp_path / "again"
    assert main(run_dir / "config.yaml", f"output_dir={again}") == 0
    first, second = ((d / "metrics.jsonl").read_bytes() for d in (run_dir, again))
    assert first == second


def test_frozen_encoder_run_trains_heads_only(tiny_overrides, capsys):
    assert main("configs/cs224n.yaml", *tiny_overrides, "encoder.freeze=true") == 0
    output = capsys.readouterr().out
    assert "sts: nothing to train" in output


def test_help_lists_every_command(capsys):
    assert main("--help") == 0
    text = capsys.readouterr().out
    options = ("--resume", "--overwrite", "--split", "--task", "--file", "--text", "--heads")
    for words in (*options, "key=value", "CONFIG"):
        assert words in text


def test_hub_preset_needs_no_data_dir(capsys):
    """The hub is not reachable in tests: what fails is the data set, not `data_dir`."""
    assert main("check", "configs/cs224n_hub.yaml") == 2
    assert "cannot load the data set 'SetFit/sst5', split 'train'" in capsys.readouterr().err


@pytest.mark.slow
def test_cfimdb_preset_on_the_real_files(course_data, tiny_encoder, tmp_path, capsys):
    lengths = [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts", "cfimdb")]
    assert (
        main(
            "check",
            "configs/cs224n_cfimdb.yaml",
            f"data_dir={course_data}",
            f"encoder.name={tiny_encoder}",
            f"output_dir={tmp_path}",
            *lengths,
        )
        == 0
    )
    plan = capsys.readouterr().out
    assert "cfimdb  train  1707" in plan and "cfimdb  dev    245" in plan
    assert "of train inputs truncated at 48 tokens" in plan
