"""The files of a sheet, the page of a comparison, and which directories may get them."""

import base64
import copy
import itertools
import re
import shutil
import warnings

import pytest

import run_multitask
from multitask.reporting import compare as comparing
from multitask.reporting import sheet_tables
from multitask.reporting.compare import compare
from multitask.reporting.figures.dots import MAX_CURVES, curve_groups
from multitask.reporting.read_runs import Group, group_runs
from multitask.reporting.sheet import MEAN
from multitask.reporting.sheet_tables import difference_cell, score_cell
from multitask.reporting.write_sheet import comparison_page, settings_table, write_sheet
from tests.support.fabricated_run import write_run
from tests.support.html_page import Parsed, check_page, page_text
from tests.support.messages import complaint

SCRIPT = "<script>alert('x')<!--"
NASTY = [SCRIPT, '</td></tr><b>"x" & y', "{{ 7 * 7 }} $x_1$", "long" * 30, "مرحبا 👩‍🔬 中文"]
TASKS = ("sst", "para", "sts")


def grid_of(root):
    """Three axes whose every text is nasty; one cell is missing, and the worst is the baseline."""
    keys = (f"training.{SCRIPT}", "tasks.sst.pooling", "one")
    labels = (NASTY[:2], NASTY[2:5], ["x", "y"])
    values = ([1, 2], ["a", "b", "c"], [True, False])
    axes = [
        {"key": key, "labels": of_key, "values": set_to}
        for key, of_key, set_to in zip(keys, labels, values, strict=True)
    ]
    groups = []
    for i, j, k in itertools.product(range(2), range(3), range(2)):
        if (i, j, k) == (1, 2, 1):
            continue
        runs = [root / f"{i}{j}{k}-{seed}" for seed in (1, 2)]
        for seed, run in enumerate(runs, 1):
            settings = {"head": {"name": "h", "options": NASTY[j]}, "k": NASTY[k]}
            write_run(run, rows=60, seed=seed, noise=0.1 * (i + j + k), **settings)
        point = {keys[0]: labels[0][i], keys[1]: labels[1][j], keys[2]: labels[2][k]}
        groups.append(Group(f"{NASTY[j]}-{i}{j}{k}", runs, point))
    comparison = compare(groups, groups[-1].name, axes=axes, resamples=50)
    comparison["notes"] += [f"Failed: {NASTY[1]}"]
    return comparison


SUBSETS = {"-".join(only): only for only in (*((task,) for task in TASKS), ("sst", "sts"), TASKS)}


def subsets_of(root):
    """Every task alone, two together, and all three."""
    for name, only in SUBSETS.items():
        write_run(root / name, rows=60, only=only, noise=0.1 * len(only))
    return compare(group_runs([root / name for name in SUBSETS]), "sst", resamples=50)


