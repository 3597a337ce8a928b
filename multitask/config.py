"""The typed configuration: every key of a YAML file, its type, default, range and meaning.

``load_config`` reads a file (see ``multitask.config_file`` for ``extends``, ``defaults`` and
overrides), validates it against these models and reports the first mistake in one line with file,
line, key path and the nearest valid key. No torch import here. ``docs/configuration.md`` is
generated from the descriptions below.
"""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    PrivateAttr,
    ValidationError,
    field_validator,
    model_validator,
)
from pydantic_core import PydanticCustomError

from multitask.config_file import CHOICES, KeyPath, Tree, dump_yaml, load_tree
from multitask.errors import UserError, suggest
from multitask.glue import FILES as GLUE_FILES
from multitask.metrics import SELECTABLE
from multitask.registry import KINDS, check_name

EMBEDDED = "embedded"
EMBEDDED_DIR = Path(__file__).parent / "data" / "embedded"
PACKAGED_ENCODER = "packaged-minilm"
DataFormat = Literal[
    "auto", "csv", "tsv", "jsonl", "txt", "conll", "documents", "parquet", "disk", "hub"
]
# keys of `data` that a task with another task's rows has for itself
OWN_LABELS = (
    "label",
    "labels",
    "label_separator",
    "tag_scheme",
    "label_range",
    "unlabelled",
    "same_rows_as",
)
# the columns of a task's texts, by its input
TEXT_KEYS = {
    "single": ("text",),
    "siamese": ("text", "text2"),
    "cross": ("text", "text2"),
    "triplet": ("text", "text2", "text3"),
}
# keys of a task that come with another task's head
SHARED_WITH_POOLING = ("adapter", "pooling", "eval_pooling", "projection")
SHARED_WITH_HEAD = (
    "input",
    "adapter",
    "pooling",
    "eval_pooling",
    "projection",
    "head",
    "dropout",
)


def _mistake(key: str, message: str) -> PydanticCustomError:
    """A mistake in the relation between keys, to be reported at ``key``."""
    return PydanticCustomError("at_key", "{message}", {"key": key, "message": message})


class Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False)


class Choice(BaseModel):
    """A method by name (``pooling: mean``), or by name with options (``{name: ..., ...}``)."""

    model_config = ConfigDict(extra="allow", strict=True)
    name: str = Field(description="A registered name.")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """Every key beside ``name``: constructor arguments of the method."""
        return dict(self.model_extra or {})


