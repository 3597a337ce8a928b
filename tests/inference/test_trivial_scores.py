"""The scores that a trained one is compared with: trivial, and heads on the frozen encoder."""

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import nn

from multitask.data.collate import collate, separate
from multitask.data.tokenize import Split, Tokens
from multitask.inference.scoring import measure
from multitask.inference.trivial_scores import trivial_scores
from multitask.training import frozen_probe
from multitask.training.frozen_probe import Probing, frozen_head_scores, frozen_vectors
from tests.support.scored_tasks import (
    READERS,
    D,
    left_alone,
    numbered_rows,
    scorer_of,
    tiny_model,
)

# task: head, its options, projection, label type, sides, metric
TASKS = {
    "mood": ("classification", {}, None, "class", 1, "accuracy"),
    "projected": ("classification", {}, "tanh", "class", 1, "accuracy"),
    "same": ("siamese_paraphrase", {"features": ["abs_diff"]}, None, "binary", 2, "accuracy"),
    "close": ("cosine_regression", {"linear": True}, None, "number", 2, "pearson"),
    "cosine": ("cosine_regression", {}, None, "number", 2, "pearson"),
}
LEARNED = [task for task in TASKS if task != "cosine"]


@pytest.fixture(scope="module")
def model(tiny_encoder):
    tasks = {
        name: ("mean", projection, head, options)
        for name, (head, options, projection, *_) in TASKS.items()
    }
    return tiny_model(tiny_encoder, tasks, dropout=0.1)


def labelled(labels):
    return Split(numbered_rows(len(labels), labels), None)


def make_split(task, rows, seed):
    """Separable toy data: one word tells the class, or a shared word the similarity."""
    label_type, sides = TASKS[task][3:5]
    rng = np.random.default_rng(seed)
    classes = rng.integers(0, 3 if label_type == "class" else 2, rows)
    sequences = []
    for side in range(sides):
        for kind in classes:
            told = 20 + kind if sides == 1 else 30 + (side if kind else 0)
            filler = rng.integers(5, 15, rng.integers(1, 3)).tolist()
            sequences.append([2, *filler, told, told, told, 3])
    ids = np.concatenate(sequences).astype(np.int32)
    offsets = np.cumsum([0, *map(len, sequences)])
    tokens = Tokens(
        ids, np.zeros_like(ids, np.int8), offsets, np.zeros(len(sequences), bool), sides
    )
    labels = 4.0 - 3.0 * classes if label_type == "number" else classes
    return Split(numbered_rows(rows, labels), tokens)


def make_splits(task, *names):
    sizes = {"train": 96, "dev": 40, "holdout": 40, "test": 12}
    return {name: make_split(task, sizes[name], len(name)) for name in names}


def frozen(model, task, splits=None, seed=1):
    return frozen_head_scores(
        scorer_of(model),
        task,
        splits or make_splits(task, "train", "dev"),
        READERS[TASKS[task][3]],
        how=Probing(lr=1e-2, metric=TASKS[task][5], seed=seed),
    )


def untrained(model, task, split):
    return scorer_of(model).score(task, split)


def zero_shot(model, task, split):
    return measure(untrained(model, task, split), split.rows, READERS[TASKS[task][3]])


# ---- trivial


@pytest.mark.parametrize(
    ("label_type", "train", "dev", "expected"),
    [
        ("class", [0, 2, 2, 1], [2, 2, 0, 1, 2], {"accuracy": 0.6}),
        ("class", [1, 0], [0, 0, 1], {"accuracy": 2 / 3}),  # the smaller of equals
        ("binary", [0, 0, 1], [0, 1, 1, 0], {"accuracy": 0.5, "f1": 0.0, "average_precision": 0.5}),
        ("binary", [1, 1, 0], [0, 1, 1, 1], {"accuracy": 0.75, "f1": 6 / 7}),
        ("number", [1.0, 2.0, 4.5], [2.0, 3.0], {"pearson": math.nan, "mse": 0.25}),
    ],
)
def test_trivial_scores_know_the_training_labels_alone(label_type, train, dev, expected):
    actual = trivial_scores(None, labelled(train), labelled(dev), READERS[label_type])
    for name, value in expected.items():
        assert actual[name] == pytest.approx(value, nan_ok=True), name


