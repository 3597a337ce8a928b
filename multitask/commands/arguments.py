"""Arguments that several commands have, and the checks of their values."""

import argparse
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.utils.errors import UserError
from multitask.utils.names import PACKAGED_ENCODER
from multitask.utils.paths import expand_home

if TYPE_CHECKING:
    from multitask.config import Config
    from multitask.sweep.engines.base import Settings

# the name of an option of sbatch; variables, as in `export=ALL,HOME=/tmp`, are not named so
OPTION = re.compile("[a-z][a-z0-9-]*")
# options of sbatch that need no value
FLAGS = frozenset(
    "contiguous exclusive get-user-env hold ignore-pbs no-kill no-requeue overcommit oversubscribe "
    "propagate quiet reboot requeue resv-ports spread-job stepmgr use-min-nodes verbose".split()
)
CHANGES = "values of the run to change, such as data_dir=DIR"


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add CONFIG and the values that replace some of its keys."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file, such as configs/demo.yaml")
    add_overrides(parser, "values that replace the file's")


def add_overrides(parser: argparse.ArgumentParser, text: str = CHANGES) -> None:
    """Add key=value ...; ``text`` is the help."""
    parser.add_argument("overrides", metavar="key=value", nargs="*", default=[], help=text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add RUN, a run directory."""
    parser.add_argument("run", metavar="RUN", type=expand_home, help="run directory")


def add_source(parser: argparse.ArgumentParser) -> None:
    """Add RUN, a run directory or an encoder."""
    text = f"run directory, or an encoder: a directory, a hub id or {PACKAGED_ENCODER}"
    parser.add_argument("run", metavar="RUN", help=text)


def add_runs(parser: argparse.ArgumentParser, why: str) -> None:
    """Add RUN, then more runs (``why`` is their use) and overrides in any order."""
    add_run(parser)
    text = f"more runs, {why}; {CHANGES}"
    parser.add_argument("more", metavar="RUN|key=value", nargs="*", default=[], help=text)


def runs_and_overrides(arguments: argparse.Namespace) -> tuple[list[Path], list[str]]:
    """Tell apart what ``add_runs`` collected."""
    from multitask.config.yaml_merge import is_override

    overrides = [word for word in arguments.more if is_override(word)]
    return [
        arguments.run,
        *(expand_home(w) for w in arguments.more if w not in overrides),
    ], overrides


def add_task(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --task; ``text`` is the help."""
    parser.add_argument("--task", metavar="T", help=text)


def add_pooling(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add --pooling; the help ends with ``more``."""
    text = f"a pooling without weights{more}"
    parser.add_argument("--pooling", metavar="P", help=text)


def add_output(parser: argparse.ArgumentParser, metavar: str, text: str) -> None:
    """Add --output; ``text`` is the help."""
    parser.add_argument("--output", metavar=metavar, type=expand_home, help=text)


def add_engine(parser: argparse.ArgumentParser) -> None:
    """Add where the runs of a sweep are trained, and how many at once."""
    from multitask.sweep.engines.base import ENGINES

    group = parser.add_argument_group("where the runs are trained (docs/ablations.md)")
    text = "this machine (local, the default), Ray or SLURM"
    group.add_argument("--engine", choices=tuple(ENGINES), default="local", help=text)
    text = "runs at once (default 1; a grid on SLURM: all)"
    group.add_argument("--jobs", metavar="N", type=int, help=text)
    text = "CPU cores per run (default: an equal share)"
    group.add_argument("--cpus-per-run", metavar="N", type=int, help=text)
    text = "GPUs per run; 0.5: two runs share one (Ray)"
    group.add_argument("--gpus-per-run", metavar="F", type=float, help=text)
    text = "a Ray cluster, such as auto (default: a new one on this machine)"
    group.add_argument("--address", metavar="A", help=text)
    text = "options of sbatch, such as partition=gpu,time=2:00:00; may be repeated"
    group.add_argument("--slurm", metavar="KEY[=VALUE],...", action="append", help=text)
    text = "lines of bash that SLURM's nodes run before each run (docs/clusters.md)"
    group.add_argument("--slurm-setup", metavar="FILE", type=expand_home, help=text)
    text = "submit the runs to SLURM, write the table so far and end"
    group.add_argument("--detach", action="store_true", help=text)


def engine_settings(arguments: argparse.Namespace, directory: Path) -> "Settings":
    """Return what ``add_engine`` read, for a sweep in a directory.

    Raises UserError for a wrong number, or an option of another engine.
    """
    from multitask.sweep.engines.base import Settings

    others = {"address": "ray", "slurm": "slurm", "slurm-setup": "slurm", "detach": "slurm"}
    for option, engine in others.items():
        if getattr(arguments, option.replace("-", "_")) and arguments.engine != engine:
            raise UserError(f"--{option}: only for --engine {engine}: leave it out")
    return Settings(
        directory,
        jobs=arguments.jobs,
        cpus=arguments.cpus_per_run,
        gpus=arguments.gpus_per_run,
        address=arguments.address,
        slurm=_options("--slurm", arguments.slurm or ()),
        slurm_setup=arguments.slurm_setup,
        detach=arguments.detach,
    )


def _options(option: str, texts: Sequence[str]) -> dict[str, str]:
    """Read ``KEY=VALUE,KEY,...``; an option without a value gets an empty text.

    A value may have commas: a part that begins neither ``key=`` nor is an option that needs no
    value goes on with the value before it. What is in double quotes is not divided.

    Raises UserError for a part without a key or a value.
    """
    options: dict[str, str] = {}
    for text in texts:
        key = ""
        for part in re.split(r',(?=(?:[^"]*"[^"]*")*[^"]*$)', text):
            plain = part.replace('"', "")
            name, equals, value = plain.partition("=")
            if OPTION.fullmatch(name) and (value if equals else name in FLAGS):
                key = name
                options[key] = value
            elif plain and not (equals and OPTION.fullmatch(name)) and options.get(key):
                options[key] += f",{plain}"  # such as `mail-type=END,FAIL`
            else:
                raise UserError(f"{option}: expected KEY=VALUE,KEY=VALUE, not {part!r}")
    return options


def check_number(option: str, number: int, least: int = 1) -> None:
    """Raise UserError unless ``number`` is at least ``least``."""
    if number < least:
        raise UserError(f"{option}: expected a whole number ≥ {least}, not {number}")


def only_task(run: Path, config: "Config") -> str:
    """Return the task of a run with one task. Raises UserError if it has several."""
    if len(config.tasks) > 1:
        raise UserError(f"{run}: name the task by --task: one of {', '.join(config.tasks)}")
    return next(iter(config.tasks))