class DataConfig(Strict):
    """Where a task's rows come from, and how they are read."""

    format: DataFormat = Field(
        "auto",
        description="How to read `train`, `dev` and `test`. `auto` goes by the file's ending. "
        "`csv` and `tsv` separate by comma and tab whatever the ending (the CS224N `.csv` files "
        "are `tsv`). `txt`: one text a line, no header. `conll`: a word a line, its tag in the "
        "last column, a blank line between sentences. `documents`: a sentence a line, a blank line "
        "between documents, read as pairs of a sentence and the next (label 1) or one of another "
        "document (0). `disk`: `path` is a directory that "
        "`DatasetDict.save_to_disk` wrote. `hub`: `path` is a hub id, or a local directory that "
        "`load_dataset` reads.",
    )
    path: str | None = Field(
        None, description="Hub id or directory of a whole data set (`format: hub` or `disk`)."
    )
    subset: str | None = Field(None, description="Configuration name of a hub data set.")
    train: str | None = Field(
        None, description="Training rows: a file (relative to `data_dir`) or a split's name."
    )
    dev: str | None = Field(
        None,
        description="Development rows: a file or a split's name. Here as in `train` and `test`, a "
        "`*` in a file's name joins all that fit, by name, such as `STS12/*.tsv`.",
    )
    dev_share: float | None = Field(
        None,
        gt=0,
        lt=1,
        description="Instead of `dev`: about this share of the training rows, taken out of them by "
        "a hash of their first text (equal ones stay together), the same in every run.",
    )
    test: str | None = Field(
        None, description="Rows to predict, labelled or not: a file or a split's name."
    )
    quoting: bool = Field(
        True,
        description='csv and tsv: standard CSV quoting. `false`: a `"` is an ordinary character, '
        "as in the GLUE files.",
    )
    header: list[str] | None = Field(
        None,
        min_length=1,
        description="csv and tsv: the columns' names in files without a header line, such as "
        "CoLA's. A file whose first line holds the `text` column's name has one.",
    )
    text: str = Field(
        "sentence",
        description="Column of the (first) text; of a list of words where each has a tag.",
    )
    text2: str | None = Field(None, description="Column of the second text of a pair.")
    text3: str | None = Field(
        None, description="Column of the third text of a triplet: the hard negative."
    )
    where: dict[str, str] | None = Field(
        None,
        description="Keep the rows that have these values in these columns, such as "
        "`{is_duplicate: 1}`; in every split that has the columns.",
    )
    label: str = Field(
        "label",
        description="Column of the label; of a list of tags, one a word; of the answers to a "
        'question, `{"text": [...], "answer_start": [...]}`.',
    )
    id: str | None = Field(None, description="Column of the row's id; default: the row number.")
    labels: dict[str, str] | None = Field(
        None,
        description="Class labels in the order of their ids: a mapping from the value in the file "
        "to a name, or a list of values. `1`, `1.0` and `'1'` are one value, as are `true` and "
        "`True`. Two values with one name form one class. "
        "Default: the values found in train; 0 and 1 (or false and true) for a binary head.",
    )
    label_separator: str = Field(
        ",",
        min_length=1,
        description="Several classes at once: what stands between them in a text, such as `3,10`; "
        "JSON and Parquet may have lists. A row of no class has an empty list, or an empty text "
        "with `unlabelled: []`.",
    )
    tag_scheme: Literal["IOB2", "IOB1", "IOE2", "IOE1", "IOBES", "BILOU"] = Field(
        "IOB2",
        description="How the tags of words mark entities. What does not follow it is no entity.",
    )
    label_range: list[float] | None = Field(
        None, description="Lowest and highest value of a numeric label, such as `[0, 5]`."
    )
    unlabelled: list[str] = Field(
        default=[""], description="Label values that mean 'no label'; such rows are counted."
    )
    same_rows_as: str | None = Field(
        None,
        description="Another task whose rows these are, with a label column of their own: both "
        "train together, with one encoder pass, in that task's turns. Beside it only `label`, "
        "`labels`, `label_range` and `unlabelled` are given; a row may lack either label.",
    )
    texts_of: list[str] | None = Field(
        None,
        min_length=1,
        description="Masked language modelling, or contrastive learning with `input: single`, on "
        "the texts of these tasks' rows: train on those they train on, score those of their dev "
        "rows. Each distinct text once, the sides of a pair apart. Instead of `train` and `dev`.",
    )
    corpus: str | None = Field(
        None,
        description="Name of the corpus the rows were drawn from, compared with what the encoder "
        "is known to have seen (`encoder.seen_corpora`).",
    )

    @field_validator("labels", mode="before")
    @classmethod
    def _labels(cls, value: Any) -> Any:
        if isinstance(value, list):
            value = {str(item): str(item) for item in value}
        if isinstance(value, dict):
            if any(isinstance(name, dict | list | None) for name in value.values()):
                raise ValueError("expected a name for every value")
            value = {str(key): str(name) for key, name in value.items()}
            if len(set(value.values())) < 2:
                raise ValueError("at least two classes are needed")
        return value

    @field_validator("where", mode="before")
    @classmethod
    def _where(cls, value: Any) -> Any:
        if isinstance(value, dict):  # `1` as well as `"1"`
            value = {
                k: v if isinstance(v, dict | list | None) else str(v) for k, v in value.items()
            }
        return value

    @field_validator("unlabelled", mode="before")
    @classmethod
    def _unlabelled(cls, value: Any) -> Any:
        if isinstance(value, list):  # `-1` as well as `"-1"`
            value = [str(item) if isinstance(item, int | float) else item for item in value]
        return value

    @field_validator("label_range")
    @classmethod
    def _range(cls, value: list[float] | None) -> list[float] | None:
        if value is not None and (len(value) != 2 or value[0] >= value[1]):
            raise ValueError("expected [lowest, highest] with lowest < highest")
        return value

    @model_validator(mode="after")
    def _whole(self) -> "DataConfig":
        for key in ("train", "dev", "test") if self.texts_of else ():
            if getattr(self, key) is not None:
                raise _mistake(key, "`texts_of` says whose rows these are: leave this out")
        if self.dev_share and (self.dev or self.texts_of):
            raise _mistake("dev_share", "it stands instead of `dev` and `texts_of`: leave it out")
        if self.format in ("disk", "hub") and not self.path and not self.texts_of:
            raise _mistake("format", f"format {self.format} needs `path`")
        if self.labels and self.label_range:
            message = "`labels` (classes) and `label_range` (numbers) exclude each other"
            raise _mistake("label_range", f"{message}: set one of them to null")
        return self


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
    dropout: float = Field(0.1, ge=0, lt=1, description="Dropout before the head.")
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
                raise _mistake("input", f"input {self.input} needs {wants}")
        return self


