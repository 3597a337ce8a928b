"""Fixtures of the models' tests."""

import pytest
import torch

from multitask.config import load_config
from multitask.models.build import assemble
from multitask.models.pretrained import load_head_weights, load_pretrained
from tests.conftest import ROOT
from tests.support.small_models import CONTEXT


@pytest.fixture
def configure(tiny_overrides):
    return lambda *changes: load_config(ROOT / "configs/cs224n.yaml", [*tiny_overrides, *changes])


@pytest.fixture
def make(configure):
    def make(*changes, **options):
        config = configure(*changes)
        torch.manual_seed(0)
        weights = load_head_weights(config)
        return assemble(config, load_pretrained(config), CONTEXT, weights=weights, **options)

    return make
