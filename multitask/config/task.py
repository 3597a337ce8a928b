# Tested by tests/config/test_schema.py
"""``tasks.NAME``: a task."""

from typing import Literal

from pydantic import (
    Field,
    field_validator,
    model_validator,
)

from multitask.config.base import Choice, Strict, mistake
from multitask.config.data import TEXT_KEYS, DataConfig
from multitask.config.registry import KINDS
from multitask.tasks.glue import FILES as GLUE_FILES
from multitask.tasks.metric_names import SELECTABLE
from multitask.utils.errors import suggest
from multitask.utils.limits import MOST_DROPOUT


class EarlyStoppingConfig(Strict):
    """When a task stops on its own."""

    patience: int | None = Field(
        None, ge=1, description="Evaluations without improvement before the task stops."
    )
    min_delta: float = Field(0.0, ge=0, description="Gains up to this do not count.")


class SmartConfig(Strict):
    """SMART (Jiang et al. 2020): small changes of the input shall not change the output."""

    weight: float = Field(
        1.0, ge=0, description="lambda_s, of the adversarial term; the paper tries 1, 3 and 5."
    )
    eps: float = Field(1e-5, gt=0, description="Radius of the ball that holds a perturbation.")
    noise: float = Field(
        1e-5, gt=0, description="Standard deviation of the normal start of the ascent."
    )
    step_size: float = Field(1e-3, gt=0, description="eta, of an ascent step.")
    steps: int = Field(1, ge=1, description="Ascent steps; each costs two forward passes' time.")
    norm: Literal["inf", "l2"] = Field("inf", description="Norm of the ball and of the gradient.")
    scope: Literal["sentence", "token"] = Field(
        "sentence",
        description="What a norm is taken of: a whole sentence's perturbation, or each token's.",
    )
    perturb: Literal["embeddings", "pooled"] = Field(
        "embeddings",
        description="What is perturbed: the encoder's embeddings, or the pooled vectors (cheap).",
    )
    dropout: Literal["same_mask", "eval", "independent"] = Field(
        "same_mask",
        description="`same_mask`: the perturbed pass drops what the plain pass dropped. `eval`: "
        "both without dropout, one more pass. `independent`: each its own, as in R-Drop.",
    )
    every: int = Field(1, ge=1, description="Only in every so many steps of the task.")
    bregman: float = Field(
        0.0,
        ge=0,
        description="mu, of the Bregman term that keeps outputs near those of a slow running "
        "mean of the weights; the paper has 1. 0: without, and no such copy is kept.",
    )


class CourseFileConfig(Strict):
    """The course's prediction file: `predictions/NAME-SPLIT-output.csv`."""

    name: str = Field(pattern=r"^[\w.-]+$", description="File name part, such as `para`.")
    column: str = Field(description="Header of the value, such as `Predicted_Is_Paraphrase`.")