class BitLinearConfig(Strict):
    """BitNet b1.58 (Ma et al. 2024): the layers' weights as -1, 0 or 1, their inputs in 8 bits."""

    layers: Literal["all", "inner"] = Field(
        "all", description="Which layers: `all`, or `inner`: all but the first and the last."
    )
    gradual: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the planned steps in which training goes over from plain to "
        "quantised values; 0: quantised from the first step. Evaluations are always quantised.",
    )


class EncoderConfig(Strict):
    """The shared encoder."""

    name: str = Field(
        PACKAGED_ENCODER,
        description=f"Hub id or local directory of a BERT-family model, or `{PACKAGED_ENCODER}` "
        "(all-MiniLM-L6-v2 from the pinned Python package, no hub needed).",
    )
    revision: str | None = Field(None, description="Hub revision: a branch, tag or commit.")
    implementation: Literal["own", "transformers"] = Field(
        "own",
        description="`own`: the padding-free encoder of this project, for BERT and RoBERTa "
        "architectures; others run in `transformers`, and a line says so.",
    )
    freeze: bool | list[str] = Field(
        False,
        description="`true`: train heads and adapters only. Or a list of parts that do not move, "
        "such as `[embeddings, layer_1, layer_2]` (`layer_1` is the lowest).",
    )
    reinit_layers: int = Field(
        0, ge=0, description="Fresh weights for this many top layers (own encoder only)."
    )
    from_scratch: bool = Field(
        False,
        description="Fresh weights for the whole encoder: only the architecture and the tokenizer "
        "of `name` are taken (own encoder only).",
    )
    bitlinear: BitLinearConfig | None = Field(
        None,
        description="Quantise the linear layers inside the encoder's layers (`bitlinear: {}` for "
        "the paper's way; own encoder only).",
    )
    gradient_checkpointing: bool = Field(
        False,
        description="Compute each layer again in the backward pass: less memory, about a third "
        "more time (own encoder only).",
    )
    dropout: float | None = Field(
        None, ge=0, lt=1, description="Hidden dropout inside the encoder; default: the model's own."
    )
    seen_corpora: dict[str, str] | None = Field(
        None,
        description="Corpora the pretrained weights have seen, and how; tasks that declare one as "
        "`data.corpus` get a warning. Default: what is known of the packaged encoder, else none.",
    )


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
        "auto", description="`auto`: bf16 autocast where the hardware has it."
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
        True, description="Also train the heads on the frozen encoder, and report them beside."
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


