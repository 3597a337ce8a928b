"""The tables of a comparison."""

import copy
import csv
import re

import pytest

from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.read_runs import group_runs
from multitask.reporting.sheet import MEAN
from multitask.reporting.verdicts import verdicts
from multitask.reporting.write_sheet import write_sheet
from tests.support.fabricated_run import write_run

TASKS = ("sst", "para", "sts")


def compared(root, seeds):
    """Settings, single-task runs, and names that need escaping; two have always two seeds."""
    runs = []

    def add(name, seed, noise, only=TASKS):
        runs.append(root / name)
        write_run(runs[-1], rows=60, seed=seed, noise=noise, only=only, lr=noise)

    for seed in (1, 2):
        add(f"base_100%&$x-{seed}", seed, 0.3)
        add(f"good|<i>-{seed}", seed, 0.05)
    for seed in seeds:
        add(f"lone-{seed}", seed, 0.5)
        for task in TASKS:
            add(f"only-{task}-{seed}", seed, 0.31, (task,))
        add(f"pair-{seed}", seed, 0.1, ("sst", "sts"))
    return compare(group_runs(runs), "good|<i>", resamples=100)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory):
    """Every group has two seeds."""
    return compared(tmp_path_factory.mktemp("runs"), (1, 2))


@pytest.fixture(scope="module")
def unequal(tmp_path_factory):
    """Some groups have one seed."""
    return compared(tmp_path_factory.mktemp("unequal"), (1,))


def lines_of(text, name):
    return [line for line in text.splitlines() if line.startswith(name)]


def test_the_text_is_aligned_and_marks_the_best(comparison):
    text = sheet_tables.terminal_page(comparison)
    header, rule, *rows = text.splitlines()[1 : len(comparison["rows"]) + 3]
    starts = [match.start() for match in re.finditer("-+", rule)]
    cells = [
        [line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)]
        for line in (header, *rows)
    ]
    assert cells[0] == ["group", "seeds", "sst accuracy", "para accuracy", "sts pearson", "mean"]
    for group, result in zip(comparison["rows"], cells[1:], strict=True):
        assert result[:2] == [group["name"], str(len(group["seeds"]))]
        for task, cell in zip(TASKS, result[2:5], strict=True):
            entry = group["cells"].get(task)
            if entry is None:
                assert cell == "-"
                continue
            sd = "-" if entry["sd"] is None else f"{entry['sd']:.3f}"
            assert cell == f"{entry['mean']:.3f} ± {sd}" + " *" * entry["best"]
    for column in range(2, 6):
        assert any(row[column].endswith("*") for row in cells[1:])


def test_one_seed_has_no_mark_and_no_p(unequal):
    text = sheet_tables.terminal_page(unequal)
    assert " *" not in text.partition("Difference")[0]
    lone = next(group for group in unequal["rows"] if group["name"] == "lone")
    difference = lone["cells"]["sst"]["difference"]
    assert difference["p"] is None and difference["p_holm"] is None
    parts = [f"{difference[key]:+.3f}" for key in ("value", "low", "high")]
    assert "{} [{}, {}] rows only".format(*parts) in text
    assert "One seed: says nothing about another seed; its deviation is unknown (-): lone," in text
    assert "after Holm's correction" in text  # base and good have two seeds
    alone = compare_one_seed(unequal)
    text = sheet_tables.terminal_page(alone)
    assert "Holm" not in text and " p " not in text and "every group" in text


def compare_one_seed(comparison):
    """Leave the rows with one seed, each compared with the first of them."""
    rows = [each for each in copy.deepcopy(comparison["rows"]) if len(each["seeds"]) == 1]
    base = rows[0]["name"]
    for row in rows:
        row["baseline"] = None if row["name"] == base else base
    alone = comparison | {"rows": rows, "transfer": {}, "baseline": base}
    return alone | {"verdicts": verdicts(alone)}


def test_the_numbers_are_in_the_text(comparison):
    text = sheet_tables.terminal_page(comparison)
    difference = comparison["rows"][0]["cells"]["sst"]["difference"]
    parts = [f"{difference[key]:+.3f}" for key in ("value", "low", "high", "p_holm")]
    assert "{} [{}, {}] p {}".format(*parts).replace("p +", "p ") in text
    assert "paired bootstrap over dev rows and seeds, 100 resamples" in text


def test_markdown_is_escaped_and_bold(comparison):
    page = sheet_tables.markdown_text(comparison)
    best = comparison["rows"][1]
    assert best["name"] == "good|<i>" and best["cells"][MEAN]["best"]
    (row,) = lines_of(page, r"| good\|&lt;i&gt; | 2 |")
    entry = best["cells"][MEAN]
    assert f"**{entry['mean']:.3f} ± {entry['sd']:.3f}**" in row
    result = [block.splitlines() for block in page.split("\n\n") if block.startswith("| ")]
    assert len(result) == 4  # scores, differences, gains, matrix
    for table in result:
        assert len({len(re.findall(r"(?<!\\)\|", line)) for line in table}) == 1
    assert "Δm" in result[2][0]
    assert [line.split(" | ")[0] for line in result[3][2:]] == ["| sst", "| sts"]


