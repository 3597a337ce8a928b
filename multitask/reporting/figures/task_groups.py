"""The groups of tasks in a figure, from a YAML file such as configs/hire/figure2.yaml.

groups:
  single sentences: [cola, sst2]
  inference: [mnli, rte]
"""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from pydantic import Field, ValidationError

from multitask.config import Strict, explain
from multitask.config.yaml_merge import load_extended
from multitask.utils.errors import UserError

OTHERS = "other tasks"


class TaskGroups(Strict):
    """The keys of the file.

    Attributes:
        groups: the tasks of each group; groups and tasks are in the order of the figure.
    """

    groups: dict[str, list[str]] = Field(min_length=1)


def load_groups(path: str | os.PathLike[str]) -> dict[str, list[str]]:
    """Read the tasks of each group from a file.

    Raises UserError: one line with file, line and key path.
    """
    tree = load_extended(Path(path))
    try:
        groups = TaskGroups.model_validate(tree.value).groups
    except ValidationError as error:
        raise explain(error, tree, TaskGroups) from error
    group_of: dict[str, str] = {}
    for group, tasks in groups.items():
        for place, task in enumerate(tasks):
            if task in group_of:
                message = f"{task} is already in {group_of[task]!r}: name it once"
                raise tree.error(("groups", group, place), message)
            group_of[task] = group
    return groups


def in_groups(
    tasks: Sequence[str], groups: Mapping[str, Sequence[str]]
) -> tuple[list[int], list[str]]:
    """Order tasks by group; tasks of one name keep their order, tasks without a group come last.

    Returns:
        The places of the tasks in the new order, and for each of them the name of its group.

    Raises:
        UserError: none of the tasks is in a group.
    """
    listed = [(task, group) for group, members in groups.items() for task in members]
    rank = {task: place for place, (task, _) in enumerate(listed)}
    if not set(tasks) & set(rank):
        names = ", ".join(dict.fromkeys(tasks))
        raise UserError(f"--groups: no group has a task of the runs ({names}): add them to one")
    order = sorted(range(len(tasks)), key=lambda place: rank.get(tasks[place], len(rank)))
    group_of = dict(listed)
    return order, [group_of.get(tasks[place], OTHERS) for place in order]
