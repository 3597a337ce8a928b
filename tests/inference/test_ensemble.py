"""Ensembles of finished runs: from saved predictions, from weights, and every refusal."""

import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import yaml
from scipy.stats import pearsonr
from sklearn.metrics import accuracy_score

from multitask.inference.ensemble import ensemble
from multitask.store.run_directory import load_lines
from tests.support import commands
from tests.support.commands import main
from tests.support.fabricated_run import CLASSES, write_run
from tests.support.messages import complaint
from tests.support.run_files import report_of

ROWS = 60


def records(run: Path, name: str) -> list[dict]:
    return load_lines(run / "predictions" / f"{name}.jsonl")


def rewritten(run: Path, name: str, result: list[dict]) -> None:
    lines = "".join(json.dumps(record) + "\n" for record in result)
    (run / "predictions" / f"{name}.jsonl").write_text(lines)


def edited_config(run: Path, task: str, **data: object) -> None:
    config = yaml.safe_load((run / "config.yaml").read_text())
    config["tasks"][task]["data"].update(data)
    (run / "config.yaml").write_text(yaml.safe_dump(config))


@pytest.fixture
def runs(tmp_path: Path) -> list[Path]:
    """Three finished runs without weights, as `ablate` leaves them."""
    result = [tmp_path / f"seed-{seed}" for seed in (1, 2, 3)]
    for seed, run in enumerate(result, 1):
        write_run(run, rows=ROWS, seed=seed, noise=0.4)
    return result


def with_test_rows(run: Path, order: list[int]) -> None:
    """Give a run unlabelled test rows of ``para``, without ids, in this order."""
    edited_config(run, "para", test="para-test.csv")
    dev = records(run, "para.dev")
    result = [dev[i] | {"id": str(place), "label": None} for place, i in enumerate(order)]
    rewritten(run, "para.test", result)


def decided(scores: list[float]) -> dict[str, float]:
    """The predictions of each task for averaged scores."""
    paraphrase = int(scores[0] > 0.5)
    number = min(max(scores[0], 0), 5)
    return {"sst": scores.index(max(scores)), "sts": number, "para": paraphrase, "qqp": paraphrase}


# ---- from saved predictions


def test_the_average_of_trials_is_not_to_be_handed_in(runs, capsys):
    assert main("predict", *runs) == 0
    assert "hand" not in capsys.readouterr().err
    for run in runs:
        (run / "report.json").write_text(json.dumps(report_of(run) | {"trial": True}))
    assert main("predict", *runs) == 0
    assert "warning: a trial (--try): " in capsys.readouterr().err


def test_the_saved_predictions_of_runs_without_weights_are_averaged(runs, tmp_path, capsys):
    assert main("predict", *runs, "--output", tmp_path / "all") == 0
    printed = capsys.readouterr().out
    actual = json.loads((tmp_path / "all" / "ensemble.json").read_text())
    assert actual["format"] == 1 and actual["runs"] == [str(run) for run in runs]
    tops = []
    for task in ("sst", "para", "sts"):
        saved = [records(run, f"{task}.dev") for run in runs]
        written = records(tmp_path / "all", f"{task}.dev")
        for i, record in enumerate(written):
            columns = zip(*(member[i]["scores"] for member in saved), strict=True)
            mean = [sum(column) / 3 for column in columns]
            assert record["scores"] == pytest.approx(mean, abs=1e-6)
            assert [record[k] for k in ("id", "label")] == [saved[0][i][k] for k in ("id", "label")]
            assert record["prediction"] == pytest.approx(decided(mean)[task], abs=1e-9)
        gold = [record["label"] for record in written]
        predicted = [record["prediction"] for record in written]
        score = pearsonr(gold, predicted)[0] if task == "sts" else accuracy_score(gold, predicted)
        assert actual["tasks"][task]["ensemble"] == pytest.approx(score)
        members = [report_of(r)["tasks"][task] for r in runs]
        values = [member["dev"][member["metric"]] for member in members]
        assert actual["tasks"][task]["members"] == pytest.approx(values)
        tops.append(score)
        assert f"{score:.3f}" in printed
    assert actual["overall"]["ensemble"] == pytest.approx(np.mean(tops))


