"""Draw the model of a config as a Mermaid flowchart, which GitHub shows as a picture."""

from collections.abc import Iterator

from multitask.config.base import Choice
from multitask.config.config import Config
from multitask.config.describe_config import method_in_words, smart_in_words

# characters that end a label or format it, as entities of Mermaid; "#" begins one, so it is first
ENTITIES = {"#": "#35;", "&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;"}


def diagram(config: Config) -> str:
    """Return the flowchart: inputs, encoder with adapters, and each task's parts up to its loss.

    Nodes are numbered by task, so names occur in labels only. Dotted arrows are for evaluation.
    """
    numbers = {task: f"t{number}" for number, task in enumerate(config.tasks)}
    lines = ["flowchart LR", f"  subgraph encoder[{_label('encoder', config.encoder.name)}]"]
    lines.append(f"    layers[{_label('layers', 'shared by all tasks')}]")
    for task, entry in config.tasks.items():
        if entry.adapter and _owner(config, task) == task:
            shown = _label(f"adapter of {task}", method_in_words(entry.adapter))
            lines.append(f"    layers --- {numbers[task]}_adapter[{shown}]")
    lines.append("  end")
    for task in config.tasks:
        lines += (f"  {line}" for line in _task(config, task, numbers))
    return "\n".join(lines)


def _task(config: Config, task: str, numbers: dict[str, str]) -> Iterator[str]:
    """Yield the lines of a task: its input, the parts that are not another task's, its loss."""
    entry, node = config.tasks[task], numbers[task]
    owner = numbers[_owner(config, task)]
    yield f"{node}_input([{_label(task, f'input: {entry.input}')}]) --> layers"
    if entry.share_head is not None:
        yield f"{numbers[entry.share_head]}_head --> {_end(config, task, node)}"
        return
    if entry.share_pooling is None:
        source = f"{node}_adapter" if entry.adapter else "layers"
        yield f"{source} --> {_part(node, 'pooling', entry.pooling)}"
        if entry.projection is not None:
            yield f"{node}_pooling --> {_part(node, 'projection', entry.projection)}"
        if entry.eval_pooling is not None:
            yield f"{source} -.-> {_part(node, 'eval_pooling', entry.eval_pooling)}"
    head = _part(node, "head", entry.head)
    for arrow, part in _arrows(config, task):
        yield f"{owner}_{part} {arrow} {head}"
        head = f"{node}_head"
    yield f"{node}_head --> {_end(config, task, node)}"


def _arrows(config: Config, task: str) -> Iterator[tuple[str, str]]:
    """Yield the arrows into a task's head, each with the part that it comes from.

    A dotted one is for scores on vectors of another part than in training (see ``TaskModule``).
    """
    owner = config.tasks[_owner(config, task)]
    scored = None
    if owner.eval_pooling is not None:
        scored = "eval_pooling"
    elif owner.projection is not None and owner.head.options.get("mlp_only_train"):
        scored = "pooling"
    if scored is None or task in config.trained_tasks():
        yield "-->", "pooling" if owner.projection is None else "projection"
    if scored is not None:
        yield "-.->", scored


def _owner(config: Config, task: str) -> str:
    """Return the task whose adapter, pooling and projection a task uses."""
    entry = config.tasks[task]
    if entry.share_head is not None:
        return _owner(config, entry.share_head)
    return entry.share_pooling or task


def _part(node: str, key: str, choice: Choice) -> str:
    return f"{node}_{key}[{_label(key, method_in_words(choice))}]"


def _end(config: Config, task: str, node: str) -> str:
    """Return the last node of a task: its loss, or its scores if no stage trains it."""
    entry = config.tasks[task]
    if task not in config.trained_tasks():
        return f"{node}_scores([{_label(f'scores of {task}')}])"
    parts = [f"loss of {task}"]
    if entry.loss_weight != 1:
        parts.append(f"loss_weight {entry.loss_weight:g}")
    if entry.smart is not None:
        parts.append(f"SMART: {smart_in_words(entry.smart)}")
    return f"{node}_loss([{_label(*parts)}])"


def _label(*lines: str) -> str:
    """Return a label of several lines, in quotes."""
    return '"' + "<br/>".join("".join(ENTITIES.get(c, c) for c in line) for line in lines) + '"'
