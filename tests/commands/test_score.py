"""`score` on files of a run and of others: the run's numbers, differences, and what is refused."""

import csv
import json
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import pearsonr, spearmanr

import multitask
from multitask.config.registry import task_type
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.run_files import report_of

CONFIG = ROOT / "configs" / "cs224n.yaml"
NAMES = {"sst": "sst", "qqp": "para", "sts": "sts"}


@pytest.fixture(scope="module", params=["cs224n", "dnlp", "csv"])
def written(request, course_run, tmp_path_factory) -> Path:
    """A run whose prediction files have another format."""
    run = Path(shutil.copytree(course_run, tmp_path_factory.mktemp("copy") / "run"))
    formats = [f"tasks.{task}.course_file.format={request.param}" for task in NAMES]
    assert main("predict", run, *formats) == 0
    return run


def files_of(run: Path) -> list[Path]:
    return [run / "predictions" / f"{name}-dev-output.csv" for name in NAMES.values()]


def score(files: object, course_files: Path, **options: object):
    return multitask.score(CONFIG, files, [f"data_dir={course_files}"], **options)


def dev_rows(course_files: Path, file: str) -> list[dict]:
    with (course_files / file).open() as opened:
        return list(csv.DictReader(opened, delimiter="\t"))


def write(file: Path, rows: list[tuple[str, object]]) -> Path:
    file.write_text("id,X\n" + "".join(f"{name},{value}\n" for name, value in rows))
    return file


def test_a_runs_files_give_its_numbers_in_every_format(written, course_files):
    scored = score(files_of(written), course_files)
    report = report_of(written)
    for task, entry in report["tasks"].items():
        kind = task_type(entry["label_type"])
        ours = scored.scores[task]
        assert next(iter(ours)) == entry["metric"]
        metrics = {name for name in kind.metrics if name in entry["dev"]}
        assert {*ours} == metrics - {*kind.of_scores}
        for name in {*ours} - {"spearman"}:  # six digits make ties
            expected = entry["dev"][name]
            assert ours[name]["value"] == pytest.approx(expected, abs=1e-5, rel=1e-4), name
            low, high = entry["dev_intervals"][name]
            assert [ours[name]["low"], ours[name]["high"]] == pytest.approx([low, high], abs=1e-4)
    assert scored.overall["mean"] == pytest.approx(report["overall"]["mean"], abs=1e-5)
    course = report["overall"]["cs224n"]
    assert scored.overall["CS224N overall"] == pytest.approx(course, abs=1e-5)


def test_correlations_are_those_of_the_written_numbers(course_run, course_files):
    (file,) = (file for file in files_of(course_run) if file.name.startswith("sts"))
    values = dict(line.split(" , ") for line in file.read_text().splitlines()[1:])
    gold = dev_rows(course_files, "sts-dev.csv")
    pair = [[float(row["similarity"]) for row in gold], [float(values[row["id"]]) for row in gold]]
    scores = score([file], course_files).scores["sts"]
    assert scores["pearson"]["value"] == pytest.approx(pearsonr(*pair).statistic)
    assert scores["spearman"]["value"] == pytest.approx(spearmanr(*pair).statistic)


def test_the_order_of_rows_and_files_changes_nothing(course_run, course_files, tmp_path):
    turned = []
    for file in files_of(course_run):
        header, *lines = file.read_text().splitlines(keepends=True)
        turned.insert(0, tmp_path / file.name)
        turned[0].write_text("".join([header, *lines[::-1]]))
    expected = score(files_of(course_run), course_files)
    assert score(turned, course_files).scores == expected.scores


def test_the_trivial_baseline_is_that_of_the_training_file(course_files, tmp_path):
    train = Counter(row["sentiment"] for row in dev_rows(course_files, "ids-sst-train.csv"))
    gold = dev_rows(course_files, "ids-sst-dev.csv")
    top = max(sorted(train), key=lambda label: train[label])
    file = write(tmp_path / "guess.csv", [(row["id"], top) for row in gold])
    entry = score({"sst": file}, course_files).scores["sst"]["accuracy"]
    share = np.mean([row["sentiment"] == top for row in gold])
    assert entry["value"] == entry["trivial"] == pytest.approx(share)


