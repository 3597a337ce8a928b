"""``importance RUN``: pictures and numbers of a run with HIRE, from weights and from its log."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.data.collate import collate

HIRE = "{name: hire, dropout: 0}"


def main(*arguments: object) -> int:
    return run_multitask.main(["importance", *(str(argument) for argument in arguments)])


@pytest.fixture(scope="module")
def run_dir(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A run in which `sst` and `qqp` (siamese) pool with HIRE, and `sts` does not."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    changes = [f"tasks.{task}.max_length=48" for task in ("sst", "qqp", "sts")]
    changes += [f"tasks.sst.pooling={HIRE}", "tasks.qqp.pooling={name: hire, layers: [0, 2]}"]
    changes += ["training.max_steps=6", "training.eval_steps=2", "training.frozen_baseline=false"]
    changes += ["training.precision=fp32", "training.select=per_task"]
    names = [f"data_dir={course_files}", f"encoder.name={tiny_encoder}", f"output_dir={directory}"]
    assert run_multitask.main(["configs/cs224n.yaml", *names, *changes]) == 0
    return directory


def expected(run_dir: Path, task: str) -> np.ndarray:
    """S of every dev sentence, one by one, from the pooler's own method."""
    trained = load(run_dir)
    split, model = trained.load_split(task, "dev"), trained.model_for(task)
    found = []
    for row in range(len(split.rows)):
        batch = collate(split.tokens, np.array([row]), pad_id=0)
        for side in range(batch.sides):
            ids, mask = batch.input_ids[side : side + 1], batch.attention_mask[side : side + 1]
            with torch.no_grad():
                embedded = model.encoder.embed(ids, torch.zeros_like(ids), mask)
                pooler = model.module(task).pooler
                hidden = model.encoder.encode(embedded, mask, pooler.layers)
                found.append(pooler.importance(hidden, mask)[0].numpy())
    return np.array(found)


def test_a_run_gives_pictures_and_numbers(run_dir, tmp_path, capsys):
    assert main(run_dir, "--examples", 4, "--output", tmp_path / "new" / "map.png") == 0
    names = {f"map{part}.{end}" for part in ("", "-sst", "-qqp") for end in ("png", "svg")}
    names.add("map.json")
    assert {file.name for file in (tmp_path / "new").iterdir()} == names
    assert capsys.readouterr().out.count("written: ") == len(names)
    sst, qqp = json.loads((tmp_path / "new" / "map.json").read_text())
    for found, rows, states in ((sst, 12, [0, 1, 2]), (qqp, 24, [0, 2])):
        weights = expected(run_dir, found["task"])
        assert (found["run"], found["split"], found["layers"]) == (str(run_dir), "dev", 2)
        assert (found["rows"], found["states"]) == (rows, states)
        np.testing.assert_allclose(found["mean"], weights.mean(0), rtol=1e-5)
        kept = 4 * rows // 12
        assert len(found["texts"]) == kept
        np.testing.assert_allclose(found["weights"], weights[:kept], rtol=1e-5)
        assert 0 <= found["above_0"] <= 1


def test_evaluations_log_the_same_numbers(run_dir):
    lines = [json.loads(line) for line in (run_dir / "metrics.jsonl").open()]
    logged = [line for line in lines if line["event"] == "importance"]
    steps = [line["step"] for line in lines if line["event"] == "eval"]
    assert [(line["step"], line["task"]) for line in logged] == [
        (step, task) for step in steps for task in ("sst", "qqp")
    ]
    report = json.loads((run_dir / "report.json").read_text())
    for task, rows in (("sst", 12), ("qqp", 24)):
        step = report["tasks"][task]["selected_step"]
        (line,) = [line for line in logged if (line["step"], line["task"]) == (step, task)]
        assert (line["split"], line["rows"], line["layers"]) == ("dev", rows, 2)
        np.testing.assert_allclose(line["mean"], expected(run_dir, task).mean(0), rtol=1e-5)
    (evaluated,) = {tuple(line["tasks"]["sst"]) for line in lines if line["event"] == "eval"}
    assert "mean" not in evaluated


def test_a_run_without_weights_is_drawn_from_its_log(run_dir, tmp_path):
    copy = shutil.copytree(run_dir, tmp_path / "copy")
    for name in ("weights", "checkpoints", "encoder"):
        shutil.rmtree(copy / name)
    assert main(copy) == 0
    assert {file.name for file in copy.glob("importance*")} == {
        "importance.png", "importance.svg", "importance.json",
    }  # fmt: skip
    found = {one["task"]: one for one in json.loads((copy / "importance.json").read_text())}
    np.testing.assert_allclose(found["sst"]["mean"], expected(run_dir, "sst").mean(0), rtol=1e-5)
    assert found["qqp"]["texts"] == []


def test_texts_of_ones_own(run_dir, tmp_path):
    texts = ["a good film", "a bad film\tthe cat"]
    choice = [word for text in texts for word in ("--text", text)]
    assert main(run_dir, "--task", "sst", *choice, "--output", tmp_path) == 0
    (found,) = json.loads((tmp_path / "importance.json").read_text())
    assert (found["split"], found["rows"]) == ("texts", 2)
    assert found["texts"] == ["a good film", "a bad film / the cat"]


def test_several_runs_stand_below_one_another(run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run_dir, tmp_path / "other")
    assert main(run_dir, "other", "--task", "sst", "--examples", 1) == 0
    found = json.loads((tmp_path / "importance.json").read_text())
    assert [one["run"] for one in found] == [str(run_dir), "other"]
    assert {file.name for file in tmp_path.glob("*.png")} == {
        "importance.png", "importance-run-sst.png", "importance-other-sst.png",
    }  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["RUN", "--task", "ssst"], "RUN: no task 'ssst' (did you mean 'sst'?)"),
        (["RUN", "--task", "sts"], "RUN: task sts pools with no scores of hidden states"),
        (["RUN", "--text", " "], "--text: the text is empty"),
        (["RUN", "--examples", "-1"], "--examples: 0 or more, not -1"),
        (["NONE"], "NONE: no run there (config.yaml is missing)"),
        (["RUN", "seeed=1"], "seeed: unknown key (did you mean 'seed'?)"),
    ],
)
def test_bad_input_is_one_line(arguments, message, run_dir, tmp_path, capsys):
    for short, long in (("RUN", run_dir), ("NONE", tmp_path / "none")):
        arguments = [word.replace(short, str(long)) for word in arguments]
        message = message.replace(short, str(long))
    capsys.readouterr()
    assert main(*arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert message in line
