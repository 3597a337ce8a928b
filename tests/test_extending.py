"""The worked examples of the pages about tasks and docs/extending.md, run as they are written."""

import csv
import importlib
import json
import random
import re
import runpy
import sys
from pathlib import Path

import pytest

import multitask
import run_multitask
from multitask.sweep.grid import load_grid
from tests.conftest import ROOT
from tests.support.choices_run import chosen
from tests.support.multi_label_run import labelled
from tests.support.run_files import events, report_of
from tests.support.token_run import asked, nested, tagged, without_answers, write_lines
from tests.support.worked_examples import use_worked_examples

TOPICS = ["world", "sports", "business", "science"]


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The page's files beside copies of the presets, its registry lines in force."""
    (tmp_path / "configs").mkdir()
    for preset in (ROOT / "configs").glob("cs224n*.yaml"):
        (tmp_path / "configs" / preset.name).write_text(preset.read_text())
    use_worked_examples(tmp_path, monkeypatch)
    return tmp_path


@pytest.mark.parametrize(
    ("config", "more"),
    [
        ("my_topics.yaml", []),
        ("my_ordinal.yaml", []),
        ("my_manhattan.yaml", []),
        ("cs224n_minilm.yaml", ["tasks.sts.pooling=first_last"]),
    ],
)
def test_worked_example_trains(config, more, project, tiny_overrides, course_files):
    directory = next(o for o in tiny_overrides if o.startswith("output_dir="))
    data = project / "data"
    data.mkdir()
    for file in course_files.iterdir():
        (data / file.name).write_bytes(file.read_bytes())
    for split, size in (("train", 16), ("dev", 8)):
        lines = [f"the film number {i} is {TOPICS[i % 4]},{TOPICS[i % 4]}" for i in range(size)]
        (data / f"topics-{split}.csv").write_text("\n".join(["headline,topic", *lines]) + "\n")
    tail = [f"data_dir={data}", "training.max_steps=8", "training.frozen_baseline=false"]
    if config == "my_topics.yaml":
        tail.append("tasks.topics.max_length=48")
    assert (
        run_multitask.main([str(project / "configs" / config), *tiny_overrides, *tail, *more]) == 0
    )
    report = json.loads((Path(directory.partition("=")[2]) / "report.json").read_text())
    if config == "my_topics.yaml":
        assert report["tasks"]["topics"]["classes"] == TOPICS
    elif config == "my_ordinal.yaml":
        assert report["tasks"]["sst"]["head"] == "ordinal"
        assert 0 <= report["tasks"]["sst"]["dev"]["mae"] <= 4
    elif config == "my_manhattan.yaml":
        assert report["tasks"]["sts"]["head"] == "manhattan"
    else:
        assert report["tasks"]["sts"]["pooling"] == "first_last"


def test_the_worked_example_of_a_callback_logs(project, tiny_overrides, capsys):
    callback = importlib.import_module("multitask.training.weight_norm").WeightNorm()
    quick = ["training.max_steps=2", "training.eval_steps=1", "training.frozen_baseline=false"]
    config = ROOT / "configs" / "cs224n.yaml"
    run = multitask.train(config, [*tiny_overrides, *quick], callbacks=[callback])
    norms = events(run.directory, "weight_norm")
    assert [event["step"] for event in norms] == [1, 2] and norms[0]["norm"] > 0
    said = capsys.readouterr()
    assert "damaged" not in said.out + said.err


def test_the_worked_example_of_a_tracker_writes_every_value(project, tiny_overrides):
    quick = ["training.max_steps=3", "training.eval_steps=2", "training.frozen_baseline=false"]
    run = multitask.train(
        ROOT / "configs" / "cs224n.yaml", [*tiny_overrides, *quick, "training.trackers=[csv_file]"]
    )
    with (Path(run.directory) / "values.csv").open(newline="") as file:
        rows = [(int(row["step"]), row["tag"], row["value"]) for row in csv.DictReader(file)]
    steps = events(run.directory, "step")
    wanted = {(step["step"], f"train/loss/{step['task']}"): step["loss"] for step in steps}
    found = {(step, tag): float(value) for step, tag, value in rows}
    assert len(found) == len(rows) and found.items() >= wanted.items()
    assert any(tag.startswith("report/dev/") for _, tag, _ in rows)