def test_latex_is_escaped_and_every_row_has_its_columns(comparison):
    page = sheet_tables.latex_text(comparison)
    for name in (r"base\_100\%\&\$x & 2 & ", r"good\textbar{}\textless{}i\textgreater{}"):
        assert name in page
    entry = comparison["rows"][1]["cells"][MEAN]
    assert rf"\textbf{{{entry['mean']:.3f} $\pm$ {entry['sd']:.3f}}}" in page
    tabulars = re.findall(r"\\begin\{tabular\}\{(l\w*)\}(.*?)\\end\{tabular\}", page, re.DOTALL)
    assert len(tabulars) == 4
    for columns, body in tabulars:
        rows = [line for line in body.splitlines() if line.endswith(r"\tabularnewline")]
        assert {len(re.findall(r"(?<!\\)&", row)) + 1 for row in rows} == {len(columns)}
        assert [body.count(rule) for rule in (r"\toprule", r"\midrule", r"\bottomrule")] == [1] * 3
    assert page.count("{") - page.count(r"\{") == page.count("}") - page.count(r"\}")


def test_csv_reads_back_as_the_numbers(comparison):
    rows = list(csv.DictReader(sheet_tables.csv_text(comparison).splitlines()))
    by_cell = {(line["row"], line["column"]): line for line in rows}

    def number(text):
        return float(text) if text else None

    for row in comparison["rows"]:
        for name, cell in row["cells"].items():
            line = by_cell.pop((row["name"], comparison["columns"][name]["title"]))
            assert int(line["seeds"]) == len(cell["values"])
            assert [number(line[key]) for key in ("mean", "sd")] == [cell["mean"], cell["sd"]]
            for key in ("value", "low", "high", "p_holm"):
                assert number(line[f"diff_{key}"]) == (cell["difference"] or {}).get(key)
    assert not by_cell


@pytest.mark.parametrize(("key", "title"), sheet_tables.AMOUNTS.items())
@pytest.mark.parametrize(
    ("counts", "shown"),
    [([100, 1_234_567], True), ([1000, 1000], False), ([1000, 1005], False), ([1, None], False)],
)
def test_amounts_of_training_are_listed_where_they_differ(comparison, key, title, counts, shown):
    rows = copy.deepcopy(comparison["rows"][:2])
    for row, count in zip(rows, counts, strict=True):
        row |= {"trained_parameters": 9, "updates": 9, "trained_rows": 9, key: count}
    tables = sheet_tables.training_tables(comparison | {"rows": rows, "baseline": rows[1]["name"]})
    assert bool(tables) == shown
    if shown:
        (table,) = tables.values()
        assert table.header == ("group", title)
        assert [row[-1] for row in table.rows] == ["100", "1,234,567"]


def test_undefined_scores_are_dashes(comparison):
    broken = copy.deepcopy(comparison)
    entry = broken["rows"][2]["cells"]["sst"]
    entry |= dict.fromkeys(("mean", "sd", "low", "high", "difference")) | {"values": [None]}
    text = sheet_tables.terminal_page(broken)
    scores, differences = lines_of(text, "lone ")[:2]
    assert scores.split()[:3] == ["lone", "2", "-"]
    assert differences.split()[:2] == ["lone", "-"]
    assert "None" not in text and "nan" not in text


def test_every_format_has_the_verdicts_below_its_tables(comparison):
    first, *_ = comparison["verdicts"]
    assert first.startswith("Compared with ")
    for write in (sheet_tables.terminal_page, sheet_tables.markdown_text, sheet_tables.latex_text):
        assert "significant: Holm's p is below 0.05" in write(comparison)


def test_one_group_alone_has_no_differences(comparison):
    alone = copy.deepcopy(comparison) | {"transfer": {}, "rows": comparison["rows"][1:2]}
    text = sheet_tables.terminal_page(alone)
    assert "Difference" not in text and "paired bootstrap" not in text


def test_tiny_p_values_and_zero_differences_are_written_plainly():
    difference = {"value": -1e-9, "low": -0.0, "high": 0.0, "p_holm": 0.0004}
    assert sheet_tables.difference_cell(difference) == "+0.000 [+0.000, +0.000] p<0.001"


def test_all_files_are_written_anew(comparison, tmp_path):
    directory = tmp_path / "new" / "comparison"
    for _ in range(2):
        paths = write_sheet(directory, comparison)
        assert {*directory.iterdir()} == {*paths}
    texts = ["comparison.json", "table.md", "table.csv", "table.tex", "metrics.md", "metrics.tex"]
    figures = ["figure.png", "curves.png", "gaps.png", "report.html"]
    assert [path.name for path in paths] == [*texts, *figures]
