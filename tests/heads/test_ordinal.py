"""The ordinal head: its start, its limits, what it learns."""

import pytest
import torch
from datasets import ClassLabel, Dataset, Features, Value

from multitask.config.registry import build
from multitask.data.classes import label_readers
from tests.support.data_files import make, refusal
from tests.support.single_heads import CONTEXT, D, make_head, vectors


@pytest.mark.parametrize("classes", [2, 3, 5, 12])
def test_ordinal_classes_are_equally_likely_at_the_start(classes):
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": classes})
    scores = head(torch.zeros(4, D))
    expected = torch.full((4, classes), 1 / classes)
    torch.testing.assert_close(head.predict(scores)[1], expected)


def test_ordinal_with_two_classes_is_logistic_regression():
    head = make_head("ordinal", num_labels=2)
    (vector,) = vectors(head)
    expected = torch.sigmoid(head.linear(vector)[:, 0] - head.middle)
    torch.testing.assert_close(head.predict(head(vector))[1][:, 1], expected)


def test_ordinal_is_finite_far_from_every_threshold():
    """There the plain difference of two sigmoids is 0, and its logarithm -inf."""
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": 5})
    vector = torch.tensor([[1e3], [-1e3]]) * head.linear.weight.detach().sign()
    vector.requires_grad_()
    scores = head(vector)
    assert scores.isfinite().all()
    assert scores.argmax(1).tolist() == [4, 0]
    head.criterion(scores, torch.tensor([1, 3])).backward()
    assert all(tensor.grad.isfinite().all() for tensor in (vector, *head.parameters()))


def test_ordinal_learns_a_scale_and_passes_through_the_classes_in_order():
    torch.manual_seed(0)
    head = build("head", "ordinal", {}, CONTEXT | {"num_labels": 5})
    optimizer = torch.optim.AdamW(head.parameters(), lr=0.1, fused=True)
    vector = torch.randn(200, D)
    position = vector @ torch.randn(D)
    gold = torch.bucketize(position, position.quantile(torch.tensor([0.1, 0.3, 0.5, 0.9])))
    for _ in range(150):
        head.criterion(head(vector), gold).backward()
        optimizer.step()
        optimizer.zero_grad()
    predictions = head.predict(head(vector))[0]
    assert (predictions == gold).float().mean() > 0.9
    ordered = predictions[head.linear(vector)[:, 0].argsort()]
    assert (ordered.diff() >= 0).all() and set(ordered.tolist()) == set(range(5))


def ordinal_classes(directory, values, **data):
    lines = [f"text {i},{value}" for i, value in enumerate(values)]
    (directory / "train.csv").write_text("\n".join(["sentence,label", *lines]))
    return label_readers(make(directory, {"id": None, **data}, "ordinal"))["t"].names


@pytest.mark.parametrize(
    "values", [["medium", "low", "high"], ["1 star", "2 stars"], ["1", "2", "x"], ["I", "II"]]
)
def test_words_have_no_order_without_labels(values, tmp_path):
    result = refusal(ordinal_classes, tmp_path, values)
    assert "tasks.t.data.labels: head 'ordinal' needs the order of " in result
    assert "from the lowest to the highest, such as [low, medium, high]" in result
    assert ordinal_classes(tmp_path, values, labels=values) == tuple(values)
    assert len(label_readers(make(tmp_path, {"id": None}, "classification"))["t"].names) == len(
        values
    )


def test_numbers_have_an_order(tmp_path):
    values = ["10", "9.5", "-1", "2", "1e1"]
    assert ordinal_classes(tmp_path, values) == ("-1", "2", "9.5", "10", "1e1")


def test_the_numbers_of_named_classes_have_an_order(tmp_path):
    kinds = {"sentence": Value("string"), "label": ClassLabel(names=["low", "medium", "high"])}
    columns = {"sentence": ["a", "b"], "label": [2, 0]}
    Dataset.from_dict(columns, Features(kinds)).to_parquet(tmp_path / "x.parquet")
    config = make(tmp_path, {"train": "x.parquet", "dev": "x.parquet", "id": None}, "ordinal")
    assert label_readers(config)["t"].names == ("low", "medium", "high")


def metrics_of(directory, head, **data):
    lines = ["sentence,label", "a,low", "b,high", "c,medium"]
    (directory / "train.csv").write_text("\n".join(lines))
    return label_readers(make(directory, {"id": None, **data}, head))["t"].metrics


def test_the_distance_of_classes_is_a_metric_of_ordered_classes_alone(tmp_path):
    order = {"labels": ["low", "medium", "high"]}
    plain = metrics_of(tmp_path, "classification", **order)
    assert plain and "mae" not in plain
    assert metrics_of(tmp_path, "classification", ordered=True, **order) == (*plain, "mae")
    assert metrics_of(tmp_path, "ordinal", **order) == (*plain, "mae")
    result = refusal(metrics_of, tmp_path, "classification", ordered=True)
    assert "tasks.t.data.labels: `ordered: true` needs the order of high, low, medium" in result