class InitFromConfig(Strict):
    """A finished run whose weights this one starts from; its directory alone is enough."""

    run: str = Field(description="Run directory with weights (`ablate` needs `--keep-weights`).")
    task: str | None = Field(
        None, description="The run's task whose selected weights are taken; default: its first."
    )
    take: Literal["encoder", "pooling", "head"] = Field(
        "encoder",
        description="`pooling`: also that task's pooling, projection and adapter, for every task "
        "here. `head`: also its head, which fits only the same classes.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_run(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value


class Config(Strict):
    """A whole run."""

    data_dir: str = Field(
        EMBEDDED,
        description="Directory that the data files are relative to; `embedded` is the small "
        "synthetic sample inside the project.",
    )
    output_dir: str = Field("", description="Run directory; default `runs/NAME-OF-THE-YAML`.")
    seed: int = Field(
        11711, ge=0, lt=2**63, description="Seed of initialisation, dropout and batches."
    )
    device: str = Field(
        "auto", description="`auto` (a GPU when there is one), `cpu`, `cuda`, `cuda:1`, `mps`."
    )
    encoder: EncoderConfig = Field(default_factory=EncoderConfig, description="The shared encoder.")
    init_from: InitFromConfig | None = Field(
        None,
        description="Start from a finished run of the same encoder, trained on another task: its "
        "directory, or the keys below.",
    )
    training: TrainingConfig = Field(
        default_factory=TrainingConfig, description="The training loop."
    )
    stages: list[StageConfig] | None = Field(
        None,
        min_length=1,
        description="Parts of the training, one after the other; default: one, as `training` says.",
    )
    tasks: dict[str, TaskConfig] = Field(
        min_length=1, description="The tasks by name; `defaults:` beside it is shared by all."
    )
    _tree: Tree = PrivateAttr(default_factory=Tree)

    def error(self, path: KeyPath, message: str | UserError) -> UserError:
        """A UserError that names the file and line that hold ``path``, or a key below it."""
        if isinstance(message, UserError):
            path = (*path, *message.key)
        return self._tree.error(path, str(message))

    def selecting_tasks(self) -> dict[str, str]:
        """For each task the one whose evaluations select its weights: itself, if it trains."""
        return {
            name: (task.share_head or task.share_pooling or name) if task.only_scored else name
            for name, task in self.tasks.items()
        }

    def data_path(self, name: str) -> Path:
        """A data file's path: absolute, or relative to ``data_dir``."""
        root = EMBEDDED_DIR if self.data_dir == EMBEDDED else Path(self.data_dir)
        return root / name

    def dump(self) -> str:
        """The resolved config as YAML: no ``extends``, no ``defaults``, every value written."""
        return dump_yaml(self.resolved())

    def resolved(self) -> dict[str, Any]:
        """The resolved config as plain values."""
        return self.model_dump(mode="json")


def load_config(path: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """Read, merge and validate a YAML file.

    Raises UserError: one line with file, line, key path and what was expected.
    """
    tree = load_tree(path, overrides)
    _inherit(tree)
    try:
        config = Config.model_validate(tree.value)
    except ValidationError as error:
        raise explain(error, tree, Config) from error
    config._tree = tree
    _check_names(config)
    _check_references(config)
    if config.data_dir != EMBEDDED:
        config.data_dir = str(Path(config.data_dir).expanduser().absolute())
    if config.init_from is not None:
        config.init_from.run = str(Path(config.init_from.run).expanduser().absolute())
        for option in ("reinit_layers", "from_scratch"):
            if getattr(config.encoder, option):
                message = "`init_from` brings the weights of all layers: leave one of the two out"
                raise config.error(("encoder", option), message)
    if not config.output_dir:
        config.output_dir = str(Path("runs") / Path(path).stem)
    return config


def load_saved_config(
    run_dir: str | os.PathLike[str], overrides: list[str] | None = None
) -> Config:
    """The resolved config of a run, with weights or without. Raises UserError: no run there."""
    return load_config(_saved_config(Path(run_dir)), overrides)


def load_run_config(run_dir: str | os.PathLike[str], overrides: list[str] | None = None) -> Config:
    """The resolved config of a run that has weights.

    Raises UserError: no run there, or one without evaluated weights yet.
    """
    directory = Path(run_dir)
    file = _saved_config(directory)
    if not (directory / "best.json").is_file():
        report = directory / "report.json"
        if report.is_file() and '"probe": true' in report.read_text(encoding="utf-8"):
            message = f"heads of a probe grid keep no weights: train {file} with output_dir=DIR"
            raise UserError(f"{directory}: {message}")
        raise UserError(f"{directory}: the run has no evaluated weights yet: go on with --resume")
    if not (directory / "encoder").is_dir():
        raise UserError(
            f"{directory}: the run's weights were removed, as `ablate` does without "
            f"--keep-weights: train {file} again, with output_dir=DIR"
        )
    return load_config(file, overrides)


def _saved_config(directory: Path) -> Path:
    file = directory / "config.yaml"
    if not file.is_file():
        raise UserError(f"{directory}: no run there (config.yaml is missing)")
    return file


def _check_names(config: Config) -> None:
    choices: list[tuple[KeyPath, str, Choice | None]] = [
        (("training", kind), kind, getattr(config.training, kind))
        for kind in ("sampler", "gradient_surgery")
    ]
    for number, stage in enumerate(config.stages or []):
        choices.append((("stages", number, "sampler"), "sampler", stage.sampler))
    for name, task in config.tasks.items():
        if not name.isidentifier():
            raise config.error(("tasks", name), "a task's name must be letters, digits and '_'")
        for kind in ("adapter", "pooling", "projection", "head"):
            choices.append((("tasks", name, kind), kind, getattr(task, kind)))
        choices.append((("tasks", name, "eval_pooling"), "pooling", task.eval_pooling))
    files = [task.course_file.name for task in config.tasks.values() if task.course_file]
    for name, task in config.tasks.items():
        if task.course_file and files.count(task.course_file.name) > 1:
            message = f"two tasks would write {task.course_file.name}-dev-output.csv"
            raise config.error(("tasks", name, "course_file", "name"), message)
    for name, task in config.tasks.items():
        twins = [n for n, t in config.tasks.items() if t.glue_file == task.glue_file]
        if task.glue_file and twins[0] != name:
            message = f"{twins[0]} and {name} would both write {task.glue_file}.tsv"
            raise config.error(("tasks", name, "glue_file"), message)
    for path, kind, choice in choices:
        if choice is not None:
            try:
                check_name(kind, choice.name)
            except UserError as error:
                raise config.error(path, str(error)) from None


def _check_references(config: Config) -> None:
    """Check what names a task, and complete the tasks that share rows or a head with another."""
    tasks = tuple(name for name in config.tasks if not config.tasks[name].evaluate_only)
    _check_evaluate_only(config, tasks)
    for name, task in config.tasks.items():
        if task.data.same_rows_as is not None:
            _share_rows(config, name)
        if task.share_head is not None:
            _share_head(config, name)
        if task.smart and task.smart.dropout == "eval" and config.encoder.gradient_checkpointing:
            message = "layers are computed again with dropout: not with gradient_checkpointing"
            raise config.error(("tasks", name, "smart", "dropout"), message)
        if task.share_pooling is not None:
            _share_pooling(config, name)
        _check_sources(config, name)
    lengths: list[tuple[KeyPath, str | int | None]] = [
        (("training", "epoch"), config.training.epoch)
    ]
    for number, stage in enumerate(config.stages or []):
        lengths.append((("stages", number, "epoch"), stage.epoch))
        for place, task_name in enumerate(stage.tasks or []):
            if task_name not in tasks:
                where = ("stages", number, "tasks", place)
                raise config.error(where, f"no task {task_name!r}{suggest(task_name, tasks)}")
            if config.tasks[task_name].only_scored:
                message = f"{task_name} has no `data.train`: it is only scored"
                raise config.error(("stages", number, "tasks", place), message)
    select = config.training.select
    if select not in ("joint", "per_task", *config.tasks):
        hint = suggest(select, ("joint", "per_task", *config.tasks))
        raise config.error(("training", "select"), f"expected joint, per_task or a task{hint}")
    if select in tasks and config.tasks[select].only_scored:
        message = f"{select} has no `data.train` and is scored at the end only: name another task"
        raise config.error(("training", "select"), message)
    for path, value in lengths:
        if isinstance(value, str) and value != "longest" and value not in tasks:
            hint = suggest(value, ("longest", *tasks))
            raise config.error(path, f"expected longest, a task or a number of steps{hint}")


def _inherit(tree: Tree) -> None:
    """Fill in what a task takes over from the task whose rows or head it shares."""
    tasks = tree.value.get("tasks")
    for name, task in tasks.items() if isinstance(tasks, dict) else ():
        if not isinstance(task, dict):
            continue
        others = tuple(other for other in tasks if other != name)
        data = task.get("data")
        host_name = data.get("same_rows_as") if isinstance(data, dict) else None
        for key, other in (
            ("data.same_rows_as", host_name),
            ("share_head", task.get("share_head")),
            ("share_pooling", task.get("share_pooling")),
        ):
            if isinstance(other, str) and other not in others:
                path = ("tasks", name, *key.split("."))
                raise tree.error(path, f"expected another task{suggest(other, others)}")
        host = tasks.get(host_name)
        if isinstance(data, dict) and isinstance(host, dict) and isinstance(host.get("data"), dict):
            rows = {key: value for key, value in host["data"].items() if key not in OWN_LABELS}
            task["data"] = {**rows, **data}
            _fill(task, host, ("input", "max_length"))
        pools = tasks.get(task.get("share_pooling"))
        if isinstance(pools, dict):
            _fill(task, pools, SHARED_WITH_POOLING)
        owner = tasks.get(task.get("share_head"))
        if isinstance(owner, dict):
            _fill(task, owner, SHARED_WITH_HEAD)
            own, theirs = task.get("data") or {}, owner.get("data")
            if isinstance(theirs, dict) and not {"labels", "label_range"} & set(own):
                _fill(own, theirs, ("labels", "label_range"))


def _fill(into: dict[str, Any], origin: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    into.update({key: origin[key] for key in keys if key in origin and key not in into})


def _share_rows(config: Config, name: str) -> None:
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "data", "same_rows_as")
    host = config.tasks[task.data.same_rows_as or ""]
    if host.data.same_rows_as is not None:
        raise config.error(path, f"name the task with the rows: {host.data.same_rows_as!r}")
    if host.only_scored:
        raise config.error(path, f"{task.data.same_rows_as} has no training rows: name another")
    for key in ("input", "max_length"):
        if getattr(task, key) != getattr(host, key):
            raise config.error(("tasks", name, key), f"must be as in {task.data.same_rows_as!r}")
    for key in DataConfig.model_fields:
        if key not in OWN_LABELS and getattr(task.data, key) != getattr(host.data, key):
            message = f"the rows are those of {task.data.same_rows_as!r}: leave this to that task"
            raise config.error((*path[:-1], key), message)


def _check_sources(config: Config, name: str) -> None:
    """The tasks in ``texts_of`` have rows to train on."""
    for place, source in enumerate(config.tasks[name].data.texts_of or []):
        others = tuple(
            other
            for other, entry in config.tasks.items()
            if not entry.data.texts_of and not entry.only_scored
        )
        if source not in others:
            path = ("tasks", name, "data", "texts_of", place)
            raise config.error(
                path, f"expected a task with rows of its own{suggest(source, others)}"
            )


def _check_evaluate_only(config: Config, trained: tuple[str, ...]) -> None:
    """Tasks that are only evaluated have nothing that belongs to training."""
    if not trained:
        first = next(iter(config.tasks))
        raise config.error(("tasks", first, "evaluate_only"), "no task is left to train")
    for name, task in config.tasks.items():
        hosts: dict[KeyPath, str | None] = {
            ("data", "same_rows_as"): task.data.same_rows_as,
            ("share_head",): task.share_head,
            ("share_pooling",): task.share_pooling,
        }
        for path, other in hosts.items():
            if other is not None and other not in trained:
                message = f"{other!r} is only evaluated: name a task that trains"
                raise config.error(("tasks", name, *path), message)
        if not task.evaluate_only:
            continue
        if task.share_head is None and task.share_pooling is None:
            message = "name the task whose vectors are scored: `share_head` or `share_pooling`"
            raise config.error(("tasks", name, "evaluate_only"), message)
        if task.data.dev is None:
            message = "the task is only evaluated (`evaluate_only`): name the rows"
            raise config.error(("tasks", name, "data", "dev"), message)
        for key, given in (
            ("train", task.data.train),
            ("same_rows_as", task.data.same_rows_as),
            ("texts_of", task.data.texts_of),
        ):
            if given is not None:
                message = "the task is only evaluated (`evaluate_only`): leave this out"
                raise config.error(("tasks", name, "data", key), message)


def _share_head(config: Config, name: str) -> None:
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "share_head")
    owner = config.tasks[task.share_head or ""]
    if owner.share_head is not None:
        raise config.error(path, f"name the task that owns the head: {owner.share_head!r}")
    if task.only_scored and task.data.dev is None and task.data.test is None:
        message = "the task has no rows at all: name `train`, `dev` or `test`"
        raise config.error(("tasks", name, "data"), message)
    for key in SHARED_WITH_HEAD:
        if getattr(task, key) != getattr(owner, key):
            raise config.error(("tasks", name, key), f"must be as in {task.share_head!r}")


def _share_pooling(config: Config, name: str) -> None:
    task = config.tasks[name]
    path: KeyPath = ("tasks", name, "share_pooling")
    owner = config.tasks[task.share_pooling or ""]
    if owner.share_pooling or owner.share_head or task.share_head:
        message = "name a task with a pooling of its own, and leave out `share_head`"
        raise config.error(path, message)
    for key in SHARED_WITH_POOLING:
        if getattr(task, key) != getattr(owner, key):
            raise config.error(("tasks", name, key), f"must be as in {task.share_pooling!r}")


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside a field's annotation, such as that of ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)


def _fields_at(path: KeyPath, model: Any) -> Mapping[str, Any]:
    """The fields of the model at a key path below ``model``, for the nearest valid key."""
    for part in path:
        if model is None:
            return {}
        if isinstance(part, int):  # of a list, whose model is its items'
            continue
        if part == "tasks" and model is Config:
            model = dict
        elif model is dict:
            model = TaskConfig
        else:
            annotation = model.model_fields[part].annotation if part in model.model_fields else None
            model = model_in(annotation)
    return model.model_fields if isinstance(model, type) and issubclass(model, BaseModel) else {}


_EXPECTED = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
}


