"""Sort finished runs into groups; the runs of a group differ only in their seed."""

from dataclasses import dataclass, field
from pathlib import Path
from re import sub
from typing import Any

from multitask.config import load_config
from multitask.config.prepare_run_directory import check_distinct
from multitask.config.run_directory import RunDirectory, open_run
from multitask.config.yaml_merge import load_tree
from multitask.utils.errors import UserError

# keys in which the runs of a group may differ; data may have moved
NOT_SETTINGS = ("seed", "output_dir", "data_dir")


@dataclass
class Group:
    """Runs of one setting.

    Attributes:
        name: its name in tables.
        runs: one run directory per seed.
        point: the label on each axis of a grid.
    """

    name: str
    runs: list[Path]
    point: dict[str, str] = field(default_factory=dict)


def group_runs(run_dirs: list[Path]) -> list[Group]:
    """Group runs whose configs are equal apart from the seed.

    Groups keep the order of their first runs; the runs of a group are sorted by seed. Probes and
    trained runs of one config are two groups. A group is named after its first directory, without a
    suffix for the seed; names are unique.

    Raises:
        UserError: no run there, a run given twice, or two runs of one config and seed.
    """
    groups: list[tuple[dict[str, object], dict[int, Path]]] = []
    check_distinct(run_dirs)
    for run in run_dirs:
        config = run_config(run)
        seed = config["seed"]
        settings = {key: value for key, value in config.items() if key not in NOT_SETTINGS}
        files = RunDirectory(run)
        settings["probe"] = files.finished and files.load_report().probe
        runs = next((runs for other, runs in groups if other == settings), None)
        if runs is None:
            groups.append((settings, {seed: run}))
        elif seed in runs:
            raise UserError(
                f"{runs[seed]} and {run} have the same config and seed {seed}: that is one "
                "measurement, not two; leave one out"
            )
        else:
            runs[seed] = run
    names = _names([next(iter(runs.items())) for _, runs in groups])
    return [
        Group(name, [runs[seed] for seed in sorted(runs)])
        for name, (_, runs) in zip(names, groups, strict=True)
    ]


def run_config(run: Path) -> dict[str, Any]:
    """Return the resolved config of a run as plain values, of any version.

    Raises UserError if it has none.
    """
    directory = open_run(run)
    file = directory.config
    if not directory.holds_run:
        raise UserError(directory.absent)
    config = load_tree(file).value
    if not isinstance(config.get("seed"), int):
        raise UserError(f"{file}: the key 'seed' is missing: not the config that a run saves")
    directory.warn_of_change(file)
    try:
        return load_config(file).resolved()  # a key that is newer than the run has its default
    except UserError:
        return dict(config)


def _names(firsts: list[tuple[int, Path]]) -> list[str]:
    """Find a short name per (seed, directory), and a longer one where short names are equal."""
    choices = [_choices(seed, run) for seed, run in firsts]
    while True:
        names = [choice[0] for choice in choices]
        again = [choice for choice in choices if names.count(choice[0]) > 1]
        if not again:
            return names
        for choice in again:
            if len(choice) > 1:
                del choice[0]


def _choices(seed: int, run: Path) -> list[str]:
    """List names of a run from short to long; the last one, the complete path, is unique."""
    *parents, last = run.resolve().parts
    short = sub(rf"(^|[-_.])(seed[-_=]?\d+|{seed})$", "", last, count=1)
    if not short:  # SETTING/seed-1
        *parents, short = parents
        last = f"{short}/{last}"
    choices = [short, last]
    for i in range(1, len(parents)):
        above = "/".join(parents[-i:])
        choices += [f"{above}/{short}", f"{above}/{last}"]
    return [*choices, str(run.resolve())]
