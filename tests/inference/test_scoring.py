"""Scores of a split in file order, whatever the batches, and without a trace on the run."""

import numpy as np
import pytest
import torch

from multitask.config.registry import task_type
from multitask.data.collate import collate, label_tensor, separate
from multitask.data.tokenize import Split, Tokens
from multitask.inference.scoring import measure
from multitask.tasks.metrics import compute
from tests.support.scored_tasks import (
    READERS,
    D,
    left_alone,
    numbered_rows,
    scorer_of,
    tiny_model,
)

N = 23
# task: pooling, head, its options, label type, sides
TASKS = {
    "classes": ("cls", "classification", {}, "class", 1),
    "weighted": ("mean", "classification", {"class_weights": [3, 1, 0.2]}, "class", 1),
    "pairs": ("mean", "siamese_paraphrase", {"features": ["u", "v", "abs_diff"]}, "binary", 2),
    "similarity": ("max", "cosine_regression", {"linear": True}, "number", 2),
    "parameterless": ("mean", "cosine_regression", {}, "number", 2),
}
every_task = pytest.mark.parametrize("task", TASKS)


@pytest.fixture(scope="module")
def model(tiny_encoder):
    """All tasks on one tiny encoder, in float64."""
    tasks = {name: (pooling, None, *head) for name, (pooling, *head, _, _) in TASKS.items()}
    return tiny_model(tiny_encoder, tasks, dropout=0.5).double()


def make_split(task, labelled=True):
    """Rows of very different lengths in no order, labels at random."""
    *_, label_type, sides = TASKS[task]
    rng = np.random.default_rng(4)
    lengths = rng.integers(3, 20, sides * N)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    ids = rng.integers(5, 50, offsets[-1]).astype(np.int32)
    tokens = Tokens(ids, np.zeros(offsets[-1], np.int8), offsets, np.zeros(sides * N, bool), sides)
    labels = {
        "class": rng.integers(0, 3, N),
        "binary": rng.integers(0, 2, N),
        "number": rng.uniform(0, 5, N).round(1),
    }[label_type]
    return Split(numbered_rows(N, labels if labelled else None), tokens)


def score(model, task, split, batch_size=8):
    return scorer_of(model, batch_size).score(task, split)


def row_by_row(model, task, split):
    """Predictions, shown scores and mean loss, one row at a time in file order."""
    model.eval()
    head, losses, predictions, shown = model.head(task), [], [], []
    for i in range(N):
        batch = collate(split.tokens, np.array([i]), pad_id=0)
        with torch.no_grad():
            output = model(separate({task: batch}))[task]
            losses.append(head.criterion(output, label_tensor(split.rows.gold[[i]])).item())
        predicted, scores = head.predict(output)
        predictions.append(predicted[0].item())
        shown.append(scores[0].tolist())
    return predictions, shown, sum(losses) / N


def check_equal(result, predictions, shown, loss):
    np.testing.assert_allclose(result.predictions, predictions, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(result.scores, shown, rtol=1e-9, atol=1e-9)
    assert result.loss == pytest.approx(loss, rel=1e-9)


@every_task
@pytest.mark.parametrize("batch_size", [1, 4, 23, 64])
def test_scores_are_in_file_order_and_the_loss_is_the_mean_over_rows(model, task, batch_size):
    split = make_split(task)
    assert (np.diff(split.tokens.lengths) < 0).any()  # by length is another order
    expected = row_by_row(model, task, split)
    check_equal(score(model, task, split, batch_size), *expected)
    assert len(set(map(tuple, expected[1]))) > N // 2  # rows could be mixed up


def with_repeats(split):
    """The same split, in which the second texts are six of the first ones, and more than once."""
    tokens = split.tokens
    spans = [slice(*tokens.offsets[i : i + 2]) for i in [*range(N), *(i % 6 for i in range(N))]]
    ids = np.concatenate([tokens.ids[span] for span in spans])
    ends = np.cumsum([0, *(span.stop - span.start for span in spans)])
    repeated = Tokens(ids, np.zeros_like(ids, np.int8), ends, tokens.truncated, tokens.sides)
    return Split(split.rows, repeated)


@pytest.mark.parametrize("task", ["pairs", "similarity"])
def test_of_pairs_each_distinct_text_is_encoded_once(model, task, monkeypatch):
    split = with_repeats(make_split(task))
    expected = row_by_row(model, task, split)
    encoded, encode = [], model.encoder.encode
    monkeypatch.setattr(
        model.encoder,
        "encode",
        lambda e, *rest, **more: encoded.append(len(e)) or encode(e, *rest, **more),
    )
    check_equal(score(model, task, split, 4), *expected)
    assert encoded == [8, 8, 7]  # 23 texts


@every_task
def test_metrics_are_of_the_complete_set(model, task):
    """Not a mean over batches."""
    split, label_type = make_split(task), TASKS[task][3]
    reader = READERS[label_type]
    measured = measure(score(model, task, split, 5), split.rows, reader)
    predictions, shown, loss = row_by_row(model, task, split)
    columns = (split.rows.labels, np.array(predictions), np.array(shown))
    expected = compute(task_type(label_type), columns, reader.metrics)
    assert measured == pytest.approx({**expected, "loss": loss}, rel=1e-9)


@every_task
@pytest.mark.parametrize("training", [True, False])
def test_leaves_mode_weights_and_random_state_alone(model, task, training):
    split = make_split(task)
    model.train(training)
    with left_alone(model):
        result = score(model, task, split)
    check_equal(result, *row_by_row(model, task, split))  # without dropout, whatever the mode


def test_a_split_without_labels_has_scores_and_no_loss(model):
    actual = score(model, "pairs", make_split("pairs", labelled=False))
    expected = score(model, "pairs", make_split("pairs"))
    np.testing.assert_array_equal(actual.scores, expected.scores)
    np.testing.assert_array_equal(actual.predictions, expected.predictions)
    assert np.isnan(actual.loss) and not np.isnan(expected.loss)


@pytest.mark.parametrize("batch_size", [4, 64])
def test_the_flip_rate_counts_predictions_that_change_when_the_texts_are_swapped(model, batch_size):
    split, head = make_split("pairs"), model.head("pairs")
    saved = {name: tensor.clone() for name, tensor in head.state_dict().items()}
    with torch.no_grad():
        vectors = [
            model.eval().pooled(separate({"pairs": collate(split.tokens, np.array([i]), pad_id=0)}))
            for i in range(N)
        ]
        pairs = [of_row["pairs"][:, None] for of_row in vectors]
        # w (u - v) + b: the order decides the rows in which |w (u - v)| is above b
        w = torch.randn(D, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
        head.linear.weight[0] = torch.cat([w, -w, torch.zeros(D)])
        head.linear.bias[0] = torch.stack([(w @ (u - v)[0]).abs() for u, v in pairs]).median()
        changed = sum(int((head(u, v) > 0) != (head(v, u) > 0)) for u, v in pairs)
        result = score(model, "pairs", split, batch_size)
        head.load_state_dict(saved)
    assert result.flip_rate == changed / N
    assert 0 < changed < N


@pytest.mark.parametrize("task", ["classes", "similarity"])
def test_there_is_no_flip_rate_where_order_cannot_matter(model, task):
    assert score(model, task, make_split(task)).flip_rate is None
