"""Start from the weights of a finished run (intermediate training; Phang et al. 2018).

Only safetensors are read. The run's encoder must be this config's: the same architecture, the same
vocabulary.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from multitask.config import Config
from multitask.config.registry import head_type
from multitask.models.encoders.architecture import load_architecture
from multitask.models.encoders.hf_layout import COMPARED
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import load_tokenizer
from multitask.models.weights import below, intact_weights, read_checked
from multitask.store.files import check_checksums
from multitask.store.run_directory import RunDirectory, load_run_config
from multitask.store.saved import StartedFrom, selected_steps
from multitask.tasks.base import NoLabels, TaskType
from multitask.tasks.label_reader import LabelReader
from multitask.utils.errors import UserError, suggest

# what `take` copies in addition to the encoder
PARTS = {
    "encoder": (),
    "pooling": ("pooler", "projection"),
    "head": ("pooler", "projection", "head"),
}
LEAVE_OUT = "; `take: pooling` leaves the head out"


@dataclass
class Start:
    """The finished run whose weights a training run starts from.

    Attributes:
        described: what report.json says about the start.
        owners: the tasks that own the pooler, projection, head and adapter.
        task_type: the task type of the head.
        classes: the names of the classes in the order of their ids; empty without classes.
        file: the weights.
        config: the run's config.
    """

    described: StartedFrom
    owners: Mapping[str, str]
    task_type: TaskType
    classes: list[str]
    file: Path
    config: Config

    @cached_property
    def tensors(self) -> Mapping[str, Tensor]:
        """The weights by name. Raises UserError if the file is missing or damaged."""
        return read_checked(self.file)


def find_start(config: Config) -> Start | None:
    """Find the run that ``init_from`` names; None without it.

    Raises UserError for a run that does not exist or is not finished, and for a task that it does
    not have.
    """
    wanted = config.init_from
    if wanted is None:
        return None
    directory = Path(wanted.run)
    run = RunDirectory(directory)
    with config.errors_at(("init_from",)):
        source = load_run_config(directory)
    if not run.finished:
        message = f"{directory} is not finished: train it to its end with --resume first"
        raise config.error(("init_from",), message)
    tasks = source.selecting_tasks()
    task = wanted.task or next(iter(tasks))
    if task not in tasks:
        message = f"{directory} has no task {task!r}{suggest(task, list(tasks))}"
        raise config.error(("init_from", "task"), message)
    step = selected_steps(run.best_steps(), tasks, source.training.select)[task]
    head = source.tasks[task].share_head or task
    pooling = source.tasks[head].share_pooling or head
    owners = {"pooler": pooling, "projection": pooling, "head": head, "adapter": pooling}
    described = StartedFrom(
        run=str(directory),
        task=head,
        step=step,
        take=wanted.take,
        seed=source.seed,
        encoder=source.encoder.name,
    )
    kind = head_type(source.tasks[head].head.name)
    classes = list(dict.fromkeys((source.tasks[head].data.labels or {}).values()))
    file = intact_weights(run, step)
    return Start(described, owners, kind, classes, file=file, config=source)


def start_warnings(config: Config, start: Start | None) -> list[str]:
    """Warn of tasks whose held-out rows the run has trained on, as it held out fewer rows of a file
    of this name."""
    if start is None:
        return []
    theirs, ours = start.config.training.holdout, config.training.holdout
    trained_on = set(_labelled_files(start.config).values())
    return [
        f"{task}: {start.described.run} has trained on rows that are held out here, as its "
        f"training.holdout is {theirs:g}: set {ours:g} there too, or choose by other rows"
        for task, file in _labelled_files(config).items()
        if theirs < ours and file in trained_on
    ]


def _labelled_files(config: Config) -> dict[str, tuple[str | None, str]]:
    """Return the training file of each task that learns labels: its data set, if any, and name."""
    tasks = {name: config.tasks[name] for name in config.trained_tasks()}
    return {
        name: (task.data.path, task.data.train)
        for name, task in tasks.items()
        if task.data.train and not isinstance(head_type(task.head.name), NoLabels)
    }


def start_encoder(config: Config, start: Start, encoder: nn.Module, tokenizer: Any) -> None:
    """Load the run's weights into the encoder. Raises UserError if it is another encoder."""
    run, name = start.described.run, start.described.encoder
    directory = RunDirectory(Path(run)).encoder
    with config.errors_at(("init_from",)):
        tensors = below(start.tensors, "encoder.")
    other = (
        f"{run} was trained with the encoder {name!r}, this config names {config.encoder.name!r}: "
    )
    check_checksums(directory)
    source = load_architecture(str(directory))
    for key in COMPARED:
        saved, current = getattr(source, key, None), getattr(encoder.config, key, None)
        if saved != current:
            raise config.error(("init_from",), f"{other}{key} is {saved} there, {current} here")
    weights = (tensors, encoder.state_dict())
    saved, current = (all(name.startswith("model.") for name in names) for names in weights)
    if saved != current:
        message = f"{run} was trained with another `encoder.implementation`: set the same here"
        raise config.error(("init_from",), message)
    problem = _load(encoder, tensors)
    if load_tokenizer(str(directory)).get_vocab() != tokenizer.get_vocab():
        problem = problem or "their vocabularies differ"
    if problem is not None:
        raise config.error(("init_from",), other + problem)


