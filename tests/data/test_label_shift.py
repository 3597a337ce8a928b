"""Labels of two splits that cannot come from one distribution, and those that can."""

from types import SimpleNamespace

import numpy as np
import pytest

import run_multitask
from multitask.config.registry import task_type
from multitask.data.classes import label_readers
from multitask.data.label_shift import other_labels, padding_warnings
from multitask.data.load_rows import load_rows
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from tests.conftest import ROOT, write_tsv
from tests.support.data_files import make
from tests.support.token_run import write_lines

RNG = np.random.default_rng(0)
NUMBERS = LabelReader(task_type("number"), {}, (), 0.0, 100.0)
NAMES = tuple("abcdefghij")
CLASSES = LabelReader(task_type("class"), {}, NAMES)
SEVERAL = LabelReader(task_type("labels"), {}, NAMES)


def numbers(low, high, size):
    return RNG.uniform(low, high, size).round(2)


def classes(low, high, size):
    return RNG.integers(low, high, size)


def warning_of(train, dev, reader):
    pair = {
        split: Rows(split, [""] * len(labels), [("text",)] * len(labels), labels)
        for split, labels in (("train", train), ("dev", dev))
    }
    return other_labels(pair, reader)


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        (numbers(0, 1, 60), numbers(0, 5, 30)),  # shares against stars
        (numbers(0, 5, 60), numbers(0, 1, 30)),
        (numbers(0, 1, 60), numbers(0, 100, 30)),  # shares against per cent
        (numbers(0, 5, 5000), numbers(10, 20, 20)),  # no overlap
        (numbers(0, 5, 20), numbers(6, 9, 5000)),
        (RNG.integers(1, 6, 400), RNG.integers(0, 5, 100)),  # one file counts from 0
        (numbers(0, 5, 500), np.full(60, 2.5)),  # all alike
        (RNG.integers(1, 6, 120), RNG.integers(0, 5, 60)),
        (numbers(0, 1, 10), numbers(2, 5, 5)),  # few rows, but nothing in common
    ],
)
def test_numbers_on_another_scale(train, dev):
    line = warning_of(train.astype(float), dev.astype(float), NUMBERS)
    assert "are both on one scale?" in line
    assert f"from {dev.min():g} to {dev.max():g} in dev" in line


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        (numbers(0, 5, 60), numbers(0, 5, 30)),
        (numbers(0, 5, 10_000), numbers(0, 5, 8)),  # few rows leave out much of the range
        (numbers(0, 5, 10_000), np.append(numbers(0, 4.8, 900), 4.9)),  # rare ones at the end
        (np.full(50, 2.5), np.full(20, 2.5)),
    ],
)
def test_numbers_on_one_scale(train, dev):
    assert warning_of(train, dev, NUMBERS) == ""


def test_chance_alone_seldom_warns():
    """Splits of one distribution: a warning in less than one of a hundred, whatever their size."""
    warned = 0
    for _ in range(400):
        sizes = [int(size) for size in RNG.integers(5, 300, 2)]
        train, dev = (RNG.beta(0.5, 3, size) * 100 for size in sizes)
        warned += bool(warning_of(train, dev, NUMBERS))
        shares = RNG.dirichlet(np.ones(10))
        train, dev = (RNG.choice(10, size, p=shares) for size in sizes)
        warned += bool(warning_of(train, dev, CLASSES))
    assert warned < 4


@pytest.mark.parametrize(
    ("train", "dev", "part"),
    [
        (classes(0, 3, 60), classes(3, 6, 30), "30 of 30 labels in dev are classes that train"),
        (classes(0, 9, 300), classes(1, 10, 100), "does not have (j)"),  # one file counts from 1
        (classes(0, 10, 300), classes(0, 3, 100), "(d, e, f, g, h, ...)"),
        (np.arange(40) % 2, np.ones(20, int), "20 of 40 labels in train are classes that dev"),
        (np.arange(6) % 2, 2 + np.arange(6) % 2, "6 of 6 labels in dev are classes that train"),
    ],
)
def test_classes_that_the_other_split_lacks(train, dev, part):
    assert part in warning_of(train, dev, CLASSES)


@pytest.mark.parametrize(
    ("train", "dev"),
    [
        (classes(0, 5, 40), classes(0, 5, 12)),
        (classes(0, 5, 1000), np.zeros(3, dtype=int)),  # too few rows to say
        (np.append(classes(0, 5, 1000), [9] * 30), classes(0, 5, 200)),  # a rare class
    ],
)
def test_classes_that_may_be_missing_by_chance(train, dev):
    assert warning_of(train, dev, CLASSES) == ""


