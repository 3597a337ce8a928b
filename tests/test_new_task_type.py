"""A ninth task type, that of docs/extending.md, through every command: it needs no other edit."""

import csv
import json
import random
from pathlib import Path

import numpy as np
import pytest

import run_multitask
from multitask import load
from multitask.inference.serve.responses import about, answer, open_run
from multitask.utils.errors import UserError
from tests.support.run_files import report_of
from tests.support.worked_examples import use_worked_examples

NAMES = "good great bright cat bird".split(), "bad awful dull dog tree".split()
BETTER, WORSE = ("the good film", "the awful film")


def write_votes(file: Path, rows: int, seed: int) -> None:
    """Pairs of texts; the one with more words of the first list has more votes."""
    rng = random.Random(seed)
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened)
        writer.writerow(["one", "other", "votes"])
        for _ in range(rows):
            texts = [" ".join(rng.choice(rng.choice(NAMES)) for _ in range(3)) for _ in range(2)]
            one, other = (sum(word in NAMES[0] for word in text.split()) for text in texts)
            writer.writerow([*texts, f"{2 + one - other + 3}:{5 - (one - other)}"])
        writer.writerow(["a text", "another", ""])  # nobody voted


@pytest.fixture(scope="module", autouse=True)
def blank_figures() -> None:
    """The figures are drawn here."""


@pytest.fixture(scope="module")
def config(tiny_encoder, tmp_path_factory):
    """The page's config on small files, while its registry lines are in force."""
    directory = tmp_path_factory.mktemp("votes")
    for seed, (split, rows) in enumerate((("train", 240), ("dev", 60), ("test", 20))):
        write_votes(directory / f"votes-{split}.csv", rows, seed)
    with pytest.MonkeyPatch.context() as patch:
        use_worked_examples(directory, patch)
        yield [
            str(directory / "configs" / "my_preference.yaml"),
            f"data_dir={directory}",
            f"encoder.name={tiny_encoder}",
            "tasks.better.max_length=16",
            "training.epochs=4",
            "training.lr=3e-3",
            "training.head_lr=1e-2",
            "training.precision=fp32",
        ]


@pytest.fixture(scope="module")
def runs(config, tmp_path_factory):
    """A run that has learned the votes, and one that has hardly begun; read only."""
    directory = tmp_path_factory.mktemp("runs")
    names = {"learned": [], "begun": ["training.max_steps=1"]}
    for name, more in names.items():
        assert run_multitask.main([*config, f"output_dir={directory / name}", *more]) == 0
    return [directory / name for name in names]


def predictions(file: Path) -> list[dict]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def test_it_learns_and_is_reported_with_its_own_metric_and_interval(runs):
    report = report_of(runs[0])
    entry = report["tasks"]["better"]
    assert (entry["label_type"], entry["metric"]) == ("preference", "agreement")
    assert entry["data"]["train"]["unlabelled_dropped"] == 1 and entry["dev"]["rows"] == 60
    records = predictions(runs[0] / "predictions" / "better.dev.jsonl")
    naive = [one["label"][one["prediction"]] / sum(one["label"]) for one in records]
    assert entry["dev"]["agreement"] == pytest.approx(np.mean(naive), abs=1e-12)
    low, high = entry["dev_intervals"]["agreement"]
    assert low < entry["dev"]["agreement"] < high
    trivial, frozen = (entry["baselines"][name]["majority"] for name in ("trivial", "frozen"))
    assert entry["dev"]["majority"] > 0.85 > trivial and frozen is not None
    assert report["overall"]["mean"] == entry["dev"]["agreement"]


def test_its_report_has_its_figure_and_its_mistakes(runs):
    for run in runs:
        assert (run / "figures" / "votes_better.png").stat().st_size > 1000
    page = (runs[1] / "report.md").read_text()
    shown = "Predicted probability against the share of votes in better"
    assert "agreement" in page and f"![{shown}](figures/votes_better.png)" in page
    wrong = [
        one
        for one in predictions(runs[1] / "predictions" / "better.dev.jsonl")
        if one["label"][one["prediction"]] < one["label"][1 - one["prediction"]]
    ]
    surest = max(wrong, key=lambda one: max(one["scores"][0], 1 - one["scores"][0]))
    rows = [line for line in page.splitlines() if "votes |" in line]
    assert rows and rows[0].startswith(f"| {surest['id']} |")


