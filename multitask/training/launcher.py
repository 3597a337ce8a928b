"""Refuse settings of `accelerate launch` that a run would not follow."""

import os

from multitask.config import Config
from multitask.utils.errors import UserError

# environment variables of `accelerate launch`, what they ask for, and the flag that sets them
OTHERS = (
    ("ACCELERATE_USE_FSDP", "divides the model among the processes", "--use_fsdp"),
    ("ACCELERATE_USE_DEEPSPEED", "asks for DeepSpeed", "--use_deepspeed"),
    ("ACCELERATE_DYNAMO_BACKEND", "asks for torch.compile", "--dynamo_backend"),
)
NOT_SET = ("", "no", "none", "false", "0")


def check_launcher(config: Config) -> None:
    """Raise UserError for a setting of the launcher that contradicts the config."""
    asked = os.environ.get("ACCELERATE_MIXED_PRECISION", "no").lower()
    if asked not in (*NOT_SET, config.training.precision):
        remedy = f"set `training.precision={asked}` or " if asked in ("bf16", "fp16") else ""
        message = f"accelerate was told {asked}: {remedy}launch with `--mixed_precision no`"
        raise config.error(("training", "precision"), message)
    for variable, what, flag in OTHERS:
        value = os.environ.get(variable, "")
        if value.lower() not in NOT_SET:
            raise UserError(
                f"{variable}={value} {what}, which this program does not do (every process has the "
                f"whole model): launch without `{flag}`"
            )
