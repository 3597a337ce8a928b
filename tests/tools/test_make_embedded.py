"""The embedded sample: reproducible, well formed, and not solvable by counting words."""

import csv
import string
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from scipy.sparse import csr_matrix, hstack
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LogisticRegression, Ridge

from tests.conftest import ROOT
from tools import make_embedded

EMBEDDED = ROOT / "multitask" / "data" / "embedded"
NAMES = [f"{s}-{p}.csv" for s, _ in make_embedded.TASKS.values() for p in make_embedded.SIZES]
LABELS = {
    "sst": {"0", "1", "2", "3", "4"},
    "quora": {"0.0", "1.0"},
    "sts": {"0.0", "1.4", "2.0", "2.8", "3.6", "4.4", "5.0"},
}


def read(task: str, split: str) -> list[dict[str, str]]:
    """Read a committed file."""
    path = EMBEDDED / f"{make_embedded.TASKS[task][0]}-{split}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, delimiter="\t"))


def texts(task: str, rows: list[dict[str, str]]) -> list[list[str]]:
    """Read the sentences of each row, in one column per side."""
    return [[row[name] for row in rows] for name in make_embedded.TASKS[task][1][:-1]]


def labels(task: str, split: str) -> list[str]:
    """Read the labels as they are written."""
    return [row[make_embedded.TASKS[task][1][-1]] for row in read(task, split)]


def test_committed_files_are_what_the_script_makes(tmp_path: Path) -> None:
    make_embedded.main(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(NAMES)
    assert sorted(path.name for path in EMBEDDED.iterdir()) == sorted(NAMES)
    for name in NAMES:
        assert (tmp_path / name).read_bytes() == (EMBEDDED / name).read_bytes(), name
    assert sum((EMBEDDED / name).stat().st_size for name in NAMES) < 1_000_000


@pytest.mark.parametrize("task", make_embedded.TASKS)
@pytest.mark.parametrize("split", make_embedded.SIZES)
def test_layout(task: str, split: str) -> None:
    rows = read(task, split)
    columns = ["", "id", *make_embedded.TASKS[task][1]]
    assert list(rows[0]) == (columns[:-1] if split == "test-student" else columns)
    assert [row[""] for row in rows] == [str(i) for i in range(make_embedded.SIZES[split])]
    assert all(len(row["id"]) == 25 and set(row["id"]) <= set(string.hexdigits) for row in rows)
    assert all(None not in row and None not in row.values() for row in rows)


@pytest.mark.parametrize("task", make_embedded.TASKS)
def test_sizes_and_ids(task: str) -> None:
    sizes = {split: len(read(task, split)) for split in make_embedded.SIZES}
    assert sizes == {"train": 900, "dev": 200, "test-student": 50}
    ids = [row["id"] for split in make_embedded.SIZES for row in read(task, split)]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("task", make_embedded.TASKS)
@pytest.mark.parametrize("split", ["train", "dev"])
def test_labels_are_balanced(task: str, split: str) -> None:
    result = labels(task, split)
    assert set(result) == LABELS[task]
    assert max(Counter(result).values()) < 0.58 * len(result)


@pytest.mark.parametrize("task", make_embedded.TASKS)
def test_no_sentence_is_in_two_splits(task: str) -> None:
    seen: set[str] = set()
    for split in make_embedded.SIZES:
        result = {text for side in texts(task, read(task, split)) for text in side}
        assert not seen & result
        seen |= result


def word_features(task: str, split: str, words: CountVectorizer) -> csr_matrix:
    """Count words; of a pair, those in both and in one sentence only, and how many."""
    counts = [words.transform(side).astype(float) for side in texts(task, read(task, split))]
    if len(counts) == 1:
        return counts[0]
    first, second = counts
    shared, differing = first.minimum(second), abs(first - second)
    totals = [np.asarray(part.sum(axis=1)) for part in (shared, differing)]
    return csr_matrix(hstack([shared, differing, *totals]))


# MiniLM fine-tuned on the three tasks for four short epochs reaches about 0.89 (sst) and 0.85
# (quora) accuracy and 0.87 (sts) Pearson on these dev sets. Counting words must stay well below
# that, or the sample would not show what the encoder learns: the labels hang on negation, on which
# of two opinions counts, and on who did what to whom. Each bound is a little above what the
# baseline reaches: 0.59, 0.61 and 0.60.
@pytest.mark.parametrize(("task", "bound"), [("sst", 0.65), ("quora", 0.67), ("sts", 0.67)])
def test_counting_words_is_not_enough(task: str, bound: float) -> None:
    words = CountVectorizer(token_pattern=r"\b\w+\b")
    words.fit([text for side in texts(task, read(task, "train")) for text in side])
    train, dev = (word_features(task, split, words) for split in ("train", "dev"))
    gold, dev_gold = (np.array(labels(task, split), dtype=float) for split in ("train", "dev"))
    scores = []
    for strength in (0.1, 1.0, 10.0):  # the best on dev: generous to the baseline
        if task == "sts":
            guess = Ridge(alpha=strength).fit(train, gold).predict(dev)
            scores.append(float(np.corrcoef(guess, dev_gold)[0, 1]))
        else:
            model = LogisticRegression(C=strength, max_iter=1000).fit(train, gold)
            scores.append(float(model.score(dev, dev_gold)))
    assert max(scores) < bound
