"""The complete config of a run."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from pydantic import Field, PrivateAttr

from multitask.config.base import EMBEDDED_DIR, Strict
from multitask.config.encoder_config import EncoderConfig, InitFromConfig
from multitask.config.packaged import PACKAGED
from multitask.config.task_config import TaskConfig
from multitask.config.training_config import StageConfig, TrainingConfig
from multitask.config.yaml_merge import Tree
from multitask.config.yaml_reader import KeyPath, dump_yaml, parse
from multitask.utils.errors import UserError
from multitask.utils.limits import CONFIG_BYTES, STAGES, TASKS
from multitask.utils.names import EMBEDDED


class Config(Strict):
    """The keys of a run."""

    data_dir: str = EMBEDDED
    """Directory that the data files are relative to; `embedded` is the small synthetic sample
    inside the project."""

    output_dir: str = ""
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

    tasks: dict[str, TaskConfig] = Field(min_length=1, max_length=TASKS)
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
        text, title = labelled.dump(), "the config with the labels of the data"
        if (size := len(text.encode())) > CONFIG_BYTES:
            message = f"{size:,} bytes, at most {CONFIG_BYTES:,} are possible"
            raise UserError(f"{title}: {message}: shorten the names of the classes")
        parse(text, title)  # raises for too many values
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
        return self.model_dump(mode="json")


def seen_corpora(config: Config) -> dict[str, str]:
    """Corpora that the pretrained weights have seen, and how."""
    if config.encoder.seen_corpora is not None:
        return config.encoder.seen_corpora
    if config.encoder.from_scratch:
        return {}
    packaged = PACKAGED.get(config.encoder.name)
    return dict(packaged.corpora) if packaged else {}