def test_differences_are_paired(course_run, course_files, tmp_path):
    gold = [(row["id"], row["sentiment"]) for row in dev_rows(course_files, "ids-sst-dev.csv")]
    right = write(tmp_path / "sst-right.csv", gold)
    wrong = write(tmp_path / "sst-wrong.csv", [(gold[0][0], 4), *gold[1:]])
    runs = [course_run, str(wrong)]
    entry = score([right], course_files, against=runs).scores["sst"]["accuracy"]
    to_run, to_file = entry["differences"].values()
    dev = report_of(course_run)["tasks"]["sst"]["dev"]["accuracy"]
    assert to_run["value"] == pytest.approx(1 - dev)
    assert to_file["value"] == pytest.approx(1 / len(gold))
    assert to_file["low"] == 0  # some resamples lack the one row that differs
    same = score(files_of(course_run), course_files, against=[course_run])
    for metrics in same.scores.values():
        for metric in metrics.values():
            (difference,) = metric["differences"].values()
            assert difference is None or abs(difference["value"]) < 1e-5


def test_a_process_prints_the_table_without_torch(course_run, course_files, tmp_path):
    command = [sys.executable, "-X", "importtime", ROOT / "run_multitask.py", "score", CONFIG]
    command += [f"data_dir={course_files}", *files_of(course_run), "--against", course_run]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    assert " torch\n" not in result.stderr and " transformers\n" not in result.stderr
    lines = result.stdout.splitlines()
    assert [line.split()[:2] for line in lines[2:4]] == [["sst", "accuracy"], ["sst", "macro_f1"]]
    assert str(score(files_of(course_run), course_files)).splitlines()[-1] == lines[-1]


def test_the_json_is_what_gradescope_reads(course_run, course_files, tmp_path):
    file = tmp_path / "results.json"
    scored = score(files_of(course_run), course_files, json=file)
    results = json.loads(file.read_text())
    assert {*results} <= {"output", "tests", "leaderboard"}
    board = {row["name"]: row["value"] for row in results["leaderboard"]}
    for test, (task, metrics) in zip(results["tests"], scored.scores.items(), strict=True):
        metric, entry = next(iter(metrics.items()))
        assert test["name"] == f"{task} {metric}" and board[test["name"]] == entry["value"]
        assert test["score"] == max(0, entry["value"]) and test["max_score"] == 1
        assert test["status"] == "passed" and f"{entry['value']:.3f}" in test["output"]
    assert board["mean"] == scored.overall["mean"]


def test_the_json_of_a_damaged_file_says_so(course_run, course_files, tmp_path, capsys):
    sst, _, sts = files_of(course_run)
    broken = tmp_path / "para-dev-output.csv"
    broken.write_text("id,X\nqdev0,7\n")
    words = [CONFIG, f"data_dir={course_files}", sst, broken, sts, "--json", tmp_path / "r.json"]
    line = complaint(capsys, "score", *words)
    assert f"{broken}" in line
    tests = json.loads((tmp_path / "r.json").read_text())["tests"]
    assert [test["status"] for test in tests] == ["passed", "passed", "failed"]
    assert tests[-1]["output"] == line and tests[-1]["score"] == 0


def test_several_labels_per_row(tmp_path):
    """The classes are in the order of ``data.labels``; two labels may be one class."""
    for split, size in (("train", 9), ("dev", 6)):
        rows = [f"{i}\ta text\t[{2 if i % 2 else 6}, {7 * (i % 3 == 0)}]" for i in range(size)]
        (tmp_path / f"{split}.csv").write_text("id\ttext\ttypes\n" + "\n".join(rows) + "\n")
    data = {"train": "train.csv", "dev": "dev.csv", "id": "id", "text": "text", "label": "types"}
    data |= {"labels": {7: "c", 6: "b", 2: "a"}, "padding_label": 0}
    task = {"data": data, "head": "multi_label", "course_file": {"name": "etpc", "column": "T"}}
    config = {"data_dir": str(tmp_path), "tasks": {"types": task}}
    gold = [[int(i % 3 == 0), int(i % 2 == 0), int(i % 2 == 1)] for i in range(6)]
    file = tmp_path / "etpc-dev-output.csv"
    file.write_text("id,T\n" + "".join(f"{i}\t{bits}\n" for i, bits in enumerate(gold)))
    assert multitask.score(config, [file]).scores["types"]["exact_match"]["value"] == 1
    gold[4][0] = 1
    file.write_text("id,T\n" + "".join(f'{i},"{bits}"\n' for i, bits in enumerate(gold)))
    scores = multitask.score(config, [file]).scores["types"]
    assert scores["exact_match"]["value"] == pytest.approx(5 / 6)
    assert scores["f1"]["value"] == pytest.approx(2 * 8 / (8 + 9))


