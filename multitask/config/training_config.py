# Tested by tests/config/test_schema.py
"""``training`` and ``stages``: the settings of the training loop, and of its stages."""

from typing import Literal

from pydantic import (
    Field,
    field_validator,
)

from multitask.config.base import Choice, Strict
from multitask.config.registry import KINDS


class TrainingConfig(Strict):
    """How the shared encoder and the heads are trained."""

    epochs: int = Field(3, ge=1, description="Number of epochs. `epoch` sets how long one is.")
    epoch: str | int = Field(
        "longest",
        description="Length of an epoch: one pass over the task with the most steps (`longest`), "
        "one pass over the named task, or a number of optimizer steps. With a weighted sampler, "
        "the expected number of steps for such a pass.",
    )
    max_steps: int | None = Field(None, ge=1, description="Stop after this many optimizer steps.")
    sampler: Choice = Field(
        Choice(name="round_robin"),
        description=f"Which task is trained when: {', '.join(KINDS['sampler'])}.",
    )
    combine: Literal["alternate", "joint"] = Field(
        "alternate",
        description="`alternate`: one task per step. `joint`: every step takes a batch of each "
        "task and minimises the sum of their losses (`sampler: round_robin` only).",
    )
    loss_normalization: Literal["none", "unit"] = Field(
        "none",
        description="`unit`: divide each loss by the loss of the trivial predictor (the label "
        "frequencies, or the mean) on the training rows, so that all losses start near 1.",
    )
    loss_weighting: Literal["fixed", "uncertainty"] = Field(
        "fixed",
        description="`fixed`: the `loss_weight` of each task. `uncertainty`: in addition each loss "
        "is multiplied by 1/(2 exp(s)) and s/2 is added. s is learned per task, with `head_lr` "
        "(Kendall et al. 2018).",
    )
    gradient_surgery: Choice | None = Field(
        None,
        description="How to combine the gradients of the tasks in the shared encoder (`combine: "
        f"joint` only): one of {', '.join(KINDS['gradient_surgery'])}. null: their sum.",
    )
    surgery_every: int = Field(
        1, ge=1, description="Gradient surgery every N steps; other steps add the gradients."
    )
    conflict_steps: int | None = Field(
        None,
        ge=1,
        description="Every N steps, log the cosines between the gradients of the tasks, per layer "
        "of the shared encoder. Training does not change. Contrastive tasks are left out. null: "
        "never.",
    )
    lr: float = Field(2e-5, gt=0, description="Learning rate of the encoder.")
    head_lr: float = Field(
        1e-3, gt=0, description="Learning rate of poolers, projections and heads."
    )
    adapter_lr: float | None = Field(
        None, gt=0, description="Learning rate of adapters; default: `lr`."
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Learning rate of an encoder layer relative to the layer above it. The last "
        "layer has `lr`, the embeddings have the lowest rate.",
    )
    betas: list[float] = Field(default=[0.9, 0.99], description="AdamW's betas.")
    eps: float = Field(1e-6, gt=0, description="AdamW's epsilon.")
    weight_decay: float = Field(
        0.01, ge=0, description="AdamW's weight decay. Not applied to biases and LayerNorms."
    )
    schedule: Literal["constant", "linear", "cosine", "polynomial"] = Field(
        "linear",
        description="Learning-rate schedule after the warm-up, as in `transformers` (`polynomial` "
        "with its default power, 1).",
    )
    warmup: float = Field(0.1, ge=0, lt=1, description="Warm-up as a share of the planned steps.")
    clip_norm: float | None = Field(
        1.0, gt=0, description="Largest gradient norm. null: no clipping."
    )
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="`auto`: bf16 autocast if the hardware is faster with it."
    )
    eval_steps: int | None = Field(
        None, ge=1, description="Evaluate every N steps. null: after every epoch."
    )
    eval_batch_size: int = Field(64, ge=1, description="Rows per forward pass of an evaluation.")
    checkpoint_steps: int | None = Field(
        None, ge=1, description="Also save a checkpoint every N steps."
    )
    keep_checkpoints: int = Field(
        2,
        ge=2,
        description="Number of checkpoints to keep: the newest, and older ones to fall back to.",
    )
    holdout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of every training set that is held out for early stopping and "
        "selection, so that dev stays clean: a fixed random part, with duplicates kept together. "
        "0: select on dev.",
    )
    select: str = Field(
        "joint",
        description="Which weights the run reports and predicts with: the best mean over tasks "
        "(`joint`), the best of each task (`per_task`), or the best of the named task.",
    )
    frozen_baseline: bool = Field(
        True,
        description="Also train the heads on the frozen encoder and report their scores. For a "
        "task with `share_pooling` that no stage trains, report the score before training.",
    )
    tensorboard: bool = Field(
        False,
        description="Also write losses, learning rates, gradient norms and evaluations as "
        "TensorBoard event files, in `RUN/tensorboard` (`pip install tensorboard`).",
    )

    @field_validator("epoch")
    @classmethod
    def _epoch(cls, value: str | int) -> str | int:
        if isinstance(value, int) and value < 1:
            raise ValueError("expected at least 1 step")
        return value

    @field_validator("betas")
    @classmethod
    def _betas(cls, value: list[float]) -> list[float]:
        if len(value) != 2 or not all(0 <= beta < 1 for beta in value):
            raise ValueError("expected two numbers in [0, 1)")
        return value


class StageConfig(Strict):
    """A part of the training with its own optimizer, schedule and patience.

    Stages run one after another. Keys that a stage does not set are taken from `training`.
    """

    name: str | None = Field(None, description="Name in reports; default: its number.")
    tasks: list[str] | None = Field(None, min_length=1, description="Tasks to train; default: all.")
    freeze: list[str] = Field(
        default=[],
        description="Parts that are not trained: `encoder`, `embeddings`, `layer_1` (the lowest) "
        "and so on, `heads` (all parts of tasks except adapters), `adapters`, the name of a task "
        "(all of its parts with its adapter), or only its adapter: `sst.adapter`.",
    )
    epochs: int | None = Field(None, ge=1, description="As `training.epochs`.")
    epoch: str | int | None = Field(None, description="As `training.epoch`.")
    max_steps: int | None = Field(
        None, ge=1, description="Largest number of optimizer steps in this stage."
    )
    sampler: Choice | None = Field(None, description="As `training.sampler`.")
    combine: Literal["alternate", "joint"] | None = Field(
        None, description="As `training.combine`."
    )
    lr: float | None = Field(None, gt=0, description="As `training.lr`.")
    head_lr: float | None = Field(
        None,
        gt=0,
        description="As `training.head_lr`; here it also replaces the `head_lr` of the tasks.",
    )
    adapter_lr: float | None = Field(
        None,
        gt=0,
        description="As `training.adapter_lr`; it also replaces the `adapter_lr` of the tasks.",
    )
    layer_decay: float | None = Field(None, gt=0, le=1, description="As `training.layer_decay`.")
    schedule: Literal["constant", "linear", "cosine", "polynomial"] | None = Field(
        None, description="As `training.schedule`."
    )
    warmup: float | None = Field(
        None, ge=0, lt=1, description="As `training.warmup`, but of the steps of this stage."
    )

    @field_validator("epoch")
    @classmethod
    def _epoch(cls, value: str | int | None) -> str | int | None:
        if isinstance(value, int) and value < 1:
            raise ValueError("expected at least 1 step")
        return value
