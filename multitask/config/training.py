# Tested by tests/config/test_schema.py
"""``training`` and ``stages``: the loop, and its parts."""

from typing import Literal

from pydantic import (
    Field,
    field_validator,
)

from multitask.config.base import Choice, Strict
from multitask.config.registry import KINDS


class TrainingConfig(Strict):
    """How the shared encoder and the heads are trained."""

    epochs: int = Field(3, ge=1, description="Epochs; `epoch` says how long one is.")
    epoch: str | int = Field(
        "longest",
        description="Length of an epoch: until the task with the most steps is through once "
        "(`longest`), until the named task is, or a number of optimizer steps. With a weighted "
        "sampler: until that task is expected to be through.",
    )
    max_steps: int | None = Field(None, ge=1, description="Stop after this many optimizer steps.")
    sampler: Choice = Field(
        Choice(name="round_robin"),
        description=f"Which task is trained when: {', '.join(KINDS['sampler'])}.",
    )
    combine: Literal["alternate", "joint"] = Field(
        "alternate",
        description="`alternate`: one task a step. `joint`: every step takes a batch of each task "
        "and minimises the sum of their losses (`sampler: round_robin` only).",
    )
    loss_normalization: Literal["none", "unit"] = Field(
        "none",
        description="`unit`: each loss is divided by that of the trivial predictor (the label "
        "frequencies, or the mean) on the training rows, so that all start near 1.",
    )
    loss_weighting: Literal["fixed", "uncertainty"] = Field(
        "fixed",
        description="`fixed`: the tasks' `loss_weight`. `uncertainty`: on top of it each loss "
        "counts 1/(2 exp(s)) with s/2 added, s learned a task at `head_lr` (Kendall et al. 2018).",
    )
    gradient_surgery: Choice | None = Field(
        None,
        description="How the tasks' gradients of the shared encoder are combined (`combine: "
        f"joint` only): one of {', '.join(KINDS['gradient_surgery'])}; null for their sum.",
    )
    surgery_every: int = Field(
        1, ge=1, description="Surgery in every so many steps; the others add the gradients up."
    )
    conflict_steps: int | None = Field(
        None,
        ge=1,
        description="Every so many steps, log the cosines between the tasks' gradients of the "
        "shared encoder, layer by layer; training does not change. Contrastive tasks are left "
        "out. null: never.",
    )
    lr: float = Field(2e-5, gt=0, description="Learning rate of the encoder.")
    head_lr: float = Field(
        1e-3, gt=0, description="Learning rate of poolers, projections and heads."
    )
    adapter_lr: float | None = Field(
        None, gt=0, description="Learning rate of adapters; default: that of the encoder."
    )
    layer_decay: float = Field(
        1.0,
        gt=0,
        le=1,
        description="Learning rate of an encoder layer relative to the one above it; the last "
        "layer has `lr`, the embeddings the lowest.",
    )
    betas: list[float] = Field(default=[0.9, 0.99], description="AdamW's betas.")
    eps: float = Field(1e-6, gt=0, description="AdamW's epsilon.")
    weight_decay: float = Field(0.01, ge=0, description="Not applied to biases and LayerNorms.")
    schedule: Literal["constant", "linear", "cosine", "polynomial"] = Field(
        "linear",
        description="Learning-rate schedule after the warm-up, as in `transformers` (`polynomial` "
        "with its default power of 1).",
    )
    warmup: float = Field(0.1, ge=0, lt=1, description="Share of the planned steps for warm-up.")
    clip_norm: float | None = Field(1.0, gt=0, description="Largest gradient norm; null for any.")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="`auto`: bf16 autocast where the hardware is faster in it."
    )
    eval_steps: int | None = Field(
        None, ge=1, description="Evaluate every so many steps; null: after every epoch."
    )
    eval_batch_size: int = Field(64, ge=1, description="Rows per forward pass of an evaluation.")
    checkpoint_steps: int | None = Field(
        None, ge=1, description="Also save a checkpoint every so many steps."
    )
    keep_checkpoints: int = Field(
        2,
        ge=2,
        description="Checkpoints kept while training: the newest, and those to fall back to.",
    )
    holdout: float = Field(
        0.0,
        ge=0,
        lt=1,
        description="Share of every training set held out for early stopping and selection, so "
        "that dev stays clean: a fixed random slice, duplicates kept together. 0: select on dev.",
    )
    select: str = Field(
        "joint",
        description="Weights that the run reports and predicts with: the best mean over tasks "
        "(`joint`), each task's own best (`per_task`), or those that are best for the named task.",
    )
    frozen_baseline: bool = Field(
        True,
        description="Also train the heads on the frozen encoder, and report them beside; of a task "
        "that no stage trains, with `share_pooling`, the score before training.",
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
    """A part of the training with an optimizer, a schedule and a patience of its own.

    Stages follow one another; what a stage does not say is as in `training`.
    """

    name: str | None = Field(None, description="Name in reports; default: its number.")
    tasks: list[str] | None = Field(None, min_length=1, description="Tasks trained; default: all.")
    freeze: list[str] = Field(
        default=[],
        description="Parts that do not move: `encoder`, `embeddings`, `layer_1` (the lowest) and "
        "so on, `heads` (all that tasks own, but for adapters), `adapters`, a task's name (what it "
        "owns, its adapter included), or the adapter alone: `sst.adapter`.",
    )
    epochs: int | None = Field(None, ge=1, description="As `training.epochs`.")
    epoch: str | int | None = Field(None, description="As `training.epoch`.")
    max_steps: int | None = Field(None, ge=1, description="Optimizer steps at most in this stage.")
    sampler: Choice | None = Field(None, description="As `training.sampler`.")
    combine: Literal["alternate", "joint"] | None = Field(
        None, description="As `training.combine`."
    )
    lr: float | None = Field(None, gt=0, description="As `training.lr`.")
    head_lr: float | None = Field(
        None, gt=0, description="As `training.head_lr`; here it also replaces that of the tasks."
    )
    adapter_lr: float | None = Field(
        None, gt=0, description="As `training.adapter_lr`; also in place of that of the tasks."
    )
    layer_decay: float | None = Field(None, gt=0, le=1, description="As `training.layer_decay`.")
    schedule: Literal["constant", "linear", "cosine", "polynomial"] | None = Field(
        None, description="As `training.schedule`."
    )
    warmup: float | None = Field(
        None, ge=0, lt=1, description="As `training.warmup`, of this stage's steps."
    )

    @field_validator("epoch")
    @classmethod
    def _epoch(cls, value: str | int | None) -> str | int | None:
        if isinstance(value, int) and value < 1:
            raise ValueError("expected at least 1 step")
        return value
