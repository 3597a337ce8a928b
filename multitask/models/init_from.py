"""Start from the weights of a finished run (intermediate training; Phang et al. 2018).

Only safetensors are read. The run's encoder must be this config's: the same architecture, the same
vocabulary.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from multitask.config import Config, load_run_config
from multitask.config.registry import resolve
from multitask.config.run_directory import best_steps, selected_steps, weights_file
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import load_tokenizer
from multitask.models.weights import below, read_tensors
from multitask.utils.errors import suggest

# what `take` moves over, beside the encoder
PARTS = {
    "encoder": (),
    "pooling": ("pooler", "projection"),
    "head": ("pooler", "projection", "head"),
}
# what encoders of equal shapes may differ in
BESIDE_SHAPES = (
    "model_type",
    "num_attention_heads",
    "hidden_act",
    "activation",  # DistilBERT's name of it
    "layer_norm_eps",
)
LEAVE_OUT = "; `take: pooling` leaves the head out"


@dataclass
class Start:
    """Weights of a finished run; ``described`` is what report.json says of them.

    ``owners`` are the tasks that own the pooler, projection, head and adapter of its task,
    ``label_type`` what that head gives, ``classes`` the names of its classes in the order of their
    ids, if it has any.
    """

    described: dict[str, Any]
    owners: Mapping[str, str]
    label_type: str
    classes: list[str]
    tensors: Mapping[str, Tensor]


def read_start(config: Config) -> Start | None:
    """The weights that ``init_from`` names; None without it.

    Raises UserError: no such run, one that is not finished or has no weights, or a task that it
    does not have.
    """
    wanted = config.init_from
    if wanted is None:
        return None
    directory = Path(wanted.run)
    with config.errors_at(("init_from",)):
        source = load_run_config(directory)
    if not (directory / "report.json").is_file():
        message = f"{directory} is not finished: train it to its end with --resume first"
        raise config.error(("init_from",), message)
    tasks = source.selecting_tasks()
    task = wanted.task or next(iter(tasks))
    if task not in tasks:
        message = f"{directory} has no task {task!r}{suggest(task, list(tasks))}"
        raise config.error(("init_from", "task"), message)
    step = selected_steps(best_steps(directory), tasks, source.training.select)[task]
    head = source.tasks[task].share_head or task
    pooling = source.tasks[head].share_pooling or head
    owners = {"pooler": pooling, "projection": pooling, "head": head, "adapter": pooling}
    described = {
        "run": str(directory),
        "task": head,
        "step": step,
        "take": wanted.take,
        "seed": source.seed,
        "encoder": source.encoder.name,
    }
    with config.errors_at(("init_from",)):
        tensors = read_tensors(weights_file(directory, step))
    label_type = resolve("head", source.tasks[head].head.name).label_type
    return Start(described, owners, label_type, _classes(source, head), tensors)


def start_encoder(config: Config, start: Start, encoder: nn.Module, tokenizer: Any) -> None:
    """Give the encoder the run's weights. Raises UserError where it is another one."""
    from transformers import AutoConfig

    run, name = start.described["run"], start.described["encoder"]
    other = (
        f"{run} was trained with the encoder {name!r}, this config names {config.encoder.name!r}: "
    )
    source = AutoConfig.from_pretrained(Path(run) / "encoder", trust_remote_code=False)
    for key in BESIDE_SHAPES:
        there, here = getattr(source, key, None), getattr(encoder.config, key, None)
        if there != here:
            raise config.error(("init_from",), f"{other}{key} is {there} there, {here} here")
    tensors = below(start.tensors, "encoder.")
    theirs, ours = _implementation(tensors), _implementation(encoder.state_dict())
    if theirs != ours:
        message = f"{run} was trained with `encoder.implementation: {theirs}`, not {ours}"
        raise config.error(("init_from",), message + ": set the same here")
    problem = _load(encoder, tensors)
    if problem is not None:
        raise config.error(("init_from",), other + problem)
    vocabulary = load_tokenizer(str(Path(run) / "encoder")).get_vocab()
    if vocabulary != tokenizer.get_vocab():
        raise config.error(("init_from",), other + "their vocabularies differ")


def start_tasks(config: Config, start: Start, model: MultiTaskModel) -> None:
    """Give every task the parts above the encoder that ``take`` names, and the adapter.

    Raises UserError where they do not fit, such as a head of three classes for two, or of the
    same classes in another order.
    """
    wanted = start.described
    if wanted["take"] == "encoder":
        return
    for name, module in model.tasks.items():
        children = dict(module.named_children())  # of a task with another's pooling: its head
        own: dict[str, nn.Module] = {
            f"tasks.{start.owners[part]}.{part}.": children[part]
            for part in PARTS[wanted["take"]]
            if part in children
        }
        if model.adapter(name) is not None:
            own[f"adapters.{start.owners['adapter']}."] = model.adapter(name)
        for prefix, part in own.items():
            problem = _load(part, below(start.tensors, prefix))
            if problem is not None:
                what = prefix.removesuffix(".").rpartition(".")[2]
                what = "adapter" if prefix.startswith("adapters.") else what
                message = f"the {what} of {wanted['run']} does not fit task {name}: {problem}"
                hint = LEAVE_OUT if what == "head" else ""
                raise config.error(("init_from",), message + hint)
        if "head" in PARTS[wanted["take"]]:
            there, here = start.label_type, model.head(name).label_type
            if there != here:
                message = f"the head of {wanted['run']} is for labels of the kind {there!r}, "
                message += f"task {name} has {here!r}"
                raise config.error(("init_from",), message + LEAVE_OUT)
            own_classes = _classes(config, name)
            order = [one for one in start.classes if one in own_classes]
            if order != [one for one in own_classes if one in order]:
                message = f"the head of {wanted['run']} knows the classes of task {name} as "
                message += f"{', '.join(start.classes)}, this config as {', '.join(own_classes)}"
                raise config.error(("init_from",), message + LEAVE_OUT)


def _classes(config: Config, task: str) -> list[str]:
    """The names of a task's classes in the order of their ids; none where it has no classes."""
    return list(dict.fromkeys((config.tasks[task].data.labels or {}).values()))


def _implementation(weights: Mapping[str, Tensor]) -> str:
    """Which ``encoder.implementation`` has weights of these names."""
    return "transformers" if all(name.startswith("model.") for name in weights) else "own"


def _load(module: nn.Module, tensors: dict[str, Tensor]) -> str | None:
    """Load the tensors, or say in a few words why they do not fit."""
    shapes = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in tensors.items()}
    for name in dict.fromkeys([*shapes, *found]):
        if name not in found:
            return f"{name} is missing there"
        if name not in shapes:
            return f"{name} is missing here"
        if found[name] != shapes[name]:
            return f"{name} is {list(found[name])} there, {list(shapes[name])} here"
    module.load_state_dict(tensors)
    return None
