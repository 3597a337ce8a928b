"""Fixtures of the training tests."""

from collections.abc import Callable

import pytest
import torch

from multitask.config import load_config
from multitask.models.build import assemble
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import load_head_weights, load_pretrained
from multitask.training.setup import Plan, set_up
from multitask.utils.terminal import silent
from tests.conftest import ROOT
from tests.support.small_models import CONTEXT


@pytest.fixture
def planned(tiny_overrides: list[str]) -> Callable[..., Plan]:
    """Plan a tiny run of the course's tasks, with these changes of its config."""

    def planned(*changes: str) -> Plan:
        config = load_config(ROOT / "configs" / "cs224n.yaml", [*tiny_overrides, *changes])
        return set_up(config, torch.device("cpu"), silent)

    return planned


@pytest.fixture
def make(tiny_overrides: list[str]) -> Callable[..., MultiTaskModel]:
    """Make a tiny model in float64 from config overrides; the encoder's dropout is 0.1."""

    def make(*more: str, dtype: torch.dtype = torch.float64, **options: object) -> MultiTaskModel:
        config = load_config(ROOT / "configs" / "cs224n.yaml", [*tiny_overrides, *more])
        torch.manual_seed(0)
        weights = load_head_weights(config)
        return assemble(config, load_pretrained(config), CONTEXT, weights=weights, **options).to(
            dtype
        )

    return make