def test_it_is_shown_by_check(config, capsys):
    assert run_multitask.main(["check", *config, "output_dir=unused"]) == 0
    shown = capsys.readouterr().out
    assert "better: votes for the first and the second text" in shown
    assert "better (votes " in shown and not Path("unused").exists()


@pytest.mark.parametrize("cell", ["7", "7:x", "0:0", "seven"])
def test_a_label_of_another_form_is_refused_with_its_row(cell, config, tmp_path, capsys):
    (tmp_path / "votes.csv").write_text(f"one,other,votes\na,b,1:2\na,b,{cell}\n")
    change = f"tasks.better.data.train={tmp_path / 'votes.csv'}"
    assert run_multitask.main(["check", *config, change]) == 2
    message = capsys.readouterr().err
    assert f"row 2 (id 1): votes is '{cell}': expected the votes" in message
    assert message.count("\n") == 1


def test_it_is_evaluated_again(runs, capsys):
    assert run_multitask.main(["evaluate", str(runs[0])]) == 0
    score = report_of(runs[0])["tasks"]["better"]["dev"]["agreement"]
    assert f"{score:.3f}" in capsys.readouterr().out


def test_it_predicts_from_a_file_and_from_python(runs, tmp_path):
    (tmp_path / "texts.csv").write_text(f"one,other\n{BETTER},{WORSE}\n{WORSE},{BETTER}\n")
    out = tmp_path / "out.jsonl"
    command = ["predict", str(runs[0]), "--task", "better", "--file", str(tmp_path / "texts.csv")]
    assert run_multitask.main([*command, "--output", str(out)]) == 0
    saved = predictions(out)
    assert [one["prediction"] for one in saved] == [0, 1]
    pairs = [(BETTER, WORSE), (WORSE, BETTER)]
    for one, record in zip(load(runs[0]).predict("better", pairs), saved, strict=True):
        assert one["prediction"] == record["prediction"]
        assert one["scores"] == pytest.approx(record["scores"], abs=1e-5)


def test_it_is_compared_with_another_run(runs, tmp_path):
    out = tmp_path / "compared"
    assert run_multitask.main(["report", *map(str, runs), "--output", str(out)]) == 0
    comparison = json.loads((out / "comparison.json").read_text())
    column = comparison["columns"]["better"]
    assert (column["metric"], column["rows"]) == ("agreement", 60)
    _, begun = (row["cells"]["better"] for row in comparison["rows"])
    result = begun["difference"]
    assert result["low"] < result["value"] < result["high"] < 0 and result["p"] is None
    assert "better agreement" in (out / "table.md").read_text()


def test_it_is_averaged_over_runs(runs, tmp_path):
    out = tmp_path / "ensemble"
    assert run_multitask.main(["predict", *map(str, runs), "--output", str(out)]) == 0
    members = [predictions(run / "predictions" / "better.dev.jsonl") for run in runs]
    for one, *others in zip(
        predictions(out / "predictions" / "better.dev.jsonl"), *members, strict=True
    ):
        mean = np.mean([other["scores"][0] for other in others])
        assert one["scores"][0] == pytest.approx(mean, abs=2e-6)
        assert one["prediction"] == int(one["scores"][0] < 0.5)


def test_it_is_served(runs):
    served = open_run(runs[0], None)
    assert about(served, "better") == "two texts, read apart → the better one"
    (result,) = answer(served, "better", [BETTER, WORSE])
    assert result["prediction"] == "first text"
    assert [name for name, _, chosen in result["shares"] if chosen] == ["first text"]
    assert sum(probability for _, probability, _ in result["shares"]) == pytest.approx(1)
    with pytest.raises(UserError, match="Needs a second text"):
        answer(served, "better", [BETTER])