def explain(error: ValidationError, tree: Tree, model: type[BaseModel]) -> UserError:
    """The first mistake of a file read as ``model``, in the file's own words."""
    problems = error.errors(include_url=False)
    # an unknown key first: it often explains the missing one
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    path: KeyPath = tuple(problem["loc"])
    kind = problem["type"]
    if kind == "extra_forbidden":
        known = tuple(_fields_at(path[:-1], model))
        if path[:-1] == ():
            known = (*known, *(("defaults",) if model is Config else ()), "extends")
        return tree.error(path, f"unknown key{suggest(str(path[-1]), known)}")
    if kind == "missing":
        hint = ""
        if path[:1] == ("tasks",) and tree.where(path[:2]).startswith("command line"):
            others = [name for name in tree.value["tasks"] if name != path[1]]
            hint = f"; to change a task, name one of {', '.join(others)}" if others else ""
        return tree.error(path[:-1], f"the key {path[-1]!r} is missing{hint}")
    shown = repr(problem["input"])
    shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown)
    message = _EXPECTED.get(kind) or problem["msg"].removeprefix("Value error, ")
    if kind == "at_key":
        path = (*path, problem["ctx"]["key"])
    if kind == "model_type" and path[-1] in CHOICES:
        message = "expected a name, or a name and options"
    if kind not in ("value_error", "at_key", "too_short"):
        message = f"{message.replace('Input should be', 'should be')}, not {shown[:80]}"
    if kind == "too_short":
        message = f"at least one {str(path[-1]).removesuffix('s')} is needed"
    return tree.error(path, message)
