"""``importance RUN``: pictures and numbers of hidden states' weights, from a run or its log."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from multitask import load
from multitask.data.collate import collate
from multitask.store.run_directory import load_lines
from tests.support.commands import main, trained
from tests.support.messages import complaint
from tests.support.run_files import events, report_of

HIRE = "{name: hire, dropout: 0}"


@pytest.fixture(scope="module")
def run_dir(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A run in which `sst` and `qqp` (siamese) pool with HIRE, and `sts` does not."""
    directory = tmp_path_factory.mktemp("runs") / "run"
    changes = [f"tasks.sst.pooling={HIRE}", "tasks.qqp.pooling={name: hire, layers: [0, 2]}"]
    changes += ["training.max_steps=6", "training.eval_steps=2", "training.select=per_task"]
    changes.append("training.precision=fp32")
    return trained(directory, tiny_encoder, course_files, *changes)


@pytest.fixture(scope="module")
def attention_runs(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> list[Path]:
    """Two runs in which `sts` (siamese) pools with layer attention, with and without the concat.

    `qqp` uses the pooling of `sts`; `sst` trains with such a pooling and is scored without it.
    """
    directory = tmp_path_factory.mktemp("attention")
    pooling = "{name: layer_attention, scale: 1, concat_cls_last: %s}"
    changes = ["tasks.qqp.share_pooling=sts", "training.precision=fp32"]
    changes += ["tasks.sst.pooling={name: layer_attention, concat_cls_last: false}"]
    changes += ["tasks.sst.eval_pooling=cls", "training.max_steps=3", "training.head_lr=0.1"]
    return [
        trained(
            directory / name,
            tiny_encoder,
            course_files,
            *changes,
            *(f"tasks.{task}.pooling={pooling % concat}" for task in ("qqp", "sts")),
        )
        for name, concat in (("concat", "true"), ("alone", "false"))
    ]


def expected(run_dir: Path, task: str) -> np.ndarray:
    """The weights of every distinct dev sentence, from the pooler's own method."""
    weights, _, distinct = one_by_one(run_dir, task)
    return weights[distinct]


def one_by_one(run_dir: Path, task: str) -> tuple[np.ndarray, np.ndarray, list[int]]:
    """The weights of every dev sentence, its number of tokens, and where each first stands."""
    trained = load(run_dir)
    split, model = trained.load_split(task, "dev"), trained.model_for(task)
    result, lengths, first = [], [], {}
    for row in range(len(split.rows)):
        batch = collate(split.tokens, np.array([row]), pad_id=0)
        for side in range(batch.sides):
            length = batch.attention_mask[side].sum()  # of this sentence, without the other's pads
            ids = batch.input_ids[side : side + 1, :length]
            mask = torch.ones_like(ids)
            with torch.no_grad():
                embedded = model.encoder.embed(ids, torch.zeros_like(ids), mask)
                pooler = model.module(task).pooler
                hidden = model.encoder.encode(embedded, mask, pooler.layers)
                first.setdefault(tuple(ids[0].tolist()), len(result))
                result.append(pooler.importance(hidden, mask)[0].numpy())
            lengths.append(mask.sum().item())
    return np.array(result), np.array(lengths), list(first.values())


def test_a_run_gives_pictures_and_numbers(run_dir, tmp_path, capsys):
    output = ["--examples", 4, "--output", tmp_path / "new" / "map.png"]
    assert main("importance", run_dir, *output) == 0
    parts = ("", "_lengths", "-sst", "-qqp")
    names = {"map.json", *(f"map{part}.{end}" for part in parts for end in ("png", "svg"))}
    assert {file.name for file in (tmp_path / "new").iterdir()} == names
    assert capsys.readouterr().out.count("written: ") == len(names)
    sst, qqp = json.loads((tmp_path / "new" / "map.json").read_text())
    readers = load(run_dir).readers
    for result, sides, states in ((sst, 1, [0, 1, 2]), (qqp, 2, [0, 2])):
        weights, _, distinct = one_by_one(run_dir, result["task"])
        assert (result["run"], result["split"], result["layers"]) == (str(run_dir), "dev", 2)
        assert (result["rows"], result["states"]) == (len(distinct), states)
        assert (len(distinct) < len(weights)) == (sides == 2)  # questions repeat
        np.testing.assert_allclose(result["mean"], weights[distinct].mean(0), rtol=1e-5)
        assert len(result["texts"]) == 4 * sides
        dev = load_lines(run_dir / "predictions" / f"{result['task']}.dev.jsonl")[:4]
        names = [readers[result["task"]].names[record["prediction"]] for record in dev]
        assert result["predicted"] == [name for name in names for _ in range(sides)]
        np.testing.assert_allclose(result["weights"], weights[: 4 * sides], rtol=1e-5)
        assert 0 <= result["above_0"] <= 1


def test_groups_order_the_tasks(run_dir, tmp_path, monkeypatch, capsys):
    from multitask.reporting.figures import maps as importance_map

    drawn = []
    for name in ("draw_tasks", "draw_lengths"):
        draw = getattr(importance_map, name)
        monkeypatch.setattr(
            importance_map, name, lambda *given, draw=draw: drawn.append(given) or draw(*given)
        )
    file = tmp_path / "groups.yaml"
    file.write_text("groups: {pairs: [qqp], single: [sst]}")
    assert main("importance", run_dir, "--groups", file, "--output", tmp_path / "map.png") == 0
    for importances, labels, groups in drawn:
        assert [one.task for one in importances] == labels == ["qqp", "sst"]
        assert groups == ["pairs", "single"]
    assert len(drawn) == 2
    file.write_text("groups: {pairs: [mrpc]}")
    for given, part in ((file, "(sst, qqp)"), (tmp_path / "none.yaml", "none.yaml")):
        assert part in complaint(capsys, "importance", run_dir, "--groups", given)


def test_evaluations_log_the_same_numbers(run_dir):
    logged = {(line["step"], line["task"]): line for line in events(run_dir, "importance")}
    evaluated = events(run_dir, "eval")
    assert [*logged] == [(line["step"], task) for line in evaluated for task in ("sst", "qqp")]
    for task in ("sst", "qqp"):
        line = logged[report_of(run_dir)["tasks"][task]["selected_step"], task]
        weights = expected(run_dir, task)
        assert (line["split"], line["rows"], line["layers"]) == ("dev", len(weights), 2)
        np.testing.assert_allclose(line["mean"], weights.mean(0), rtol=1e-5)
    assert not any("mean" in line["tasks"]["sst"] for line in evaluated)


@pytest.fixture
def copy(run_dir, tmp_path) -> Path:
    """The run without its weights, as `ablate` leaves it."""
    left = shutil.ignore_patterns("weights", "checkpoints", "encoder")
    return Path(shutil.copytree(run_dir, tmp_path / "copy", ignore=left))


def test_a_run_without_weights_is_drawn_from_its_log(run_dir, copy):
    assert main("importance", copy) == 0
    names = [f"importance.{end}" for end in ("json", "png", "svg")]
    assert sorted(file.name for file in copy.glob("importance*")) == names
    actual = {one["task"]: one for one in json.loads((copy / "importance.json").read_text())}
    np.testing.assert_allclose(actual["sst"]["mean"], expected(run_dir, "sst").mean(0), rtol=1e-5)
    assert actual["qqp"]["texts"] == []


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("x", 0, ": damaged lines are left out: 17"),
        ("[]", 0, ": damaged lines are left out: 17"),
        ('{"event": "im', 0, ": damaged lines are left out: 17"),
        ('{"event": "importance", "task": "sst", "step": STEP}', 2, ": cannot be read: "),
    ],
)
def test_a_damaged_log_is_one_line(line, code, message, copy, capsys):
    step = report_of(copy)["tasks"]["sst"]["selected_step"]
    with (copy / "metrics.jsonl").open("a") as log:
        log.write(line.replace("STEP", str(step)) + "\n")
    capsys.readouterr()
    assert main("importance", copy) == code
    *changed, said = capsys.readouterr().err.splitlines()
    assert f"{copy / 'metrics.jsonl'}{message}" in said
    assert len(changed) == (code == 2)  # a warning, before the error: not as the run wrote it