def start_tasks(
    config: Config, start: Start, model: MultiTaskModel, readers: Mapping[str, LabelReader]
) -> None:
    """Load the parts above the encoder that ``take`` names, and the adapter, into every task.

    Raises UserError for parts that do not fit, such as a head with three classes for two, or one
    with the classes in another order.
    """
    run, take = start.described.run, start.described.take
    if take == "encoder":
        return
    with config.errors_at(("init_from",)):
        for name, module in model.tasks.items():
            children = dict(module.named_children())  # only a head with `share_pooling`
            parts = {part: children[part] for part in PARTS[take] if part in children}
            if model.adapter(name) is not None:
                parts["adapter"] = model.adapter(name)
            for part, target in parts.items():
                owner = start.owners[part]
                prefix = f"adapters.{owner}." if part == "adapter" else f"tasks.{owner}.{part}."
                stay = target.from_config if part == "head" else ()
                problem = _load(target, below(start.tensors, prefix), stay)
                if problem is not None:
                    message = f"the {part} of {run} does not fit task {name}: {problem}"
                    raise UserError(message + (LEAVE_OUT if part == "head" else ""))
            if "head" in parts:
                _check_labels(start, name, readers[name])


def _check_labels(start: Start, task: str, reader: LabelReader) -> None:
    """Raise UserError for a head that was trained on labels of another type or order."""
    run = start.described.run
    if start.task_type is not reader.task_type:
        message = f"the head of {run} is for labels of the kind {start.task_type.name!r}, "
        raise UserError(f"{message}task {task} has {reader.task_type.name!r}{LEAVE_OUT}")
    order = [name for name in start.classes if name in reader.names]
    if order != [name for name in reader.names if name in order]:
        message = f"the head of {run} knows the classes of task {task} as "
        message += f"{', '.join(start.classes)}, this config as {', '.join(reader.names)}"
        raise UserError(message + LEAVE_OUT)


def _load(module: nn.Module, tensors: dict[str, Tensor], stay: Collection[str] = ()) -> str | None:
    """Load the tensors, or return a short message that says why they do not fit.

    ``stay`` names buffers that stay as they are, such as class weights (``Head.from_config``).
    """
    current = {name: tensor for name, tensor in module.state_dict().items() if name not in stay}
    tensors = {name: tensor for name, tensor in tensors.items() if name not in stay}
    shapes = {name: tuple(tensor.shape) for name, tensor in current.items()}
    saved = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in dict.fromkeys([*shapes, *saved]):
        if name not in saved:
            return f"{name} is missing there"
        if name not in shapes:
            return f"{name} is missing here"
        if saved[name] != shapes[name]:
            return f"{name} is {list(saved[name])} there, {list(shapes[name])} here"
    module.load_state_dict(tensors, strict=False)
    return None
