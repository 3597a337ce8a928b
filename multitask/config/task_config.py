# Tested by tests/config/test_schema.py
"""``tasks.NAME``: the keys of a task."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from multitask.config.base import AbsolutePath, Choice, Strict, mistake
from multitask.config.data_config import TEXT_KEYS, DataConfig
from multitask.config.registry import input_type, registered
from multitask.utils.limits import COURSE_NAME, MOST_DROPOUT


class EarlyStoppingConfig(Strict):
    """When a task stops early."""

    patience: int | None = Field(None, ge=1)
    """Evaluations without improvement before the task stops."""

    min_delta: float = Field(0.0, ge=0)
    """Smaller gains do not count as improvement."""


class SmartConfig(Strict):
    """SMART (Jiang et al. 2020): small changes of the input should not change the output."""

    weight: float = Field(1.0, ge=0)
    """Weight of the adversarial term, lambda_s; the paper tries 1, 3 and 5."""

    eps: float = Field(1e-5, gt=0)
    """Radius of the ball of allowed perturbations."""

    noise: float = Field(1e-5, gt=0)
    """Standard deviation of the random start of the ascent."""

    step_size: float = Field(1e-3, gt=0)
    """Size of an ascent step, eta."""

    steps: int = Field(1, ge=1, le=1_000)
    """Ascent steps; each takes the time of two forward passes."""

    norm: Literal["inf", "l2"] = "inf"
    """Norm of the ball and of the gradient."""

    scope: Literal["sentence", "token"] = "sentence"
    """A norm is computed over the perturbation of a sentence, or of each token."""

    perturb: Literal["embeddings", "pooled"] = "embeddings"
    """Perturb the embeddings of the encoder, or the pooled vectors (cheap)."""

    dropout: Literal["same_mask", "eval", "independent"] = "same_mask"
    """`same_mask`: the perturbed pass has the dropout mask of the plain pass. `eval`: both without
    dropout, with one more pass. `independent`: each pass has its own mask, as in R-Drop."""

    every: int = Field(1, ge=1)
    """Apply SMART only in every N-th step of the task."""

    bregman: float = Field(0.0, ge=0)
    """Weight of the Bregman term, mu; 1 in the paper. The term keeps outputs near those of a slow
    running mean of the weights. 0: no such term, and no copy of the weights."""


class RDropConfig(Strict):
    """R-Drop (Liang et al. 2021): two dropout masks should give the same output."""

    weight: float = Field(1.0, gt=0)
    """Factor of half the symmetric divergence of the outputs. The paper's alpha is twice this: it
    adds the losses of both passes, of which this program takes the mean."""


class DistillConfig(Strict):
    """Distillation (Hinton et al. 2015): the task also learns the scores of finished runs."""

    from_: list[AbsolutePath] = Field(min_length=1, alias="from")
    """Run directories with weights that have a task of this name and labels (`ablate` needs
    `--keep-weights`). Their scores on the training rows are averaged before the first step."""

    weight: Annotated[float, Field(gt=0, le=1)] | Literal["anneal"] = "anneal"
    """Share of the teachers' scores in the loss; the labels have the rest. `anneal`: from 1 in the
    first step to 0 after the last (Clark et al. 2019)."""

    temperature: float = Field(1.0, gt=0)
    """Softens the probabilities of teachers and student. The term is multiplied by its square."""


class CourseFileConfig(Strict):
    """The prediction file of a course: `predictions/NAME-SPLIT-output.csv`."""

    name: str = Field(pattern=r"^[\w.-]+$", max_length=COURSE_NAME)
    """File name part, such as `para`."""

    column: str
    """Header of the value, such as `Predicted_Is_Paraphrase`."""

    format: Literal["cs224n", "dnlp", "csv"] = "cs224n"
    """How a row is written: `cs224n` as `ID , VALUE`, `dnlp` as `ID<tab>VALUE` under the header
    `id,COLUMN`, `csv` as `ID,VALUE` with quotes where needed. Several labels are a 0 or 1 per class
    in the order of `data.labels`: `[0, 1, 0]`."""

    folder: str = Field("", pattern=r"^([\w-][\w.-]*(/[\w-][\w.-]*)*)?$", max_length=COURSE_NAME)
    """Directory below `predictions/` in the archive of `predict --zip`: `bert/multitask`."""


class TaskConfig(Strict):
    """One task: its data, its parts on top of the encoder, and how it is trained."""

    data: DataConfig
    """The task's rows."""

    input: Annotated[str, registered("input")] = "single"
    """The texts of a row, and how they are read. $input"""

    max_length: int = Field(128, ge=4)
    """Longest input in tokens, with special tokens; the rest is cut."""

    stride: int | None = Field(None, ge=1)
    """For answers in a text: read a context that is longer than `max_length` in windows that
    overlap by this many tokens. null: cut it."""

    adapter: Annotated[Choice, registered("adapter")] | None = None
    """Parameters of the task inside the layers of the encoder: one of $adapter; null for none. An
    encoder of `transformers` takes only lora."""

    pooling: Annotated[Choice, registered("pooling")] = Choice(name="cls")
    """One of $pooling."""

    eval_pooling: Annotated[Choice, registered("pooling")] | None = None
    """Score and export with this pooling instead of `pooling` and `projection`, which are then only
    used in training. It must have no parameters. null: as in training."""

    projection: Annotated[Choice, registered("projection")] | None = None
    """Layer between pooling and head: one of $projection; null for none."""

    head: Annotated[Choice, registered("head")]
    """One of $head."""

    share_head: str | None = None
    """Another task whose adapter, pooling, projection and head this task uses, with the same
    weights, settings and classes, for other data. Without `train` the task is only scored and
    predicted, with the weights selected for the other task."""

    share_pooling: str | None = None
    """Another task whose adapter, pooling and projection this task uses, with the same weights, but
    a different head: such as a similarity task that scores the vectors of a contrastive task."""

    evaluate_only: bool = False
    """Do not train this task: score `data.dev` at every evaluation, with the head of `share_head`,
    or with a head without weights on the vectors of `share_pooling`. The task has no early stopping
    and does not count in the mean. It selects weights only if `training.select` names it. Use it to
    follow an STS suite during a run."""

    dropout: float = Field(0.1, ge=0, le=MOST_DROPOUT)
    """Dropout before the head."""

    batch_size: int = Field(16, ge=1)
    """Rows per forward pass."""

    batch_tokens: int | None = Field(None, ge=1)
    """Largest number of tokens per forward pass, with padding, in addition to `batch_size`: batches
    of long rows have fewer rows."""

    accumulation: int = Field(1, ge=1)
    """Forward passes per optimizer step."""

    loss_weight: float = Field(1.0, gt=0)
    """Factor of the loss of this task."""

    smart: SmartConfig | None = None
    """Add the terms of SMART to the loss (`smart: {}` as in the paper)."""

    r_drop: RDropConfig | None = None
    """Pass the rows twice, with two dropout masks, and add the divergence of the two outputs to the
    loss (`r_drop: {}`). A step takes the time of two."""

    distill: DistillConfig | None = None
    """Learn the scores of finished runs in addition to the labels."""

    head_lr: float | None = Field(None, gt=0)
    """Learning rate of this head; default `training.head_lr`."""

    adapter_lr: float | None = Field(None, gt=0)
    """Learning rate of this adapter; default `training.adapter_lr`."""

    max_rows: int | None = Field(None, ge=1)
    """Train on a fixed random subset of this many rows. null: all rows."""

    max_dev_rows: int | None = Field(None, ge=1)
    """Score a fixed random sample of this many rows of dev, of test and of the holdout. null: all
    rows."""

    metric: str | None = None
    """Metric of selection, early stopping and overall score: one of the [head's](#head); default:
    the first of these."""

    early_stopping: EarlyStoppingConfig = Field(default_factory=EarlyStoppingConfig)
    """When the task stops early."""

    course_file: CourseFileConfig | None = None
    """Also write the predictions of dev and test as a course wants them."""

    glue_file: Annotated[str, registered("glue_file")] | None = None
    """Also write the test predictions in the format of the GLUE server, to
    `predictions/glue/NAME.tsv`: one of $glue_file."""

    @property
    def only_scored(self) -> bool:
        """True if the task has no training rows: the head of another task is scored on its rows."""
        if self.evaluate_only:
            return True
        data = self.data
        sources = (data.train, data.same_rows_as, data.texts_of)
        return self.share_head is not None and sources == (None, None, None)

    @property
    def gives_vectors(self) -> bool:
        """True if the task has a vector for each text; False if its head reads tokens."""
        return self.pooling.name != "tokens"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        form = input_type(self.input)
        for key in (*TEXT_KEYS[1:], "choices"):
            if key in form.may_have:
                continue
            needed = key in form.columns
            if needed != (getattr(self.data, key) is not None):
                wants = f"`data.{key}`" if needed else f"no `data.{key}`"
                raise mistake("input", f"input {self.input} needs {wants}")
        if self.evaluate_only:
            if self.share_head is None and self.share_pooling is None:
                message = "name the task whose vectors are scored: `share_head` or `share_pooling`"
                raise mistake("evaluate_only", message)
            if self.data.dev is None:
                raise mistake(
                    "data.dev", "the task is only evaluated (`evaluate_only`): name its rows"
                )
            for key in ("train", "same_rows_as", "texts_of"):
                if getattr(self.data, key) is not None:
                    raise mistake(f"data.{key}", "the task is only evaluated: leave this out")
        elif self.only_scored and not self.data.scored:
            raise mistake("data", "the task has no rows at all: name `train`, `dev` or `test`")
        return self