def test_texts_of_the_user(run_dir, tmp_path):
    """Where pairs are siamese, a tab separates two texts, which have their own weights."""
    for task, text, shown in (
        ("sst", "a bad film", ["a bad film"]),
        ("qqp", "a bad film\tthe cat", ["a bad film", "the cat"]),
    ):
        words = ["importance", run_dir, "--task", task, "--output", tmp_path]
        assert main(*words, "--text", "a good film", "--text", text) == 0
        (result,) = json.loads((tmp_path / "importance.json").read_text())
        assert (result["split"], result["rows"]) == ("texts", 1 + len(shown))
        assert result["texts"] == ["a good film", *shown]
        assert main(*words, "--text", shown[-1]) == 0
        (one,) = json.loads((tmp_path / "importance.json").read_text())
        np.testing.assert_allclose(one["weights"][0], result["weights"][-1], rtol=1e-4)


def test_a_pair_in_one_input(tiny_encoder, course_files, tmp_path, capsys):
    cross = ["tasks.qqp={input: cross, head: binary}", f"tasks.qqp.pooling={HIRE}"]
    changes = ["tasks.sst=null", "tasks.sts=null", "training.max_steps=2"]
    only = "data: {format: tsv, test: quora-test-student.csv, text: sentence1, text2: sentence2}"
    changes += [f"tasks.untold={{share_head: qqp, {only}, max_length: 48, dropout: 0.0}}"]
    directory = tmp_path / "run"
    trained(directory, tiny_encoder, course_files, *cross, *changes)
    assert main("importance", directory, "--task", "qqp", "--text", "a bad film\tthe cat") == 0
    (result,) = json.loads((directory / "importance.json").read_text())
    assert (result["rows"], result["texts"]) == (1, ["a bad film / the cat"])
    assert main("importance", directory) == 0  # a task without dev rows is left out
    (result,) = json.loads((directory / "importance.json").read_text())
    assert (result["task"], result["split"]) == ("qqp", "dev")
    assert "task qqp" in complaint(capsys, "importance", directory, "--text", "a bad film")


