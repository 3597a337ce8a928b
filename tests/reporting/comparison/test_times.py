"""Training times in a comparison: medians and ratios by hand, in every format, on one machine."""

import csv
import json
import statistics

import pytest

from multitask.reporting.comparison import score_tables
from multitask.reporting.comparison.compare import Group, compare, write_comparison
from multitask.reporting.comparison.comparison_page import comparison_page
from tests.support.fabricated_run import write_run

SECONDS = {"base": (8.0, 10.0, 30.0), "slow": (24.0, 26.0, 25.0), "probe": (None, None, None)}
MACHINE = {"device": "cpu", "processes": 1, "threads": 2}


@pytest.fixture
def groups(tmp_path):
    result = []
    for number, (name, times) in enumerate(SECONDS.items()):
        runs = [tmp_path / f"{name}-{seed}" for seed in range(1, 4)]
        for seed, (run, seconds) in enumerate(zip(runs, times, strict=True), 1):
            write_run(run, rows=60, seed=seed, noise=0.1 * number, lr=number)
            edited(run, **MACHINE, **({"epoch_seconds": seconds} if seconds else {}))
        result.append(Group(name, runs))
    return result


def edited(run, **changes):
    """Change the report of a run in place."""
    file = run / "report.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def test_times_are_medians_and_their_ratios_in_every_format(groups, tmp_path):
    comparison = compare(groups, "base", resamples=20)
    base, slow, probe = (group["training_time"] for group in comparison["groups"])
    medians = [statistics.median(SECONDS[name]) for name in ("base", "slow")]
    assert base == {"epoch_seconds": medians[0], "ratio": 1.0}
    assert slow == {"epoch_seconds": medians[1], "ratio": medians[1] / medians[0]}
    assert probe is None

    table = score_tables.time_table(comparison)
    assert table.header == ("group", "seconds an epoch", "ratio to base")
    assert table.rows == [["base", "10.0", "x1.00"], ["slow", "25.0", "x2.50"]]
    write_comparison(tmp_path / "out", comparison)
    for name, row in (("md", "| slow | 25.0 | x2.50 |"), ("tex", r"slow & 25.0 & x2.50 \tab")):
        text = (tmp_path / "out" / f"table.{name}").read_text()
        assert score_tables.TIME_TITLE in text and row in text
        assert "the load of the machine was not controlled" in text
    lines = list(csv.DictReader((tmp_path / "out" / "table.csv").read_text().splitlines()))
    times = [(line["epoch_seconds"], line["epoch_seconds_ratio"]) for line in lines]
    assert times == [("10.0", "1.0"), ("25.0", "2.5"), ("", "")]
    (section,) = [
        section
        for section in comparison_page(tmp_path / "out", comparison).sections
        if section.title == score_tables.TIME_TITLE
    ]
    assert section.blocks == [table]


@pytest.mark.parametrize(
    ("change", "words"),
    [({"threads": 1}, "threads 2, 1"), ({"device": "cuda", "processes": 2}, "device cpu, cuda")],
)
def test_times_of_several_machines_are_left_out_with_a_note(change, words, groups):
    edited(groups[1].runs[2], **change)
    comparison = compare(groups, "base", resamples=20)
    assert [group["training_time"] for group in comparison["groups"]] == [None] * 3
    assert score_tables.TIME_TITLE not in score_tables.markdown_text(comparison)
    (note,) = comparison["notes"]
    assert note.startswith(f"Training times do not compare, the runs differ in {words}")


def test_a_report_older_than_the_count_of_threads_is_no_other_machine(groups):
    for run in groups[0].runs:
        edited(run, threads=None)
    comparison = compare(groups, "base", resamples=20)
    assert score_tables.time_table(comparison) and not comparison["notes"]


def test_without_times_there_is_no_table(groups):
    edited(groups[0].runs[0], epoch_seconds=None)
    comparison = compare(groups, "base", resamples=20)
    assert comparison["groups"][0]["training_time"] is None
    assert comparison["groups"][1]["training_time"]["ratio"] is None
    assert score_tables.time_table(comparison) is None
    for group in comparison["groups"]:  # a comparison that was saved before times were
        del group["training_time"]
    assert score_tables.time_table(comparison) is None and score_tables.csv_text(comparison)