def alone_of(root):
    """One group of one seed and one task."""
    write_run(root / "run-1", rows=60, seed=1, only=("para",))
    return compare(group_runs([root / "run-1"]), "run", resamples=50)


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Comparison, folder and text of the page, by kind."""
    result = {}
    for name, make in (("grid", grid_of), ("subsets", subsets_of), ("alone", alone_of)):
        root = tmp_path_factory.mktemp(name)
        comparison = make(root)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            paths = write_sheet(root / f"out <b> {name}", comparison)
        assert paths[-1].name == "report.html"
        result[name] = (comparison, paths[-1].parent, paths[-1].read_text(encoding="utf-8"))
    return result


@pytest.fixture(params=["grid", "subsets", "alone"])
def kind(request, written):
    return written[request.param]


def sections(text):
    return [section["id"] for section in Parsed(text).all("section")]


def test_the_page_is_sound_and_asks_for_nothing(kind):
    check_page(kind[2])


def test_every_figure_is_inside(kind):
    _, folder, text = kind
    inside = [
        base64.b64decode(image["src"].removeprefix("data:image/png;base64,"))
        for image in Parsed(text).all("img")
    ]
    assert sorted(inside) == sorted(file.read_bytes() for file in folder.glob("*.png"))


def test_nothing_of_the_data_is_markup(written):
    text = written["grid"][2]
    assert "<script" not in text and "<b>" not in text and "<!--" not in text
    shown = page_text(text)
    for string in (*NASTY, f"Failed: {NASTY[1]}", "Comparison: out <b> grid"):
        assert string in shown


def test_the_sections_are_those_that_the_comparison_has_something_for(written):
    end = ["learning-curves", "how-to-read-this", "runs"]
    start = ["overview", "dev-scores", "differences", "notes", "settings"]
    assert sections(written["grid"][2]) == [*start, "heat-maps", "axes", *end]
    without = [*start[:3], "training", "settings"]
    assert sections(written["subsets"][2]) == [*without, end[0], "transfer", *end[1:]]
    assert sections(written["alone"][2]) == [*start[:2], *end]


def test_the_tables_hold_the_scores_and_differences(kind):
    comparison, _, text = kind
    scores, *others = Parsed(text).tables
    for row, group in zip(scores[1:], comparison["rows"], strict=True):
        entries = [group["cells"].get(name) for name in comparison["columns"]]
        expected = [group["name"], str(len(group["seeds"])), *map(score_cell, entries)]
        assert row[: len(expected)] == expected  # updates and rows may follow
    best = [
        score_cell(entry)
        for group in comparison["rows"]
        for entry in group["cells"].values()
        if entry["best"] and entry["sd"] is not None
    ]
    table = text.split("<table>")[1].split("</table>")[0]
    assert sorted(re.findall("<strong>(.*?)</strong>", table)) == sorted(best)
    if len(comparison["rows"]) == 1:
        return
    rows = {row[0]: row[1:] for row in others[0][1:]}
    for group in comparison["rows"]:
        for at, task in enumerate(TASKS):
            difference = (group["cells"].get(task) or {}).get("difference")
            shown = difference_cell(difference) if difference else "-"
            assert rows.get(group["name"], ["-"] * 3)[at] == shown


def test_clear_differences_alone_are_bold(written):
    comparison = copy.deepcopy(written["grid"][0])
    entries = [group["cells"]["sst"] for group in comparison["rows"][2:5]]
    for entry, p in zip(entries, (0.049, 0.05, None), strict=True):
        entry["difference"]["p_holm"] = p
    page = comparison_page(written["grid"][1], comparison)
    (marked,) = (each.blocks[0].marked for each in page.sections if each.label == "Differences")
    assert [(row, 1) in marked for row in (2, 3, 4)] == [True, False, False]


def test_the_tiles_name_the_best_beside_the_baseline(written):
    comparison, folder, _ = written["grid"]
    page = comparison_page(folder, comparison)
    titles = ["mean of the tasks", "sst accuracy", "para accuracy", "sts pearson"]
    assert [tile.title for tile in page.tiles] == titles
    best = next(group for group in comparison["rows"] if group["cells"][MEAN]["best"])
    base = comparison["rows"][-1]["cells"][MEAN]["mean"]
    tile = page.tiles[0]
    assert tile.measure == f'best of 11: "{best["name"]}"'
    assert (tile.score, tile.references) == (best["cells"][MEAN]["mean"], {"baseline": base})
    p = best["cells"][MEAN]["difference"]["p_holm"]
    assert tile.flags == ([] if p < 0.05 else ["not clearly better than the baseline"])
    assert page.summary == f'Runs of sst, para, sts; baseline: "{comparison["baseline"]}".'
    # the best is the baseline, nobody else has the column, and the column is empty
    comparison, folder, _ = written["subsets"]
    overall, *tiles = comparison_page(folder, comparison).tiles
    assert overall.measure == '"sst-para-sts"' and overall.references == {}
    assert tiles[0].measure == 'best of 3: "sst", the baseline'
    undefined = copy.deepcopy(written["alone"][0])
    undefined["rows"][0]["cells"]["para"]["mean"] = None
    assert comparison_page(written["alone"][1], undefined).tiles == []


def test_the_winner_is_that_of_the_held_out_rows(written):
    comparison, folder, _ = written["grid"]
    plain, held = comparison_page(folder, comparison), copy.deepcopy(comparison)
    worst = min(held["rows"], key=lambda group: group["cells"][MEAN]["mean"])
    for group in held["rows"]:
        mean = 0.9 if group is worst else 0.1
        score = {"values": [mean, mean], "mean": mean, "sd": 0.01}
        group["holdout"] = dict.fromkeys([*TASKS, MEAN], score)
    page = comparison_page(folder, held)
    assert all(f'"{worst["name"]}"' in tile.measure for tile in page.tiles)
    assert page.tiles[0].score == worst["cells"][MEAN]["mean"]  # its dev score
    assert "held-out rows" in page.legend and "held-out rows" not in plain.legend


def test_one_seed_is_said_and_nothing_of_it_is_bold(written):
    comparison, folder, _ = written["grid"]
    single = copy.deepcopy(comparison)
    for group in single["rows"]:
        for entry in group["cells"].values():
            entry["sd"] = None
            if entry["difference"]:
                entry["difference"] |= {"p": None, "p_holm": None}
    page = comparison_page(folder, single)
    assert {flag for tile in page.tiles for flag in tile.flags} == {sheet_tables.ONE_SEED}
    tables = [block for section in page.sections for block in section.blocks]
    assert not any(getattr(block, "marked", None) for block in tables)


def test_the_means_along_each_axis_are_in_a_separate_table(written):
    comparison, _, text = written["grid"]
    tables = [table for table in Parsed(text).tables if table[0][:2] == ["value", "cells"]]
    assert [len(table) - 1 for table in tables] == [2, 3, 2]
    lines = iter(comparison["marginals"])
    for row in (row for table in tables for row in table[1:]):
        line = next(lines)
        entries = [*line["cells"].values()]
        assert row[2:] == [score_cell(entry) for entry in entries]
        assert row[1] == str(entries[0]["cells"])
    assert [table[1][1] for table in tables] == ["5", "3", "5"]  # one cell is missing


@pytest.mark.parametrize(
    ("settings", "lines"),
    [
        ([{"x": 1}, {"y": "<i>"}], [("group", "x", "y"), ["a", "1", "-"], ["b", "-", "<i>"]]),
        (
            [{"x": 1, "z": [1, 2]}, {"y": "<i>"}],
            [("key", "a", "b"), ["x", "1", "-"], ["z", "[1, 2]", "-"], ["y", "-", "<i>"]],
        ),
    ],
)
def test_the_settings_stand_with_the_longer_side_down(settings, lines):
    groups = [{"name": name, "settings": of} for name, of in zip("ab", settings, strict=True)]
    table = settings_table(groups)
    assert [table.header, *table.rows] == lines
    assert settings_table([{"name": "a", "settings": {}}]) is None


def test_of_many_groups_the_baseline_and_the_best_have_curves(written):
    comparison = written["grid"][0]
    names = [group["name"] for group in comparison["rows"]]
    drawn = curve_groups(comparison)
    assert len(drawn) == MAX_CURVES < len(names)
    assert [name for name in names if name in drawn] == list(drawn)  # in the table's order
    assert comparison["baseline"] in drawn
    for group in comparison["rows"]:
        if any(entry["best"] for entry in group["cells"].values()):
            assert group["name"] in drawn
        assert [str(run) for run in drawn.get(group["name"], [])] in ([], group["runs"])
    means = {group["name"]: group["cells"][MEAN]["mean"] for group in comparison["rows"]}
    assert means[comparison["baseline"]] == min(means.values())
    left_out = max(means[name] for name in names if name not in drawn)
    others = sorted(means[name] for name in drawn if name != comparison["baseline"])
    assert others[-3] > left_out
    assert f"{MAX_CURVES} of 11 groups" in page_text(written["grid"][2])
    assert list(curve_groups(written["subsets"][0])) == list(SUBSETS)


def test_runs_without_a_log_have_no_curves(tmp_path):
    comparison = subsets_of(tmp_path)
    for name in ("sst", "sts"):
        (tmp_path / name / "metrics.jsonl").unlink()
    assert list(curve_groups(comparison)) == ["para", "sst-sts", "sst-para-sts"]
    write_sheet(tmp_path / "some", comparison)
    shown = page_text((tmp_path / "some" / "report.html").read_text())
    assert "3 of 5 groups: those with a log." in shown
    for log in tmp_path.glob("*/metrics.jsonl"):
        log.unlink()
    paths = write_sheet(tmp_path / "none", comparison)
    assert "curves.png" not in [path.name for path in paths]
    assert "learning-curves" not in sections((tmp_path / "none" / "report.html").read_text())


def report(run, output) -> list[str]:
    return ["report", str(run), "--output", str(output)]


@pytest.mark.parametrize("name", ["comparison.json", "table.md", "report.html", "notes.txt"])
def test_a_directory_of_the_user_is_left_alone(name, tiny_run, tmp_path, capsys):
    (tmp_path / name).write_text("years of work")
    for place in (tmp_path, tiny_run):
        assert f"{place} is not empty" in complaint(capsys, *report(tiny_run, place))
    assert (tmp_path / name).read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_earlier_comparison_is_replaced(tiny_run, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        assert run_multitask.main(report(tiny_run, out)) == 0
    assert "macro" in (out / "metrics.md").read_text() and (out / "metrics.tex").is_file()


def test_a_run_that_appears_while_runs_are_compared_is_left_alone(
    tiny_run, tmp_path, capsys, monkeypatch
):
    original = comparing.compare

    def slow(*arguments, **options):
        shutil.copytree(tiny_run, tmp_path / "out")
        return original(*arguments, **options)

    monkeypatch.setattr(comparing, "compare", slow)
    assert run_multitask.main(report(tiny_run, tmp_path / "out")) == 2
    assert "is not empty" in capsys.readouterr().err
    assert not (tmp_path / "out" / "comparison.json").exists()