def test_the_worked_example_of_an_engine_runs_a_sweep(project, tiny_overrides, tmp_path, capfd):
    _, *overrides = [o for o in tiny_overrides if not o.startswith(("output_dir=", "tasks."))]
    data = next(o for o in tiny_overrides if o.startswith("data_dir="))
    grid = {
        "base": str(project / "configs" / "cs224n.yaml"),
        "seeds": [1],
        "grid": {"training.lr": [1.0e-3, 2.0e-3]},
    }
    (project / "configs" / "grid.yaml").write_text(json.dumps(grid))
    quick = ["training.max_steps=1", "training.frozen_baseline=false", "defaults.max_length=48"]
    command = ["ablate", str(project / "configs" / "grid.yaml"), data, *overrides, *quick]
    out = tmp_path / "sweep"
    assert run_multitask.main([*command, "--output", str(out), "--engine", "nice"]) == 0
    logs = [file.read_text() for file in out.rglob("*.log")]
    assert len(logs) == 2 and all("nice -n 19" in log.splitlines()[0] for log in logs)
    assert (out / "table.md").is_file()


def test_the_levels_of_sst_are_several_classes(project, tiny_overrides, course_files, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["levels.py", str(course_files), str(project)])
    runpy.run_path(str(project / "levels.py"))
    classes = [f"at least {k}" for k in (1, 2, 3, 4)]
    for split in ("train", "dev"):
        course = (course_files / f"ids-sst-{split}.csv").read_text().splitlines()[1:]
        made = (project / f"sst-levels-{split}.jsonl").read_text().splitlines()
        for line, row in zip(course, made, strict=True):
            assert json.loads(row)["levels"] == classes[: int(line.rpartition("\t")[2])]
    grid = load_grid(ROOT / "configs/ablations/levels.yaml")
    settings = [setting.text for setting in grid.cells[0].settings]
    tiny = [o for o in tiny_overrides if not o.startswith(("data_dir=", "tasks."))]
    tiny += [f"data_dir={project}", "tasks.levels.max_length=48"]
    assert run_multitask.main([str(grid.base), *settings, *tiny]) == 0
    directory = next(o.partition("=")[2] for o in tiny if o.startswith("output_dir="))
    result = report_of(Path(directory))["tasks"]["levels"]
    assert result["classes"] == classes and result["metric"] == "exact_match"


@pytest.mark.parametrize("own_data", [False, True], ids=["same_rows_as", "own_data"])
def test_a_number_per_text_and_two_tasks_over_one_file(own_data, project, tiny_encoder, tmp_path):
    page = (ROOT / "docs" / "tasks.md").read_text()
    (rows,) = re.findall(r"```csv\n(.*?)```", page, re.DOTALL)
    (data,) = re.findall(r"`(data: {train: reviews.csv.*})`", page)
    (tmp_path / "reviews.csv").write_text(rows)
    config = project / "configs" / "my_reviews.yaml"
    if own_data:
        text = config.read_text()
        config.write_text(text.replace("data: {same_rows_as: stars, label: topic}", data))
        assert data in config.read_text()
    options = [f"data_dir={tmp_path}", f"encoder.name={tiny_encoder}"]
    options += [f"output_dir={tmp_path / 'run'}", "training.max_steps=4", "defaults.max_length=32"]
    assert run_multitask.main([str(config), *options]) == 0
    tasks = report_of(tmp_path / "run")["tasks"]
    stars, topic = tasks["stars"], tasks["topic"]
    assert (stars["metric"], stars["label_range"]) == ("pearson", [1, 5])
    assert (topic["metric"], topic["classes"]) == ("accuracy", ["book", "film", "music"])
    counts = {name: {s: data["rows"] for s, data in tasks[name]["data"].items()} for name in tasks}
    assert sum(counts["topic"].values()) == 10 and counts["stars"]["dev"] == counts["topic"]["dev"]
    # without its eighth row, which has no stars
    unlabelled = stars["data"]["train"]["unlabelled_dropped"]
    assert counts["stars"]["train"] + (unlabelled or 1) == counts["topic"]["train"]
    lines = (tmp_path / "run" / "predictions" / "stars.dev.jsonl").read_text().splitlines()
    assert len(lines) == counts["stars"]["dev"]
    assert all(1 <= json.loads(line)["prediction"] <= 5 for line in lines)