class TaskConfig(Strict):
    """One task: its data, the way from encoder to score, and how it is trained."""

    data: DataConfig = Field(description="The task's rows.")
    input: Literal["single", "siamese", "cross", "triplet"] = Field(
        "single",
        description="`single`: one text. `siamese`: both texts of a pair encoded apart, as one "
        "batch of 2B sentences. `cross`: both in one input, with token types. `triplet`: a text, "
        "one that goes with it and one that does not, apart (contrastive heads).",
    )
    max_length: int = Field(
        128, ge=4, description="Longest input in tokens, special tokens included; the rest is cut."
    )
    stride: int | None = Field(
        None,
        ge=1,
        description="Answers in a text: a context that `max_length` would cut is read in windows, "
        "which have this many tokens in common. null: it is cut.",
    )
    adapter: Choice | None = Field(
        None,
        description="The task's own part inside the encoder's layers (our own encoder only): one "
        f"of {', '.join(KINDS['adapter'])}; null for none.",
    )
    pooling: Choice = Field(
        Choice(name="cls"), description=f"One of {', '.join(KINDS['pooling'])}."
    )
    eval_pooling: Choice | None = Field(
        None,
        description="Score and export with this pooling instead of `pooling` and `projection`, "
        "which then serve the training alone. One without parameters; null: as trained.",
    )
    projection: Choice | None = Field(
        None,
        description="Layer between pooling and head: one of "
        f"{', '.join(KINDS['projection'])}; null for none.",
    )
    head: Choice = Field(description=f"One of {', '.join(KINDS['head'])}.")
    share_head: str | None = Field(
        None,
        description="Another task whose adapter, pooling, projection and head this one uses, "
        "weights and all: the same settings, the same classes, other data. Without `train` the "
        "task is only scored and predicted, with the weights selected for the other one.",
    )
    share_pooling: str | None = Field(
        None,
        description="Another task whose adapter, pooling and projection this one uses, weights and "
        "all, under a head of its own: a similarity task that scores a contrastive task's vectors.",
    )
    evaluate_only: bool = Field(
        False,
        description="Never train on it: `data.dev` is scored at every evaluation, with the head of "
        "`share_head`, or with one without weights on the vectors of `share_pooling`. It stops "
        "nothing, enters no mean and selects only where `training.select` names it. Such as an STS "
        "suite beside a run.",
    )
    dropout: float = Field(0.1, ge=0, le=MOST_DROPOUT, description="Dropout before the head.")
    batch_size: int = Field(16, ge=1, description="Rows per forward pass.")
    batch_tokens: int | None = Field(
        None,
        ge=1,
        description="Tokens per forward pass, padding included, on top of `batch_size`: batches of "
        "long rows are cut smaller.",
    )
    accumulation: int = Field(1, ge=1, description="Forward passes per optimizer step.")
    loss_weight: float = Field(1.0, gt=0, description="Factor on the task's loss.")
    smart: SmartConfig | None = Field(
        None, description="SMART's terms beside the task's loss (`smart: {}` for the paper's)."
    )
    head_lr: float | None = Field(
        None, gt=0, description="Learning rate of this head; default `training.head_lr`."
    )
    adapter_lr: float | None = Field(
        None, gt=0, description="Learning rate of this adapter; default `training.adapter_lr`."
    )
    max_rows: int | None = Field(
        None, ge=1, description="Train on this many rows, a fixed random subset; null for all."
    )
    metric: str | None = Field(
        None,
        description="Metric of selection, early stopping and overall score. Classes: "
        f"{', '.join(SELECTABLE['class'])}; binary: {', '.join(SELECTABLE['binary'])}; several "
        f"classes at once: {', '.join(SELECTABLE['labels'])}; numbers: "
        f"{', '.join(SELECTABLE['number'])}; masked tokens: {', '.join(SELECTABLE['tokens'])}; "
        f"contrastive: {', '.join(SELECTABLE['views'])}; tagged words: "
        f"{', '.join(SELECTABLE['tags'])}; answers: {', '.join(SELECTABLE['span'])}. "
        "Default: the first of these.",
    )
    early_stopping: EarlyStoppingConfig = Field(
        default_factory=EarlyStoppingConfig, description="When the task stops on its own."
    )
    course_file: CourseFileConfig | None = Field(
        None, description="Also write predictions in the CS224N format."
    )
    glue_file: str | None = Field(
        None,
        description="Also write the test predictions as the GLUE server wants them, to "
        f"`predictions/glue/NAME.tsv`: one of {', '.join(GLUE_FILES)}.",
    )

    @property
    def only_scored(self) -> bool:
        """Whether the task has no training rows: another one's head is scored on its rows."""
        if self.evaluate_only:
            return True
        data = self.data
        own = (data.train, data.same_rows_as, data.texts_of)
        return self.share_head is not None and own == (None, None, None)

    @field_validator("glue_file")
    @classmethod
    def _glue_file(cls, value: str | None) -> str | None:
        if value is not None and value not in GLUE_FILES:
            raise ValueError(f"unknown file {value!r}{suggest(value, tuple(GLUE_FILES))}")
        return value

    @field_validator("metric")
    @classmethod
    def _metric(cls, value: str | None) -> str | None:
        known = tuple(dict.fromkeys(name for names in SELECTABLE.values() for name in names))
        if value is not None and value not in known:
            raise ValueError(f"unknown metric {value!r}{suggest(value, known)}")
        return value

    @model_validator(mode="after")
    def _texts(self) -> "TaskConfig":
        for key in ("text2", "text3"):
            needed = key in TEXT_KEYS[self.input]
            if needed != (getattr(self.data, key) is not None):
                wants = f"`data.{key}`" if needed else f"no `data.{key}`"
                raise mistake("input", f"input {self.input} needs {wants}")
        return self
