"""The STS suites' table and notes, from what sts.json holds."""

import math

import pytest

from multitask.reporting.sts_report import (
    average,
    headline,
    notes,
    percent,
    subsets_table,
    suites_table,
)
from multitask.tasks.sts_names import NAMES


def scores(value, pairs=100):
    both = {"spearman": value, "pearson": value - 0.1}
    subsets = {"one": {**both, "pairs": pairs}}
    return {"all": both, "mean": both, "wmean": both, "pairs": pairs, "subsets": subsets}


def entry(value, clean=None, **changes):
    space = {"alignment": 0.25, "uniformity": -1.5, "mean_cosine": math.nan}
    plain = {"scores": scores(value), "clean": clean, "space": space, "in_training": 0}
    plain |= {"selecting": 0, "pairs": 1379, "files": {"one": "sts-test.csv"}}
    return plain | changes


SUITES = {name: entry(0.5 + 0.05 * place) for place, name in enumerate(NAMES)}
FOUND = {"of": "a_run", "max_length": 64, "suites": SUITES, "command": "sts", "git_revision": None}


def row(result, title):
    (line,) = [
        line
        for line in suites_table(result["suites"]).text().splitlines()
        if line.lstrip().startswith(title)
    ]
    return line.replace(title, "", 1).split()


def test_the_seven_columns_and_their_mean():
    spearmans = [0.5 + 0.05 * place for place in range(7)]
    shown = [f"{100 * value:.2f}" for value in spearmans]
    assert row(FOUND, "Spearman, all") == [*shown, f"{100 * sum(spearmans) / 7:.2f}"]
    assert row(FOUND, "Pearson, all")[0] == "40.00"
    assert row(FOUND, "alignment (lower is better)") == ["0.250"] * 7
    assert row(FOUND, "mean cosine of any two sentences") == ["-"] * 7
    assert average(SUITES) == pytest.approx(0.65)
    assert average(SUITES, "pearson") == pytest.approx(0.55)


def test_a_missing_suite_has_no_column_and_there_is_no_mean():
    few = {name: SUITES[name] for name in NAMES[1:]}
    assert average(few) is None
    result = {**FOUND, "suites": few}
    assert row(result, "Spearman, all")[0] == "-" and row(result, "Spearman, all")[-1] == "-"
    assert f"no Avg: {NAMES[0]} not found" in notes(result)


def test_without_the_pairs_of_training_are_the_scores_that_count():
    seen = entry(0.9, clean=scores(0.6, pairs=70), in_training=30)
    assert headline(seen)["pairs"] == 70 and headline(entry(0.9))["pairs"] == 100
    result = {**FOUND, "suites": {**SUITES, "STS12": seen}}
    assert row(result, "Spearman, all, seen pairs included")[NAMES.index("STS12")] == "90.00"
    subsets = subsets_table(result["suites"]).markdown()
    assert "| STS12 | one | 70 | 60.00 | 50.00 | 30 |" in subsets
    assert any("left out of every row except" in line for line in notes(result))


def test_what_else_must_be_said():
    assert notes(FOUND) == []
    bare = {name: {**one, "in_training": None} for name, one in SUITES.items()}
    assert "an encoder without a run: its training" in notes({**FOUND, "suites": bare})[0]
    assert "pairs seen in training" not in suites_table(bare).text()
    dev = {**SUITES, "STS-B": entry(0.8, pairs=1500, selecting=20, files={"d": "sts-dev.csv"})}
    said = notes({**FOUND, "suites": dev})
    assert said == [
        "STS-B: 20 of 1,500 pairs selected the run's weights",
        "STS-B is sts-dev.csv, 1,500 pairs: not the benchmark's test split",
    ]


@pytest.mark.parametrize(
    ("value", "text"), [(0.83456, "83.46"), (None, "-"), (math.nan, "-"), (-0.0001, "-0.01")]
)
def test_correlations_are_shown_times_100(value, text):
    assert percent(value) == text
