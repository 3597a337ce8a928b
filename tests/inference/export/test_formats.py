"""The formats that `check` names for a task are those that an export takes."""

import pytest
import torch

from multitask.config import load_config
from multitask.inference.export.export_parts import Parts
from multitask.inference.export.formats import export_formats
from multitask.training.setup import set_up
from tests.conftest import ROOT


def formats(overrides, *changes):
    config = load_config(ROOT / "configs/cs224n.yaml", [*overrides, *changes])
    plan = set_up(config, torch.device("cpu"), lambda line: None)
    return {
        task: export_formats(Parts(config, task, plan.model, plan.data.tokenizer, reader))
        for task, reader in plan.data.readers.items()
    }


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([], ["transformers --encoder-only", "sentence-transformers", "onnx"]),
        (["tasks.sst.projection=tanh"], ["transformers", "sentence-transformers", "onnx"]),
        (["tasks.sst.adapter={name: pal, size: 4, heads: 2}"], ["onnx"]),
        (["tasks.sst.pooling={name: max_cls, last: 2}"], ["transformers --encoder-only", "onnx"]),
        (["encoder.bitlinear={}"], ["ternary"]),
    ],
)
def test_what_a_task_can_be_exported_to(changes, expected, tiny_overrides):
    made = formats(tiny_overrides, *changes)
    assert made["sst"] == expected
    if not changes:
        assert made["qqp"] == made["sts"] == expected
