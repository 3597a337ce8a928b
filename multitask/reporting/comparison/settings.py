"""The settings in which groups of runs differ, from their resolved configs."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from multitask.config.yaml_merge import CHOICES, REPLACED
from multitask.config.yaml_reader import dump_override
from multitask.reporting.comparison.groups import NOT_SETTINGS


def differing_settings(configs: Sequence[Mapping[str, object]]) -> list[dict[str, object]]:
    """Return, per config and by dotted key, the values that are not the same in all configs.

    A key that a config lacks is not in its entry. If only some configs have a mapping, such as a
    task, they have ``True`` for it, and its keys are listed where they differ among these. A method
    (pooling, head, ...) is one value: its name if it has no options.
    """
    differing: list[dict[str, object]] = [{} for _ in configs]
    settings = {
        i: {key: value for key, value in config.items() if key not in NOT_SETTINGS}
        for i, config in enumerate(configs)
    }
    _compare((), settings, differing)
    return differing


def _compare(
    path: tuple[str, ...], values: dict[int, Any], differing: list[dict[str, object]]
) -> None:
    """Note where ``values``, by position of the config, differ."""
    first, *others = values.values()
    if all(other == first for other in others):
        return
    one_value = path[-1:] and (path[-1] in CHOICES or path[-2:] in REPLACED)
    if one_value or not all(isinstance(value, dict) for value in values.values()):
        for i, value in values.items():
            differing[i][".".join(path)] = _plain(value)
        return
    for name in dict.fromkeys(name for value in values.values() for name in value):
        have = {i: value[name] for i, value in values.items() if name in value}
        below = (*path, name)
        mappings = all(isinstance(value, dict) for value in have.values())
        if len(have) < len(values):
            for i, value in have.items():
                differing[i][".".join(below)] = True if mappings else _plain(value)
        if len(have) == len(values) or mappings:
            _compare(below, have, differing)


def _plain(value: Any) -> Any:
    """Shorten a method without options to its name."""
    return value["name"] if isinstance(value, dict) and [*value] == ["name"] else value


def shown(value: Any) -> str:
    """Write a setting as one may type it after ``key=``; words stay as they are."""
    if isinstance(value, str):
        return value
    if isinstance(value, list | dict):
        return dump_override("", value).removeprefix("=")
    return json.dumps(value)
