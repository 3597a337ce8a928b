"""The JSON files of a run as models: ``report.json``, ``best.json``, ``baselines.json`` and so on.

A key with a default is one that some runs do not save, such as the heads of a probe grid. The
order of the fields is that of the keys in the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from multitask.store.files import read_json, without_nan
from multitask.utils.errors import UserError

JOINT = "joint"  # the name of the joint mean among the tasks' best steps
LAST = "last"  # `training.select`: no evaluation selects the weights

Number = int | float  # an int stays an int in the file
Score = Number | None  # None: undefined; NaN before it is saved

T = TypeVar("T")


class Saved(BaseModel):
    """An object of a JSON file. Keys of other versions are kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def content(self) -> dict[str, Any]:  # any JSON object, also with keys of other versions
        """Return the keys that were set, in the order of the fields."""
        return self.model_dump(exclude_unset=True)

    def defined(self) -> Self:
        """Return a copy with None in place of NaN, as it is read from the file."""
        return self.model_validate(without_nan(self.content()))


def read_saved(file: Path, kind: type[T], advice: str = "") -> T:
    """Read a JSON file of a run as a model, or as a dict of one kind of values.

    Raises UserError with ``advice`` for a damaged file, and OSError if it cannot be read.
    """
    try:
        return TypeAdapter(kind).validate_python(read_json(file), strict=True)
    except ValueError as error:
        what = _first_problem(error) if isinstance(error, ValidationError) else str(error)
        raise UserError(f"{file}: damaged: {what}" + (advice and f"; {advice}")) from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"it has no {key}"
    if problem["type"] in ("model_type", "dict_type"):
        return f"{key}: expected an object" if key else "expected an object"
    return ": ".join(filter(None, [key, problem["msg"].removeprefix("Value error, ")]))


class Steps(Saved):
    """The planned steps of a training run, and those that it took."""

    planned: int
    done: int


class Agreement(Saved):
    """The agreement of two tasks' gradients: the mean cosine, and the share below 0."""

    measured: int
    mean: Number
    below_0: Number


class StartedFrom(Saved):
    """The finished run whose weights a run started from."""

    run: str
    task: str
    step: int
    take: str
    seed: int
    encoder: str = ""


class EncoderFacts(Saved):
    name: str = ""
    parameters: int = 0
    seen_corpora: list[str] = []
    from_scratch: bool = False


class Overall(Saved):
    """The mean of the tasks' metrics, and the score of the CS224N course."""

    mean: Score = None
    cs224n: Score = None


class Baselines(Saved):
    """The scores of the trivial guess and of a head on the frozen encoder, by metric."""

    trivial: Mapping[str, Score]
    frozen: Mapping[str, Score] | None

    def scores(self, metric: str) -> dict[str, Score]:
        """Return the score of each baseline by its name in a report; None if not measured."""
        frozen = self.frozen or {}
        return {"frozen encoder": frozen.get(metric), "trivial": self.trivial.get(metric)}


class SplitFacts(Saved):
    """Counts of the rows of one split."""

    file: str | None = None
    rows: int
    unlabelled_dropped: int = 0
    empty_texts: int = 0
    duplicates: int = 0
    label_counts: dict[str, int] = {}
    truncated_share: Number = 0.0
    cut: int | None = None
    without_piece: int | None = None
    windows: int | None = None
    mean_tokens: Score = None
    in_train: int | None = None
    in_other_train: int | None = None
    other_train: list[str] = []


class Turns(Saved):
    trained: int = 0
    skipped: int = 0


class TaskReport(Saved):
    """A task's entry: what it is, its scores on dev and how it was trained."""

    label_type: str
    classes: list[str] | None = None
    label_range: list[Number] | None = None
    metric: str
    evaluate_only: bool = False
    input: str = ""
    pooling: str = ""
    head: str = ""
    # any metric's name -> score, `rows` and `loss`; `confusion` is a matrix: no fixed keys
    dev: dict[str, Any]
    dev_intervals: dict[str, list[Score]] = {}
    unseen: dict[str, Score] | None = None
    baselines: Baselines = Baselines(trivial={}, frozen=None)
    flags: list[str] = []
    data: dict[str, SplitFacts] = {}
    selected_step: int | None = None
    turns: Turns = Turns()
    stopped_at_step: int | None = None

    @property
    def score(self) -> float | None:
        """The task's metric on dev; None if undefined."""
        value: float | None = self.dev[self.metric]
        return value

    def reported(self, metrics: Sequence[str]) -> list[str]:
        """Return those of a task type's metrics that the report has."""
        return [metric for metric in metrics if metric in self.dev]

    def by(self, metric: str) -> "TaskReport":
        """Return a copy whose `metric` is another metric of the task."""
        return self.model_copy(update={"metric": metric})

    def interval(self, metric: str) -> tuple[Score, Score]:
        """Return the bounds of the 95 % interval of a metric on dev; None if undefined."""
        low, high = self.dev_intervals.get(metric, (None, None))
        return low, high


class Gpu(Saved):
    name: str
    cuda: str
    peak_memory_gib: Number


class RunReport(Saved):
    format: int = 1
    command: str = ""
    seed: int = Field(ge=0)
    versions: dict[str, str] = {}
    device: str = ""
    gpu: Gpu | None = None  # of the first process
    precision: str = ""
    kernels: str = "torch"
    processes: int | None = None
    threads: int | None = None
    trial: bool = False  # few rows and epochs (`train --try`)
    probe: bool = False  # the heads were trained alone, on the frozen encoder
    git_revision: str | None = None
    wall_time_s: Number = 0.0
    train_sentences_per_s: Number = 0.0
    epoch_seconds: Score = None
    dev_seconds: dict[str, Number] = {}
    steps: Steps = Steps(planned=0, done=0)
    trained_parameters: int | None = None
    select: str = "joint"
    conflict: dict[str, Agreement] | None = None
    selection_split: str
    init_from: StartedFrom | None = None
    encoder: EncoderFacts = EncoderFacts()
    overall: Overall = Overall()
    tasks: dict[str, TaskReport]
    warnings: list[str] = []

    @property
    def dev_selected(self) -> bool:
        """True if scores on dev chose the weights, or the step at which a task stopped."""
        stopped = any(task.stopped_at_step is not None for task in self.tasks.values())
        return self.selection_split == "dev" and (self.select != LAST or stopped)

    def with_tasks(self, tasks: dict[str, TaskReport]) -> "RunReport":
        """Return the report with other tasks."""
        return self.model_copy(update={"tasks": tasks})


def selected_steps(
    best: Mapping[str, int], tasks: Mapping[str, str], select: str
) -> dict[str, int]:
    """Return for each task the step whose weights it uses, as ``training.select`` says.

    ``tasks`` maps each task to the task whose evaluations select its weights: itself, if it trains.
    """
    chosen = JOINT if select == LAST else select  # with `last` all have the same step
    return {
        task: best[selecting if chosen == "per_task" else chosen]
        for task, selecting in tasks.items()
    }