def test_many_rare_classes_may_be_missing_by_chance():
    many = LabelReader(task_type("class"), {}, tuple(map(str, range(300))))
    assert warning_of(classes(0, 300, 900), classes(0, 300, 100), many) == ""


def test_several_classes_are_counted_each():
    cells = np.eye(10)[classes(0, 3, 80)]
    assert "classes that train does not have" in warning_of(
        cells, np.roll(cells, 5, axis=1), SEVERAL
    )
    assert warning_of(cells, cells, SEVERAL) == ""


def test_labels_without_classes_or_range_are_not_compared():
    reader = LabelReader(task_type("span"), {}, ())
    assert warning_of(np.zeros((9, 2), int), np.full((9, 2), 50), reader) == ""


def padding_of(directory, cells, head="multi_label", **data):
    write_lines(directory / "x.jsonl", [{"text": f"t{i}", "label": cell} for i, cell in cells])
    given = {"train": "x.jsonl", "dev": "x.jsonl", "text": "text", "id": None, **data}
    config = make(directory, given, head)
    readers = label_readers(config)
    rows = load_rows(config, "t", "train", readers["t"])
    return padding_warnings(config, {"t": {"train": SimpleNamespace(rows=rows)}}, readers)


LISTS = [[1 + i % 3, 5, *[0] * (1 + i % 2), *[3] * (1 - i % 2)] for i in range(20)]


@pytest.mark.parametrize("odd", [0, 2])
@pytest.mark.parametrize("filler", [0, "0.0", -1, "[PAD]"])
def test_a_class_that_fills_up_the_lists_is_named(odd, filler, tmp_path):
    cells = [[filler if one == 0 else one for one in cell] for cell in LISTS]
    cells[:odd] = [[1, 2, 3, 5]] * odd
    (line,) = padding_of(tmp_path, enumerate(cells))
    assert line == (
        f"t: {20 - odd} of 20 train rows have the class '{filler}': if it fills up lists of one "
        f"length, set `data.padding_label: {filler}`"
    )
    assert padding_of(tmp_path, enumerate(cells), labels=[*{one for cell in cells for one in cell}])
    assert not padding_of(tmp_path, enumerate(cells), padding_label=filler)


def test_classes_that_fill_up_nothing(tmp_path):
    often = [[5, 0]] * 17 + [[5, 1]] * 3  # 5 is a class that every row has, 0 one of many rows
    assert not padding_of(tmp_path, enumerate(often))
    assert not padding_of(tmp_path, enumerate([0] * 19 + [1]), "classification")
    vectors = [[1, 0, 0]] * 19 + [[0, 1, 1]]
    assert not padding_of(tmp_path, enumerate(vectors), label_vectors=True)


@pytest.mark.parametrize("key", ["dev", "test"])
def test_check_and_training_warn(key, tiny_overrides, tmp_path, capsys):
    """Shares where the training rows have stars."""
    rows = [[f"t{i}", "the film", "a dog", round(i / 40, 3)] for i in range(40)]
    file = write_tsv(tmp_path / "shares.csv", ["id", "sentence1", "sentence2", "similarity"], rows)
    change = [f"tasks.sts.data.{key}={file}", "training.max_steps=1"]
    change.append("training.frozen_baseline=false")
    for command in (["check"], []):
        config = str(ROOT / "configs" / "cs224n.yaml")
        assert run_multitask.main([*command, config, *tiny_overrides, *change]) == 0
        shown = capsys.readouterr().out
        warnings = [line for line in shown.splitlines() if line.startswith("warning: sts: the")]
        assert warnings == [
            f"warning: sts: the labels are from 0 to 5 in train and from 0 to 0.975 in {key}: 33 "
            f"of 40 in train are outside of those in {key}: are both on one scale?"
        ]


def test_check_warns_of_padding_and_of_labels_that_look_alike(tiny_encoder, tmp_path, capsys):
    cells = [["joy", "0"], ["joy\u200b", "0"], ["fear", "0"]]
    rows = [{"sentence": f"t{i}", "label": cell} for i, cell in enumerate(cells)]
    write_lines(tmp_path / "train.jsonl", rows)
    data = {"train": "train.jsonl", "dev": "train.jsonl", "id": None}
    make(tmp_path, data, "multi_label", pooling="mean", max_length=16)
    changes = [f"encoder.name={tiny_encoder}", "training.frozen_baseline=false"]
    assert run_multitask.main(["check", str(tmp_path / "config.yaml"), *changes]) == 0
    shown = capsys.readouterr().out
    assert "warning: t: 3 of 3 train rows have the class '0': if it fills up lists" in shown
    assert "warning: t: 'joy' and 'joy\\u200b' (U+200B added) are different labels: give" in shown