def emotions(size: int, seed: int) -> list[dict]:
    return [{"text": row["text"], "emotions": row["classes"]} for row in labelled(size, seed)]


def endings(size: int, seed: int) -> list[dict]:
    """As a table of SWAG."""
    names = [f"ending{place}" for place in range(4)]
    return [
        {"sent1": row["context"], "sent2": "the", **dict(zip(names, row["endings"], strict=True)),
         "label": row["label"]}
        for row in chosen(size, seed)
    ]  # fmt: skip


def write_csv(file: Path, rows: list[dict]) -> None:
    with file.open("w", newline="") as opened:
        writer = csv.DictWriter(opened, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)


def test_the_worked_example_of_squad_trains(project, tiny_encoder, tmp_path):
    for seed, (split, size) in enumerate((("train", 30), ("dev", 8))):
        rows = without_answers(asked(size, seed))
        (tmp_path / f"{split}-v2.0.json").write_text(json.dumps(nested(rows)))
    changes = [
        f"data_dir={tmp_path}",
        f"encoder.name={tiny_encoder}",
        f"output_dir={tmp_path / 'run'}",
        "tasks.answers.max_length=16",
        "tasks.answers.stride=4",
        "training.max_steps=2",
        "training.holdout=0.2",
    ]
    assert run_multitask.main([str(project / "configs" / "my_squad.yaml"), *changes]) == 0
    (result,) = json.loads((tmp_path / "run" / "report.json").read_text())["tasks"].values()
    assert {"f1", "exact_match", "has_ans_f1", "no_ans_f1"} < result["dev"].keys()


def running_text(documents: int, seed: int) -> str:
    """Documents that tell the same story, each in other words: what comes next is known."""
    rng = random.Random(seed)
    story, verbs = "man cat house big".split(), "sees eats likes finds".split()
    made = [[f"{one} {rng.choice(verbs)}" for one in story] for _ in range(documents)]
    return "\n\n".join("\n".join(sentences) for sentences in made)


def learned(config: Path, encoder: Path, data: Path, *changes: str) -> dict:
    """Train a config of the page on files in ``data``; return the report's tasks."""
    names = [f"data_dir={data}", f"encoder.name={encoder}", f"output_dir={data / 'run'}"]
    assert run_multitask.main([str(config), *names, "training.lr=3e-3", *changes]) == 0
    tasks = report_of(data / "run")["tasks"]
    for result in tasks.values():
        trivial, metric = result["baselines"]["trivial"], result["metric"]
        assert result["dev"][metric] > trivial[metric]
        assert not any("baseline" in flag for flag in result["flags"])
    return tasks


@pytest.mark.slow
@pytest.mark.parametrize(
    ("task", "rows", "epochs", "score"),
    [
        ("entities", tagged, 4, ("f1", 0.9)),
        ("answers", asked, 16, ("f1", 0.5)),
        ("emotions", emotions, 8, ("f1", 0.8)),
        ("endings", endings, 6, ("accuracy", 0.9)),
    ],
)
def test_worked_example_of_a_task_type_learns(
    task, rows, epochs, score, project, tiny_encoder, tmp_path
):
    ending, write = (".csv", write_csv) if task == "endings" else (".jsonl", write_lines)
    for seed, (split, size) in enumerate((("train", 320), ("dev", 60))):
        write(tmp_path / f"{task}-{split}{ending}", rows(size, seed))
    config = project / "configs" / f"my_{task}.yaml"
    changes = [f"tasks.{task}.max_length=48", f"training.epochs={epochs}", "training.head_lr=1e-2"]
    result = learned(config, tiny_encoder, tmp_path, *changes)[task]
    metric, floor = score
    assert result["metric"] == metric and result["dev"][metric] > floor


@pytest.mark.slow
def test_worked_example_of_next_sentences_learns(project, tiny_encoder, tmp_path):
    for seed, (split, documents) in enumerate((("train", 300), ("dev", 40))):
        (tmp_path / f"text-{split}.txt").write_text(running_text(documents, seed))
    # there are few distinct sentences
    changes = ["training.epochs=8", "defaults.max_length=32", "tasks.masked_words.loss_weight=0.2"]
    config = project / "configs" / "my_pretraining.yaml"
    scores = learned(config, tiny_encoder, tmp_path, *changes)["next_sentence"]["dev"]
    # a random second sentence could be the next one in a quarter of the cases
    assert scores["accuracy"] > 0.75