def test_rows_without_a_label_may_be_predicted(course_files, tmp_path):
    data = Path(shutil.copytree(course_files, tmp_path / "data"))
    with (data / "ids-sst-dev.csv").open("a") as opened:
        opened.write("12\tsdev12\tan unlabelled film\t\n")
    rows = dev_rows(data, "ids-sst-dev.csv")
    file = write(tmp_path / "sst-x.csv", [(row["id"], row["sentiment"] or 0) for row in rows])
    assert score([file], data).scores["sst"]["accuracy"]["value"] == 1


def test_bad_input_is_one_line(course_run, course_files, tmp_path, capsys):
    sst, para, _ = files_of(course_run)
    nameless = Path(shutil.copy(sst, tmp_path / "mine.csv"))
    (tmp_path / "sst-dev.csv").write_text("id,X\nnobody,0\n")
    other = Path(shutil.copytree(course_files, tmp_path / "data"))
    text = (other / "ids-sst-dev.csv").read_text()
    (other / "ids-sst-dev.csv").write_text(text.replace("great .\t4", "great .\t3"))
    span = ["tasks.sst.head=span", "tasks.sst.data={labels: null, ordered: false}"]
    for words, part in (
        ([], "no files"),
        ([tmp_path / "sst-none.csv"], "no such file"),
        ([nameless], "mine.csv"),
        ([f"nothing={sst}"], "nothing="),
        ([sst, f"sst={nameless}"], "two files of task sst"),
        ([f"qqp={sst}"], "line 2, row 1"),
        ([tmp_path / "sst-dev.csv"], "line 2, row 1"),
        ([sst, "--split", "test"], "no labels"),
        ([sst, "--against", tmp_path], f"{tmp_path}/report.json does not exist"),
        ([sst, "--against", nameless], "mine.csv"),
        ([sst, "--against", para], "para-dev-output.csv"),
        ([sst, para, f"data_dir={other}", "--against", course_run], "other labels"),
        ([sst, "tasks.sst.data.dev=none.csv"], "none.csv"),
        ([sst, *span], "cannot hold"),
    ):
        line = complaint(capsys, "score", CONFIG, f"data_dir={course_files}", *words)
        assert part in line, line


def test_one_path_is_no_list_of_files(course_run, course_files):
    sst, *_ = files_of(course_run)
    with pytest.raises(multitask.UserError, match="files: expected a list"):
        score(str(sst), course_files)
    with pytest.raises(multitask.UserError, match="against: expected a list"):
        score([sst], course_files, against=course_run)


@pytest.fixture
def groups(course_files, tmp_path) -> Path:
    """Groups whose files have more and more wrong rows; one is an archive, and some are broken."""
    place = tmp_path / "handed in"
    labels = {"sst": ("ids-sst-dev.csv", "sentiment"), "para": ("quora-dev.csv", "is_duplicate")}
    labels |= {"sts": ("sts-dev.csv", "similarity")}
    for group, wrong in (("=worst", 8), ("best", 0), ("twin", 0), ("good", 1), ("broken", 0)):
        (place / group).mkdir(parents=True)
        for name, (file, column) in labels.items():
            rows = [(row["id"], float(row[column])) for row in dev_rows(course_files, file)]
            top = {"sst": 4, "para": 1, "sts": 5}[name]
            rows[:wrong] = [(key, top - value) for key, value in rows[:wrong]]
            text = "".join(f"{key} , {value} \n" for key, value in rows)
            (place / group / f"{name}-dev-output.csv").write_text(f"id \t X \n{text}")
    shutil.make_archive(str(place / "good"), "zip", place / "good")
    shutil.rmtree(place / "good")
    (place / "broken" / "sst-dev-output.csv").unlink()
    with (place / "broken" / "para-dev-output.csv").open("a") as opened:
        opened.write("nobody , 1.0 \n")
    (place / "empty.zip").write_text("no archive")
    return place


