"""The complete config of a run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, PrivateAttr, model_validator

from multitask.config.base import EMBEDDED_DIR, AbsolutePath, PathText, Strict, checked
from multitask.config.packaged import PACKAGED
from multitask.config.task_config import TaskConfig
from multitask.config.training_config import StageConfig, TrainingConfig
from multitask.config.yaml_merge import Tree
from multitask.config.yaml_reader import KeyPath, dump_yaml
from multitask.utils.errors import UserError
from multitask.utils.limits import CONFIG_BYTES, MOST_DROPOUT, STAGES, TASK_NAME, TASKS
from multitask.utils.names import EMBEDDED, PACKAGED_ENCODER


class BitLinearConfig(Strict):
    """BitNet b1.58 (Ma et al. 2024): layer weights are -1, 0 or 1, and inputs have 8 bits."""

    layers: Literal["all", "inner"] = "all"
    """`all` layers, or `inner`: all except the first and the last."""

    gradual: float = Field(0.0, ge=0, le=1)
    """Share of the planned steps during which training moves gradually from plain to quantised
    values. 0: quantised from the first step. Evaluations are always quantised."""


class EncoderConfig(Strict):
    """The shared encoder."""

    name: PathText = PACKAGED_ENCODER
    """Hub id or local directory of a model of a type in docs/encoders.md, or one whose weights pip
    installs: `packaged-minilm` (all-MiniLM-L6-v2, 22.6M parameters), `packaged-mpnet`
    (all-mpnet-base-v2, 109M: `requirements-weights-base.txt`)."""

    revision: str | None = None
    """Hub revision: a branch, tag or commit."""

    implementation: Literal["own", "transformers"] = "own"
    """`own`: the padding-free encoder of this project, for BERT, RoBERTa and MPNet architectures.
    Other architectures run in `transformers`, and a line says so."""

    freeze: bool | list[str] = False
    """`true`: train only heads and adapters. Or a list of parts that are not trained, such as
    `[embeddings, layer_1, layer_2]` (`layer_1` is the lowest)."""

    reinit_layers: int = Field(0, ge=0)
    """Initialise this many top layers at random (our encoder only)."""

    from_scratch: bool = False
    """Initialise the complete encoder at random: only the architecture and the tokenizer of `name`
    are used (our encoder only)."""

    bitlinear: BitLinearConfig | None = None
    """Quantise the linear layers of the encoder (`bitlinear: {}` does it as in the paper; our
    encoder only)."""

    gradient_checkpointing: bool = False
    """Compute each layer again in the backward pass: less memory, for one more forward pass."""

    kernels: Literal["auto", "torch", "compiled"] = "auto"
    """`compiled`: on a CPU, attention and dropout + sum + LayerNorm in C++, built once, on first
    use. `auto`: `compiled` on a Linux CPU with a C++ compiler and `ninja`,
    else `torch`; the run's `config.yaml` has the choice. If the kernels cannot be built, a line
    says so and torch is used (our encoder only)."""

    dropout: float | None = Field(None, ge=0, le=MOST_DROPOUT)
    """Hidden dropout inside the encoder; default: that of the model."""

    seen_corpora: dict[str, str] | None = None
    """Corpora that the pretrained weights have seen, and how. Tasks with such a `data.corpus` get a
    warning. Default: the known corpora of the packaged encoder; none for others."""


class InitFromConfig(Strict):
    """A finished run whose weights this run starts from: its directory, or these keys."""

    run: AbsolutePath
    """Run directory with weights (`ablate` needs `--keep-weights`)."""

    task: str | None = None
    """The task of that run whose selected weights are used; default: the first."""

    take: Literal["encoder", "pooling", "head"] = "encoder"
    """`pooling`: also the pooling, projection and adapter of that task, for every task of this run.
    `head`: also its head, which needs the same classes."""

    @model_validator(mode="before")
    @classmethod
    def _from_run(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value


def _task_name(name: str) -> None:
    if not name.isidentifier() or len(name.encode()) > TASK_NAME:
        message = f"a task's name must be letters, digits and '_', at most {TASK_NAME} bytes"
        raise UserError(f"{message}: file names have it")


class Config(Strict):
    """The keys of a run."""

    data_dir: AbsolutePath = EMBEDDED
    """Directory that the data files are relative to; `embedded` is the small synthetic sample
    inside the project."""

    output_dir: PathText = ""
    """Run directory; default `runs/NAME-OF-THE-YAML`, with `-trial` for a trial."""

    trial: bool = False
    """The run is a trial, as `train --try` makes it: it is evaluated half-way and at the end, and
    its report is not compared with those of runs."""

    seed: int = Field(11711, ge=0, lt=2**63)
    """Seed of initialisation, dropout and batches."""

    device: str = "auto"
    """`auto` (a GPU if there is one), `cpu`, `cuda`, `cuda:1`, `mps`."""

    encoder: EncoderConfig = Field(default_factory=EncoderConfig)
    """The shared encoder."""

    init_from: InitFromConfig | None = None
    """Start from a finished run of the same encoder, trained on another task: its directory, or the
    keys below."""

    training: TrainingConfig = Field(default_factory=TrainingConfig)
    """The training loop."""

    stages: list[StageConfig] | None = Field(None, min_length=1, max_length=STAGES)
    """Parts of the training, one after another; default: one, as in `training`."""

    tasks: dict[Annotated[str, checked(_task_name)], TaskConfig] = Field(
        min_length=1, max_length=TASKS
    )
    """The tasks by name. `defaults:` has the keys that all tasks share. Names that differ only in
    case or Unicode form are refused, because file names contain them."""

    _tree: Tree = PrivateAttr(default_factory=Tree)

    def error(self, path: KeyPath, message: str | UserError) -> UserError:
        """Return a UserError with the file and line of ``path``, or of the option it is about."""
        if isinstance(message, UserError):
            path = (*path, *message.key)
        return self._tree.error(path, str(message))

    def where(self, path: KeyPath) -> str:
        """Return the file and line of ``path``."""
        return self._tree.where(path)

    @contextmanager
    def errors_at(self, path: KeyPath) -> Iterator[None]:
        """Add the file and line of ``path`` to a UserError that the block raises."""
        try:
            yield
        except UserError as error:
            raise self.error(path, error) from error

    def trained_tasks(self) -> list[str]:
        """Return the tasks that have training rows and are trained in at least one stage."""
        named = [stage.tasks or list(self.tasks) for stage in self.stages or []]
        staged = {task for tasks in named for task in tasks} if named else set(self.tasks)
        return [
            name for name, task in self.tasks.items() if name in staged and not task.only_scored
        ]

    def is_default(self, path: KeyPath) -> bool:
        """Return True if a task does not set ``path`` itself (it is in ``defaults``, or unset)."""
        return self._tree.is_default(path)

    def is_overridden(self, path: KeyPath) -> bool:
        """Return True if the command line sets ``path``, in the task itself or in ``defaults``."""
        return self._tree.is_overridden(path)

    def selecting_tasks(self) -> dict[str, str]:
        """Map each task to the task whose evaluations select its weights: itself, if it trains."""
        return {
            name: (task.share_head or task.share_pooling or name) if task.only_scored else name
            for name, task in self.tasks.items()
        }

    def with_labels(self, labels: Mapping[str, dict[str, str]]) -> "Config":
        """Return a copy in which every task without ``data.labels`` has the labels of its data.

        Args:
            labels: per task, the class of each label value. Tasks without classes may be missing.

        Raises UserError if the saved config would be too large to be read again.
        """
        tasks = dict(self.tasks)
        for name, task in self.tasks.items():
            if task.data.labels is None and labels.get(name):
                data = task.data.model_copy(update={"labels": labels[name]})
                tasks[name] = task.model_copy(update={"data": data})
        labelled = self.model_copy(update={"tasks": tasks})
        if (size := len(labelled.dump().encode())) > CONFIG_BYTES:
            message = f"the config with the labels of the data has {size:,} bytes, at most"
            raise UserError(f"{message} {CONFIG_BYTES:,} are possible: shorten the class names")
        return labelled

    def with_kernels(self, kernels: str) -> "Config":
        """Return a copy in which these kernels replace `auto`, so that a resumed run has them."""
        if self.encoder.kernels != "auto":
            return self
        encoder = self.encoder.model_copy(update={"kernels": kernels})
        return self.model_copy(update={"encoder": encoder})

    def data_path(self, name: str) -> Path:
        """Return the path of a data file; a relative ``name`` is in ``data_dir``."""
        root = EMBEDDED_DIR if self.data_dir == EMBEDDED else Path(self.data_dir)
        return root / name

    def dump(self) -> str:
        """Return the resolved config as YAML: all keys, without ``extends`` and ``defaults``."""
        return dump_yaml(self.resolved())

    def resolved(self) -> dict[str, object]:
        """Return the resolved config as plain values."""
        return self.model_dump(mode="json", by_alias=True)


def seen_corpora(config: Config) -> dict[str, str]:
    """Corpora that the pretrained weights have seen, and how."""
    if config.encoder.seen_corpora is not None:
        return config.encoder.seen_corpora
    if config.encoder.from_scratch:
        return {}
    packaged = PACKAGED.get(config.encoder.name)
    return dict(packaged.corpora) if packaged else {}