def test_without_output_nothing_is_written(runs, tmp_path, capsys):
    before = sorted(tmp_path.rglob("*"))
    assert main("predict", *runs) == 0
    assert "--output DIR" in capsys.readouterr().out
    assert sorted(tmp_path.rglob("*")) == before


def test_test_rows_are_averaged_where_every_run_has_them(runs, tmp_path, capsys):
    for run in runs[:2]:
        with_test_rows(run, [4, 0, 7])
    assert main("predict", *runs[:2], "--output", tmp_path / "two") == 0
    result = records(tmp_path / "two", "para.test")
    for place, i in enumerate([4, 0, 7]):
        scores = [records(run, "para.dev")[i]["scores"][0] for run in runs[:2]]
        assert result[place]["scores"] == pytest.approx([sum(scores) / 2], abs=1e-6)
        assert result[place]["label"] is None
    assert (tmp_path / "two" / "predictions" / "para-test-output.csv").is_file()
    capsys.readouterr()
    assert main("predict", *runs, "--output", tmp_path / "three") == 0
    assert f"para: only dev is predicted, for {runs[2]}" in capsys.readouterr().out
    assert not (tmp_path / "three" / "predictions" / "para.test.jsonl").exists()


def test_tasks_that_a_run_lacks_are_left_out_and_named(runs, tmp_path):
    write_run(tmp_path / "pair", rows=ROWS, seed=4, noise=0.4, only=("sst", "sts"))
    result = ensemble([*runs, tmp_path / "pair"]).gains
    assert list(result["tasks"]) == ["sst", "sts"]
    (note,) = result["notes"]
    assert note.startswith("Left out") and note.endswith(": para.")


# ---- refusals


@pytest.fixture
def refused(capsys) -> Callable[..., str]:
    """Averages runs that cannot be averaged; returns the one line of complaint."""
    return partial(complaint, capsys, "predict")


def test_permuted_rows_are_refused_without_ids_or_labels(runs, refused):
    with_test_rows(runs[0], [0, 1, 2, 3])
    with_test_rows(runs[1], [0, 1, 3, 2])
    line = refused(*runs[:2])
    assert "para: " in line and "test row 3 has another text" in line and str(runs[1]) in line


@pytest.mark.parametrize(
    ("task", "report", "data"),
    [
        ("sst", {"classes": CLASSES[::-1]}, {"labels": CLASSES[::-1]}),
        ("sst", {"classes": CLASSES[:4]}, {"labels": CLASSES[:4]}),
        ("sts", {}, {"label_range": [0, 1]}),
        ("sts", {}, {"label_range": [-1, 5]}),
        ("sts", {"label_type": "binary"}, {"label_range": None}),
        ("para", {"metric": "f1", "dev": {"f1": None}}, {}),
    ],
)
def test_other_labels_are_refused(task, report, data, runs, refused):
    edited_config(runs[1], task, **data)
    saved = report_of(runs[1])
    saved["tasks"][task].update(report)
    (runs[1] / "report.json").write_text(json.dumps(saved))
    line = refused(*runs)
    for word in (f"{task}: ", str(runs[0]), str(runs[1]), " against "):
        assert word in line


def test_a_run_twice_is_refused(runs, tmp_path, refused):
    other_name = tmp_path / "other_name"
    other_name.symlink_to(runs[1])
    line = refused(*runs[:2], other_name)
    assert f"{other_name}: the same run is given twice" in line


def test_runs_without_a_common_task_are_refused(tmp_path, refused):
    write_run(tmp_path / "a", rows=ROWS, only=("sst",))
    write_run(tmp_path / "b", rows=ROWS, only=("sts",))
    line = refused(tmp_path / "a", tmp_path / "b")
    assert "no task in common" in line and f"{tmp_path / 'b'}: sts" in line


def test_unfinished_and_absent_runs_are_refused(runs, tmp_path, refused):
    line = refused(runs[0], tmp_path / "none")
    assert f"{tmp_path / 'none'}: no run there" in line
    (runs[1] / "report.json").unlink()
    assert "when its training ends" in refused(*runs)