def test_several_runs_stand_below_one_another(run_dir, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(run_dir, tmp_path / "other")
    assert main("importance", run_dir, "other", "--task", "sst", "--examples", 1) == 0
    result = json.loads((tmp_path / "importance.json").read_text())
    assert [one["run"] for one in result] == [str(run_dir), "other"]
    parts = ("", "_lengths", "-run-sst", "-other-sst")
    assert {file.name for file in tmp_path.glob("*.png")} == {f"importance{p}.png" for p in parts}


@pytest.mark.slow
def test_layer_attention_with_and_without_concat(attention_runs, tmp_path):
    """Short and long texts apart; a task with another's pooling is among them."""
    assert main("importance", *attention_runs, "--output", tmp_path) == 0
    result = json.loads((tmp_path / "importance.json").read_text())
    assert [(Path(one["run"]).name, one["task"]) for one in result] == [
        (run, task) for run in ("concat", "alone") for task in ("qqp", "sts")
    ]
    for one in result:
        weights, lengths, distinct = one_by_one(Path(one["run"]), one["task"])
        assert weights.std(0).max() > 1e-4  # the sentences differ
        np.testing.assert_allclose(one["weights"], weights, rtol=1e-4)
        weights, lengths = weights[distinct], lengths[distinct]
        rows = len(distinct)
        assert (one["states"], one["rows"], one["above_0"]) == ([0, 1, 2], rows, None)
        np.testing.assert_allclose(one["mean"], weights.mean(0), rtol=1e-5)
        assert one["median"] == np.median(lengths)
        short, long = [], []
        for row, length in zip(weights, lengths, strict=True):
            (short if length <= one["median"] else long).append(row)
        assert one["short_rows"] == len(short) < rows
        np.testing.assert_allclose(one["short"], np.mean(short, axis=0), rtol=1e-5)
        np.testing.assert_allclose(one["long"], np.mean(long, axis=0), rtol=1e-5)


def test_evaluations_log_layer_attention_too(attention_runs):
    for run in attention_runs:
        logged = events(run, "importance")
        assert {line["task"] for line in logged} == {"qqp", "sts"}
        last = logged[-1]
        assert last["above_0"] is None
        np.testing.assert_allclose(last["mean"], expected(run, last["task"]).mean(0), rtol=1e-5)


def test_a_short_and_a_long_text(attention_runs, tmp_path):
    """The paper's Figure 3: two sentences, two runs."""
    texts = ["--text", "you do it .", "--text", "the big man likes the small red house ."]
    output = ("--task", "sts", "--output", tmp_path / "new" / "map")
    assert main("importance", *attention_runs, *texts, *output) == 0
    for one in json.loads((tmp_path / "new" / "map.json").read_text()):
        assert (one["median"], one["short_rows"]) == ((6 + 11) / 2, 1)
        assert [one["short"], one["long"]] == one["weights"]
    assert (tmp_path / "new" / "map_lengths.svg").is_file()
    same = ["--text", "a good film", "--text", "a bad film"]
    assert main("importance", attention_runs[0], "--task", "sts", *same, "--output", tmp_path) == 0
    (one,) = json.loads((tmp_path / "importance.json").read_text())
    assert (one["median"], one["short"], one["long"]) == (None, [], [])
    assert not (tmp_path / "importance_lengths.png").exists()


def test_a_task_that_is_scored_with_another_pooling_has_no_weights(attention_runs, capsys):
    assert "task sst: " in complaint(capsys, "importance", attention_runs[0], "--task", "sst")
