"""The weights of the tasks' losses: those of the config, normalised, and those that are learned."""

import math

import pytest
import torch

from multitask.config import load_config
from multitask.training.loss_weights import weighted
from multitask.training.setup import set_up
from tests.conftest import ROOT


def test_learned_weights_are_kendalls(make):
    model = make("training.loss_weighting=uncertainty")
    value = torch.tensor(3.0, dtype=torch.float64)
    with torch.no_grad():
        model.log_variances["qqp"].fill_(0.7)
    actual = weighted(model, "qqp", value, share=0.25)
    assert actual.item() == pytest.approx(3 / (2 * math.exp(0.7)) + 0.25 * 0.35)
    actual.backward()
    expected = -3 / (2 * math.exp(0.7)) + 0.125
    assert model.log_variances["qqp"].grad.item() == pytest.approx(expected)
    assert weighted(make(), "qqp", value, 1.0) is value


def test_unit_normalisation_divides_by_the_trivial_loss(tiny_overrides):
    changes = ["training.loss_normalization=unit", "tasks.qqp.loss_weight=0.5"]
    config = load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])
    weights = set_up(config, torch.device("cpu"), lambda line: None).loss_weights
    assert weights["sst"] == pytest.approx(1 / math.log(5), rel=1e-6)  # five classes alike
    assert weights["qqp"] == pytest.approx(0.5 / math.log(2), rel=1e-6)
    labels = torch.tensor([round(5 * (i % 6) / 5, 1) for i in range(40)], dtype=torch.float64)
    assert weights["sts"] == pytest.approx(1 / labels.var(correction=0).item(), rel=1e-6)
