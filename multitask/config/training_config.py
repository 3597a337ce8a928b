# Tested by tests/config/test_schema.py
"""``training`` and ``stages``: the settings of the training loop, and of its stages."""

from typing import Annotated, Literal

from pydantic import Field

from multitask.config.base import Choice, Strict
from multitask.config.registry import registered
from multitask.utils.limits import SIZE

Steps = Annotated[int, Field(ge=1, le=SIZE)]  # for more: raise `epochs`
Share = Annotated[float, Field(ge=0, lt=1)]


class TrainingConfig(Strict):
    """How the shared encoder and the heads are trained."""

    epochs: int = Field(3, ge=1)
    """Number of epochs. `epoch` sets how long one is."""

    epoch: str | Steps = "longest"
    """Length of an epoch: one pass over the task with the most steps (`longest`), one pass over the
    named task, or a number of optimizer steps. With a weighted sampler, the expected number of
    steps for such a pass."""

    max_steps: int | None = Field(None, ge=1)
    """Stop after this many optimizer steps, of all stages together."""

    sampler: Annotated[Choice, registered("sampler")] = Choice(name="round_robin")
    """Which task is trained when: $sampler."""

    combine: Literal["alternate", "joint"] = "alternate"
    """`alternate`: one task per step. `joint`: every step takes a batch of each task and minimises
    the sum of their losses (`sampler: round_robin` only)."""

    loss_normalization: Literal["none", "unit"] = "none"
    """`unit`: divide each loss by the loss of the trivial predictor (the label frequencies, or the
    mean) on the training rows, so that all losses start near 1."""

    loss_weighting: Literal["fixed", "uncertainty"] = "fixed"
    """`fixed`: the `loss_weight` of each task. `uncertainty`: in addition each loss is multiplied
    by 1/(2 exp(s)) and s/2 is added. s is learned per task, with `head_lr` (Kendall et al.
    2018)."""

    gradient_surgery: Annotated[Choice, registered("gradient_surgery")] | None = None
    """How to combine the gradients of the tasks in the shared encoder (`combine: joint` only): one
    of $gradient_surgery. null: their sum."""

    surgery_every: int = Field(1, ge=1)
    """Gradient surgery every N steps; other steps add the gradients."""

    conflict_steps: int | None = Field(None, ge=1)
    """Every N steps, log the cosines between the gradients of the tasks, per layer of the shared
    encoder. Training does not change. Contrastive tasks are left out. null: never."""

    lr: float = Field(2e-5, gt=0)
    """Learning rate of the encoder."""

    head_lr: float = Field(1e-3, gt=0)
    """Learning rate of poolers, projections and heads."""

    adapter_lr: float | None = Field(None, gt=0)
    """Learning rate of adapters; default: `lr`."""

    layer_decay: float = Field(1.0, gt=0, le=1)
    """Learning rate of an encoder layer relative to the layer above it. The last layer has `lr`,
    the embeddings have the lowest rate."""

    betas: list[Share] = Field([0.9, 0.99], min_length=2, max_length=2)
    """AdamW's betas."""

    eps: float = Field(1e-6, gt=0)
    """AdamW's epsilon."""

    weight_decay: float = Field(0.01, ge=0)
    """AdamW's weight decay. Not applied to biases and LayerNorms."""

    schedule: Literal["constant", "linear", "cosine", "polynomial"] = "linear"
    """Learning-rate schedule after the warm-up, as in `transformers`. `polynomial` ends at 1/10,000
    of the rate."""

    schedule_power: float = Field(1.0, gt=0)
    """Power p of the polynomial schedule: the rate falls as (1 - t)^p, where t is the share of the
    steps after the warm-up that are done. 1: linear."""

    warmup: float = Field(0.1, ge=0, lt=1)
    """Warm-up as a share of the planned steps."""

    clip_norm: float | None = Field(1.0, gt=0)
    """Largest gradient norm. null: no clipping."""

    precision: Literal["auto", "fp32", "bf16", "fp16"] = "auto"
    """`auto`: bf16 autocast if the hardware is faster with it; fp16 on a CUDA card without bf16,
    such as a T4. With fp16 the loss is scaled, and a step whose gradient overflows is skipped."""

    eval_steps: int | None = Field(None, ge=1)
    """Evaluate every N steps. null: after every epoch."""

    eval_batch_size: int = Field(64, ge=1)
    """Rows per forward pass of an evaluation."""

    checkpoint_steps: int | None = Field(None, ge=1)
    """Also save a checkpoint every N steps."""

    keep_checkpoints: int = Field(2, ge=2)
    """Number of checkpoints to keep: the newest, and older ones to fall back to."""

    holdout: float = Field(0.0, ge=0, lt=1)
    """Share of every training set that is held out for early stopping and selection, so that dev
    stays clean: a fixed random part, with duplicates kept together. Rows with the same token ids
    are duplicates too. 0: select on dev."""

    select: str = "joint"
    """Which weights the run reports and predicts with: the best mean over tasks (`joint`), the best
    of each task (`per_task`), or the best of the named task. `last`: those of the last step, so
    that no evaluation selects; dev is then only reported, unless tasks stop early on it."""

    frozen_baseline: bool = True
    """Also train the heads on the frozen encoder and report their scores. For a task with
    `share_pooling` that no stage trains, report the score before training."""

    tensorboard: bool = False
    """As `trackers: [tensorboard]`."""

    trackers: list[Annotated[str, registered("tracker")]] = []
    """Also send losses, learning rates, gradient norms, evaluations, the config and the report's
    scores to these trackers: $tracker. A resume can change it."""


class StageConfig(Strict):
    """A part of the training with its own optimizer, schedule and patience.

    Stages run one after another. Keys that a stage does not set are taken from `training`.
    """

    name: str | None = None
    """Name in reports; default: its number."""

    tasks: list[str] | None = Field(None, min_length=1)
    """Tasks to train; default: all."""

    freeze: list[str] = []
    """Parts that are not trained: `encoder`, `embeddings`, `layer_1` (the lowest) and so on,
    `heads` (all parts of tasks except adapters), `adapters`, the name of a task (all of its parts
    with its adapter), or only its adapter: `sst.adapter`."""

    epochs: int | None = Field(None, ge=1)
    """As `training.epochs`."""

    epoch: str | Steps | None = None
    """As `training.epoch`."""

    max_steps: int | None = Field(None, ge=1)
    """Largest number of optimizer steps in this stage."""

    sampler: Annotated[Choice, registered("sampler")] | None = None
    """As `training.sampler`."""

    combine: Literal["alternate", "joint"] | None = None
    """As `training.combine`."""

    lr: float | None = Field(None, gt=0)
    """As `training.lr`."""

    head_lr: float | None = Field(None, gt=0)
    """As `training.head_lr`; here it also replaces the `head_lr` of the tasks."""

    adapter_lr: float | None = Field(None, gt=0)
    """As `training.adapter_lr`; it also replaces the `adapter_lr` of the tasks."""

    layer_decay: float | None = Field(None, gt=0, le=1)
    """As `training.layer_decay`."""

    schedule: Literal["constant", "linear", "cosine", "polynomial"] | None = None
    """As `training.schedule`."""

    schedule_power: float | None = Field(None, gt=0)
    """As `training.schedule_power`."""

    warmup: float | None = Field(None, ge=0, lt=1)
    """As `training.warmup`, but of the steps of this stage."""