def test_the_distance_of_classes_is_measured_if_they_are_ordered():
    reader = replace(READERS["class"], ordered=True)
    splits = [labelled(labels) for labels in ([0, 2, 2, 1], [2, 2, 0, 1, 2])]
    assert trivial_scores(None, *splits, reader)["mae"] == pytest.approx(0.6)
    assert "mae" not in trivial_scores(None, *splits, READERS["class"])


# ---- frozen encoder


@pytest.mark.parametrize("task", TASKS)
def test_frozen_vectors_are_in_file_order(model, task):
    model.eval()
    split = make_split(task, 9, 0)
    result = frozen_vectors(scorer_of(model), [task], split, "")[task]
    assert result.shape == (9, TASKS[task][4], D) and not result.requires_grad
    for i in range(9):
        batch = collate(split.tokens, np.array([i]), pad_id=0)
        torch.testing.assert_close(
            result[i], model.pooled(separate({task: batch}))[task], rtol=1e-4, atol=1e-5
        )


@pytest.mark.parametrize("task", LEARNED)
def test_learns_separable_data(model, task):
    """Above the trivial score and the untrained head's, nearly perfectly."""
    splits, metric = make_splits(task, "train", "dev"), TASKS[task][5]
    result = frozen(model, task, splits)[metric]
    trivial = trivial_scores(None, splits["train"], splits["dev"], READERS[TASKS[task][3]])
    assert result > 0.95
    assert not result <= trivial[metric]
    assert result > zero_shot(model, task, splits["dev"])[metric]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("training", [True, False])
def test_leaves_the_run_as_it_was(model, task, training):
    model.train(training)
    with left_alone(model):
        frozen(model, task)
    assert all(parameter.requires_grad for parameter in model.parameters())


@pytest.mark.parametrize("task", LEARNED)
def test_the_seed_alone_decides(model, task, monkeypatch):
    monkeypatch.setattr(frozen_probe, "EPOCHS", 2)  # before everything is right
    head, losses = type(model.head(task)), []
    original = head.criterion

    def loss(self, scores, labels):
        value = original(self, scores, labels)
        losses[-1].append(value.item())
        return value

    monkeypatch.setattr(head, "criterion", loss)
    for state, seed in ((5, 1), (6, 1), (6, 2)):
        torch.manual_seed(state)
        losses.append([])
        frozen(model, task, seed=seed)
    assert losses[0] == losses[1] != losses[2]


def test_a_head_without_parameters_is_scored_as_it_is(model):
    splits = make_splits("cosine", "train", "dev")
    actual = frozen(model, "cosine", splits)
    expected = zero_shot(model, "cosine", splits["dev"])
    assert actual == pytest.approx(expected, rel=1e-4)


def test_never_below_the_untrained_head_on_the_selection_split(model):
    """The start counts as an epoch: a head that only gets worse keeps its first score."""
    splits = make_splits("mood", "train", "dev")
    splits["dev"].rows.labels = untrained(model, "mood", splits["dev"]).predictions
    assert frozen(model, "mood", splits)["accuracy"] == 1


def test_the_epoch_is_chosen_on_the_holdout_where_there_is_one(model):
    """Dev is measured when the holdout gains, whatever dev's own scores are: with dev's labels
    moved on by one, a better head scores worse there, and that is what is reported."""
    splits = make_splits("mood", "train", "dev", "holdout")
    splits["dev"].rows.labels = (splits["dev"].rows.labels + 1) % 3
    assert frozen(model, "mood", splits)["accuracy"] < 0.05
    del splits["holdout"]
    assert frozen(model, "mood", splits)["accuracy"] > 0.2


def test_only_the_splits_in_use_are_encoded(model, monkeypatch):
    seen = []
    original = frozen_probe.frozen_vectors

    def recording(scorer, tasks, split, title):
        seen.append(len(split.rows))
        return original(scorer, tasks, split, title)

    monkeypatch.setattr(frozen_probe, "frozen_vectors", recording)
    frozen(model, "mood", make_splits("mood", "train", "dev", "test"))
    assert sorted(seen) == [40, 96]


def test_a_pooler_with_parameters_has_no_frozen_baseline(model, monkeypatch):
    monkeypatch.setattr(model.tasks["mood"], "pooler", nn.Linear(D, D))
    assert frozen(model, "mood") is None