def test_groups_are_ranked_and_those_that_are_alike_named(groups, course_files, tmp_path, capsys):
    output = tmp_path / "ranked"
    words = [CONFIG, f"data_dir={course_files}", "--submissions", groups, "--output", output]
    for _ in range(2):  # the files may be replaced
        assert main("score", *words) == 0
    printed = capsys.readouterr().out
    assert {Path(line.removeprefix("written: ")) for line in printed.splitlines()[-3:]} == {
        *output.iterdir()
    }
    ranking = json.loads((output / "ranking.json").read_text())
    rows = {row["group"]: row for row in ranking["rows"]}
    ranks = {name: row["rank"] for name, row in rows.items()}
    names = "best twin good.zip =worst broken empty.zip".split()
    assert ranks == dict(zip(names, [1, 1, 3, 4, None, None], strict=True))
    assert [*rows][:2] == ["best", "twin"] and rows["best"]["cells"]["sst"]["mean"] == 1
    assert rows["good.zip"]["cells"]["sst"]["mean"] == pytest.approx(11 / 12)
    assert rows["best"]["like"][0] == "twin" and "=worst" not in rows["best"]["like"]
    assert rows["=worst"]["like"] == []
    errors = rows["broken"]["errors"]
    assert len(errors) == 2 and "sst-dev-output.csv" in errors[0] and "line 14, row 13" in errors[1]
    assert rows["broken"]["cells"].keys() == {"sts"} and len(rows["empty.zip"]["errors"]) == 1
    page = (output / "ranking.html").read_text()
    assert all(name in page for name in rows) and "line 14, row 13" in page
    with (output / "ranking.csv").open() as opened:
        table = {row["group"]: row for row in csv.DictReader(opened)}
    assert float(table["good.zip"]["sst accuracy"]) == pytest.approx(11 / 12)
    assert table["broken"]["rank"] == "" and table["broken"]["sst accuracy low"] == ""
    assert "'=worst" in table  # no formula


def test_a_groups_scores_are_those_of_its_files(groups, course_files):
    changes = [f"data_dir={course_files}"]
    ranked = multitask.score_submissions(CONFIG, groups, changes)
    (row,) = (row for row in ranked.ranking["rows"] if row["group"] == "=worst")
    alone = score(sorted((groups / "=worst").iterdir()), course_files)
    for task, metrics in alone.scores.items():
        assert row["cells"][task]["mean"] == next(iter(metrics.values()))["value"]
    assert row["cells"]["mean of tasks"]["mean"] == pytest.approx(alone.overall["mean"])
    assert ranked.ranking["trivial"]["sst"] == alone.scores["sst"]["accuracy"]["trivial"]
    assert str(ranked) == ranked.page and not ranked.files


def test_bad_calls_for_groups_are_one_line(groups, course_files, tmp_path, capsys):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").write_text("")
    nameless = [f"tasks.{task}.course_file=null" for task in NAMES]
    for words, part in (
        (["--submissions", groups, "sst=x.csv"], "--submissions"),
        (["--submissions", groups, "--against", groups], "--submissions"),
        (["--output", tmp_path], "--output"),
        (["--submissions", groups, "--output", tmp_path / "mine"], "not empty"),
        (["--submissions", groups, *nameless], "course_file"),
        (["--submissions", tmp_path / "none"], "no such directory"),
        (["--submissions", groups, "--split", "test"], "no labels"),
    ):
        line = complaint(capsys, "score", CONFIG, f"data_dir={course_files}", *words)
        assert part in line, line
