"""Settings of `accelerate launch` that a run would not follow are refused."""

import pytest

from multitask.config import load_config
from multitask.training.launcher import check_launcher
from multitask.utils.errors import UserError
from tests.conftest import ROOT


def config(*changes):
    return load_config(ROOT / "configs" / "cs224n.yaml", list(changes))


@pytest.mark.parametrize(
    ("variable", "value", "remedy"),
    [
        ("ACCELERATE_MIXED_PRECISION", "fp16", "training.precision=fp16"),
        ("ACCELERATE_MIXED_PRECISION", "fp8", "--mixed_precision no"),
        ("ACCELERATE_USE_FSDP", "true", "--use_fsdp"),
        ("ACCELERATE_USE_DEEPSPEED", "True", "--use_deepspeed"),
        ("ACCELERATE_DYNAMO_BACKEND", "INDUCTOR", "--dynamo_backend"),
    ],
)
def test_refused(variable, value, remedy, monkeypatch):
    monkeypatch.setenv(variable, value)
    with pytest.raises(UserError, match=remedy):
        check_launcher(config("training.precision=bf16"))


def test_what_agrees_is_taken(monkeypatch):
    for variable in ("ACCELERATE_USE_FSDP", "ACCELERATE_USE_DEEPSPEED"):
        monkeypatch.setenv(variable, "false")
    monkeypatch.setenv("ACCELERATE_DYNAMO_BACKEND", "NO")
    for asked, precision in (("no", "bf16"), ("bf16", "bf16"), ("fp16", "fp16")):
        monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", asked)
        check_launcher(config(f"training.precision={precision}"))
