"""The JSON files of a run as models: ``report.json``, ``best.json``, ``baselines.json`` and so on.

A key with a default is one that some runs do not save, such as the heads of a probe grid. The
order of the fields is that of the keys in the file.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field, RootModel, ValidationError, model_validator

from multitask.store.files import read_json, without_nan
from multitask.utils.errors import UserError

JOINT = "joint"  # the name of the joint mean among the tasks' best steps

Number = int | float  # an int stays an int in the file
Score = Number | None  # None: undefined; NaN before it is saved

Model = TypeVar("Model", bound=BaseModel)


class Saved(BaseModel):
    """An object of a JSON file. Keys of other versions are kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def content(self) -> dict[str, Any]:  # any JSON object, also with keys of other versions
        """Return the keys that were set, in the order of the fields."""
        return self.model_dump(exclude_unset=True)

    def defined(self) -> Self:
        """Return a copy with None in place of NaN, as it is read from the file."""
        return self.model_validate(without_nan(self.content()))


def read_saved(file: Path, model: type[Model], damage: str) -> Model:
    """Read a JSON file of a run.

    ``damage`` is the end of the message about a damaged file; it contains ``{}`` for what is wrong,
    with the key. Raises UserError for a damaged file, and OSError if it cannot be read.
    """
    try:
        return model.model_validate(read_json(file))
    except ValidationError as error:
        raise UserError(f"{file}{damage.format(_first_problem(error))}") from error
    except ValueError as error:
        raise UserError(f"{file}{damage.format(error)}") from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"it has no {key}"
    no_object = problem["type"] in ("model_type", "dict_type")
    message = "expected an object" if no_object else problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message


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

    def with_tasks(self, tasks: dict[str, TaskReport]) -> "RunReport":
        """Return the report with other tasks."""
        return self.model_copy(update={"tasks": tasks})


class BestSteps(RootModel[dict[str, int]]):
    """``best.json``: the best step of each task and of ``joint``."""

    model_config = ConfigDict(strict=True)

    @model_validator(mode="after")
    def _has_joint(self) -> "BestSteps":
        if JOINT not in self.root:
            raise ValueError(f"it has no {JOINT}")
        return self


class AllBaselines(RootModel[dict[str, Baselines]]):
    """``baselines.json``: the baselines of each task that has some."""

    model_config = ConfigDict(strict=True)


class TrackerIds(RootModel[dict[str, str]]):
    """``trackers/ids.json``: the id that each tracker knows the run by."""

    model_config = ConfigDict(strict=True)


class StartedWith(Saved):
    """Checksums of the config and of each task's data, and the kernels."""

    config: str | None = None
    data: dict[str, str] | None = None
    kernels: str | None = None


class Marker(Saved):
    """``run.json``, the first file that a run writes."""

    format: int = 1
    started_with: StartedWith = StartedWith()


def selected_steps(
    best: Mapping[str, int], tasks: Mapping[str, str], select: str
) -> dict[str, int]:
    """Return for each task the step whose weights it uses, as ``training.select`` says.

    ``tasks`` maps each task to the task whose evaluations select its weights: itself, if it trains.
    """
    return {
        task: best[selecting if select == "per_task" else select]
        for task, selecting in tasks.items()
    }
