"""``sts`` on a run and on an encoder: the table, the files, contamination, bad input."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import spearmanr

from multitask import load
from multitask.data.sts_suites import read_suites
from multitask.inference.embeddings import open_vectors
from multitask.inference.similarity import cosines
from multitask.tasks.sts_names import NAMES
from tests.support.commands import main
from tests.support.contrastive_run import write_config, write_triplets
from tests.support.messages import complaint
from tests.support.sts_files import YEARS, write_suites

# the columns of the pairs in files of a run
PAIRS = {"sts-train": slice(2, 4), "sts-dev": slice(2, 4), "triplets": slice(0, 2)}


@pytest.fixture(scope="module")
def suites(tmp_path_factory) -> Path:
    return write_suites(tmp_path_factory.mktemp("sts"))


@pytest.fixture
def run_copy(tiny_run, tmp_path) -> Path:
    return Path(shutil.copytree(tiny_run, tmp_path / "run"))


def test_a_run_is_scored_with_its_tasks_vectors(run_copy, suites, capsys):
    assert main("sts", run_copy, "--data", suites, "--task", "sts") == 0
    out = capsys.readouterr().out
    actual = json.loads((run_copy / "scores" / "sts.json").read_text())
    assert [actual["task"], actual["pooling"], *actual["suites"]] == ["sts", "mean", *NAMES]
    run, expected = load(run_copy, ["training.precision=fp32"]), []
    for name, suite in read_suites(suites).items():
        first, second = ([p[i] for rows in suite.values() for p in rows.texts] for i in (0, 1))
        similarity = cosines(run.encode(first, "sts"), run.encode(second, "sts"))
        gold = np.concatenate([rows.gold for rows in suite.values()])
        expected.append(spearmanr(gold, similarity).statistic)
        entry = actual["suites"][name]
        assert entry["scores"]["all"]["spearman"] == pytest.approx(expected[-1], abs=1e-6)
        assert entry["in_training"] == 0
    assert actual["average"]["spearman"] == pytest.approx(np.mean(expected), abs=1e-6)
    page = (run_copy / "scores" / "sts.md").read_text()
    assert f"{100 * np.mean(expected):.2f}" in out and f"{100 * np.mean(expected):.2f}" in page
    assert "| STS12 | MSRpar | 21 |" in page


def test_pairs_of_the_runs_training_file_are_left_out(run_copy, suites, tmp_path, capsys):
    data = Path(shutil.copytree(suites, tmp_path / "sts"))
    training = (load(run_copy).config.data_path("sts-train.csv")).read_text().splitlines()
    first, second = training[1].split("\t")[2:4]
    file = data / "STS12" / "MSRpar.tsv"
    file.write_text(file.read_text() + f"{second.upper()}\t {first}\t5\n")
    assert main("sts", run_copy, "--data", data) == 0
    assert "pairs from the run's training data are left out" in capsys.readouterr().out
    entry = json.loads((run_copy / "scores" / "sts.json").read_text())["suites"]["STS12"]
    assert (entry["pairs"], entry["in_training"], entry["clean"]["pairs"]) == (43, 1, 42)
    assert "| STS12 | MSRpar | 21 |" in (run_copy / "scores" / "sts.md").read_text()


def test_a_task_that_no_stage_trains_was_not_seen_but_may_have_selected(
    tiny_encoder, course_files, suites, tmp_path, capsys
):
    files = Path(shutil.copytree(course_files, tmp_path / "files"))
    write_triplets(files)
    config = write_config(tmp_path / "c.yaml", tiny_encoder, files, "siamese")
    assert main(config, "training.max_steps=1", f"output_dir={tmp_path / 'run'}") == 0
    data = Path(shutil.copytree(suites, tmp_path / "sts"))
    rows = {n: next(files.glob(f"{n}.*")).read_text().splitlines()[1:] for n in PAIRS}
    pairs = [line.split("\t")[PAIRS[name]] for name in rows for line in rows[name]]
    with (data / "STS12" / "MSRpar.tsv").open("a") as file:
        file.writelines("\t".join([*pair, "5\n"]) for pair in pairs)
    assert main("sts", tmp_path / "run", "--data", data) == 0
    dev, triplets = len(rows["sts-dev"]), len(rows["triplets"])
    entry = json.loads((tmp_path / "run/scores/sts.json").read_text())["suites"]["STS12"]
    assert (entry["selecting"], entry["in_training"]) == (dev, round(0.8 * triplets))
    assert f"STS12: {dev} of {entry['pairs']} pairs selected" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("select", "tasks"), [("per_task", ["sts"]), ("joint", ["sst", "qqp", "sts"]), ("qqp", ["qqp"])]
)
def test_dev_rows_count_where_they_select_the_weights(select, tasks, run_copy):
    file = run_copy / "config.yaml"
    file.write_text(file.read_text().replace("select: joint", f"select: {select}"))
    best = json.loads((run_copy / "best.json").read_text())
    every = dict.fromkeys(("joint", "sst", "qqp", "sts"), best["joint"])
    (run_copy / "best.json").write_text(json.dumps(every))
    vectors = open_vectors(str(run_copy), task="sts")
    _, selecting = vectors.known_rows()
    dev = [vectors.run.load_split(task, "dev").rows.texts for task in tasks]
    assert [split.rows.texts for split in selecting] == dev


def test_a_bare_encoder_under_a_named_pooling(tiny_encoder, suites, tmp_path, capsys):
    shutil.rmtree(shutil.copytree(suites, tmp_path / "data") / "STS14")
    output = tmp_path / "out"
    for pooling, named in (("max", ["--pooling", "max"]), ("mean", [])):
        words = ["--data", tmp_path / "data", "--output", output, *named]
        assert main("sts", tiny_encoder, *words) == 0
        out = capsys.readouterr().out
        assert "note: no Avg: STS14 not found" in out and "training data is unknown here" in out
        result = json.loads((output / "sts.json").read_text())
        assert (result["pooling"], result["task"]) == (pooling, None)
        assert result["average"] == {"spearman": None, "pearson": None}


def test_a_pooling_in_place_of_the_tasks_own_keeps_its_weights(run_copy, suites):
    assert main("sts", run_copy, "--data", suites, "--task", "sts", "--pooling", "mean") == 0
    fixed = json.loads((run_copy / "scores" / "sts.json").read_text())["average"]
    assert main("sts", run_copy, "--data", suites, "--task", "sts") == 0
    assert json.loads((run_copy / "scores" / "sts.json").read_text())["average"] == fixed


CURVES = {"cls": [None, 0.5], "mean": [0.1, 0.6], "max": [0.1, 0.2], "first-last mean": 0.4}
STS12 = {"all": CURVES, "subsets": dict.fromkeys(YEARS["STS12"], CURVES)}
LAYERS = {"of": "other", "suites": {"STS12": STS12}}


@pytest.mark.parametrize(
    ("contents", "message"),
    [
        (["{"], "0.json: damaged: "),
        ([{"of": "other", "suites": {"STS12": {}}}], "suites.STS12.all"),
        ([None], "--with: no such file: "),
        ([{"of": "other", "suites": {"SNLI": STS12}}], "0.json has no scores of STS12, STS13"),
        ([LAYERS, LAYERS], "1.json is of 'other', as another file is"),
        ([{**LAYERS, "of": "TINY"}], "a file is of 'TINY', which is scored now"),
    ],
)
def test_other_layers_are_checked_before_anything_is_encoded(
    contents, message, tiny_encoder, suites, tmp_path, capsys, monkeypatch
):
    files = []
    for number, content in enumerate(contents):
        files.append(tmp_path / f"{number}.json")
        if content is None:
            continue
        text = content if isinstance(content, str) else json.dumps(content)
        files[-1].write_text(text.replace("TINY", str(tiny_encoder)))
    monkeypatch.setattr("multitask.inference.sts_scores.score_suites", lambda *_: pytest.fail())
    out = tmp_path / "out"
    given = ("sts", tiny_encoder, "--data", suites, "--output", out, "--layers", "--with", *files)
    assert message.replace("TINY", str(tiny_encoder)) in complaint(capsys, *given)
    assert not out.exists()


def test_layers_of_another_encoder_are_drawn_too(
    tiny_encoder, suites, tmp_path, monkeypatch, capsys
):
    from multitask.reporting.figures import curves

    file, drawn = tmp_path / "layers.json", []
    file.write_text(json.dumps({**LAYERS, "suites": {"STS12": STS12, "SNLI": STS12}}))
    draw = curves.draw_layers
    monkeypatch.setattr(curves, "draw_layers", lambda e: drawn.append(e) or draw(e))
    out = tmp_path / "out"
    words = ["--data", suites, "--output", out, "--layers", "--with", file]
    assert main("sts", tiny_encoder, *words) == 0
    (encoders,) = drawn
    assert list(encoders) == [str(tiny_encoder), "other"]
    assert encoders["other"]["STS12"]["all"] == CURVES
    assert json.loads((out / "layers.json").read_text())["of"] == str(tiny_encoder)
    lacking, more = [line for line in capsys.readouterr().out.splitlines() if "--with" in line]
    assert f"other has no scores of {', '.join(NAMES[1:])}" in lacking and "SNLI of other" in more


def test_scores_without_layers_are_refused_as_layers(tiny_encoder, suites, tmp_path, capsys):
    assert main("sts", tiny_encoder, "--data", suites, "--output", tmp_path) == 0
    given = (tiny_encoder, "--data", suites, "--layers", "--with", tmp_path / "sts.json")
    line = complaint(capsys, "sts", *given)
    assert "sts.json: damaged: it has no suites.STS12.all" in line