def test_what_needs_weights_says_so(runs, refused):
    line = refused(*runs, "data_dir=elsewhere")
    assert "data_dir=elsewhere given, so the run's weights are needed" in line
    for run in runs:
        edited_config(run, "para", test="t.csv")
    line = refused(*runs)
    assert "para.test.jsonl does not exist, so the run's weights are needed" in line


@pytest.mark.parametrize("where", ["seed-1", "file", "data"])
def test_output_never_harms_what_is_there(where, runs, tmp_path, refused):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "train.csv").write_text("mine")
    line = refused(*runs, "--output", tmp_path / where)
    assert "choose another --output DIR" in line


# ---- with weights


@pytest.fixture(scope="module")
def trained(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> list[Path]:
    """Two trained runs; the second one's directory looks like a key=value."""
    root = tmp_path_factory.mktemp("trained")
    more = ["training.lr=1e-3", "training.epochs=1", "training.precision=fp32"]
    return [
        commands.trained(root / name, tiny_encoder, course_files, *more, f"seed={seed}")
        for seed, name in enumerate(("first", "seed=2"))
    ]


def test_weights_predict_what_is_not_saved(trained, tmp_path, monkeypatch, capsys):
    assert main("predict", *trained, "--output", tmp_path / "saved") == 0
    copies = [tmp_path / run.name for run in trained]
    for run, copy in zip(trained, copies, strict=True):
        shutil.copytree(run, copy)
    (copies[0] / "predictions" / "sts.dev.jsonl").unlink()
    (copies[1] / "predictions" / "sst.test.jsonl").unlink()
    monkeypatch.chdir(tmp_path)  # `seed=2` is then a directory, not a key=value
    assert main("predict", "first", "seed=2", "--output", "again") == 0
    # and all of it, where a key=value is given
    assert main("predict", *trained, "device=cpu", "--output", "anew") == 0
    for other in ("again", "anew"):
        for task in ("sst", "qqp", "sts"):
            for split in ("dev", "test"):
                both = (records(tmp_path / name, f"{task}.{split}") for name in ("saved", other))
                for one, two in zip(*both, strict=True):
                    assert one["scores"] == pytest.approx(two["scores"], abs=3e-6)
                    assert one["id"] == two["id"] and one["label"] == two["label"]
    assert len(list((tmp_path / "saved" / "predictions").glob("*-output.csv"))) == 6


def test_a_run_with_its_copy_gains_nothing_and_writes_what_it_wrote(trained, tmp_path):
    run = trained[0]
    copy = shutil.copytree(run, tmp_path / "copy")
    assert main("predict", run, copy, "--output", tmp_path / "twice") == 0
    result = json.loads((tmp_path / "twice" / "ensemble.json").read_text())
    for entry in (*result["tasks"].values(), result["overall"]):
        for key in ("gain_over_mean", "gain_over_best"):
            assert set(entry[key].values()) == {0.0}
    files = sorted((run / "predictions").glob("*-output.csv"))
    assert len(files) == 6
    for file in files:
        first, again = (
            [line.split(" , ") for line in (folder / file.name).read_text().split("\n")[1:-1]]
            for folder in (run / "predictions", tmp_path / "twice" / "predictions")
        )
        assert [row[0] for row in first] == [row[0] for row in again]
        # numbers: saved with six decimals, written with six digits
        values = [float(row[1]) for row in first]
        assert [float(row[1]) for row in again] == pytest.approx(values, abs=2e-5)


@pytest.mark.parametrize(
    ("task", "text"), [("sst", "a good film\n"), ("qqp", "a cat ?\ta dog ?\n"), ("sts", "a\tb\n")]
)
def test_texts_of_the_user_get_the_average(task, text, trained, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text(text)
    options = ("--task", task, "--file", tmp_path / "mine.txt")
    result = []
    for runs in ([trained[0]], [trained[1]], trained):
        capsys.readouterr()
        assert main("predict", *runs, *options) == 0
        result.append(json.loads(capsys.readouterr().out))
    one, two, both = result
    mean = np.mean([one["scores"], two["scores"]], axis=0)
    assert both["scores"] == pytest.approx(mean)
    assert both["texts"] == one["texts"] and set(both) == set(one)
    assert both["prediction"] == pytest.approx(decided(mean.tolist())[task])
