"""Arguments that several commands have, and how they are read."""

import argparse
import re
from pathlib import Path
from typing import Any

from multitask.utils.errors import UserError
from multitask.utils.names import PACKAGED_ENCODER
from multitask.utils.paths import expand_home

# options of sbatch that need no value
FLAGS = (
    "contiguous exclusive get-user-env hold ignore-pbs no-kill no-requeue overcommit oversubscribe "
    "propagate quiet reboot requeue resv-ports spread-job stepmgr use-min-nodes verbose".split()
)
# a comma outside of quotes, and then KEY= or one of these; variables, as in
# `export=ALL,HOME=/tmp`, are not named so
NEXT_OPTION = re.compile(
    rf',(?=[a-z][a-z0-9-]*=|(?:{"|".join(FLAGS)})(?:,|$))(?=(?:[^"]*"[^"]*")*[^"]*$)'
)
CHANGES = "values of the run to change, such as data_dir=DIR"


def add_path(
    parser: argparse._ActionsContainer, name: str, metavar: str, text: str, **options: Any
) -> None:
    """Add a path; ``~`` at its beginning is the home directory. ``text`` is the help."""
    parser.add_argument(name, metavar=metavar, type=expand_home, help=text, **options)


def add_number(
    parser: argparse._ActionsContainer, name: str, text: str, *, least: int = 1, **options: Any
) -> None:
    """Add a whole number, ``least`` or more."""

    def number(word: str) -> int:
        if not word.isdecimal() or int(word) < least:
            raise UserError(f"{name}: expected a whole number ≥ {least}, not {word}")
        return int(word)

    parser.add_argument(name, metavar="N", type=number, help=text, **options)


def add_config(parser: argparse.ArgumentParser) -> None:
    """Add CONFIG and the values that replace some of its keys."""
    parser.add_argument("config", metavar="CONFIG", help="YAML file, such as configs/demo.yaml")
    add_overrides(parser, "values that replace the file's")


def add_overrides(parser: argparse.ArgumentParser, text: str = CHANGES) -> None:
    """Add key=value ..."""
    parser.add_argument("overrides", metavar="key=value", nargs="*", default=[], help=text)


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add RUN, a run directory."""
    add_path(parser, "run", "RUN", "run directory")


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
    more = [expand_home(word) for word in arguments.more if word not in overrides]
    return [arguments.run, *more], overrides


def add_task(parser: argparse.ArgumentParser, text: str) -> None:
    """Add --task."""
    parser.add_argument("--task", metavar="T", help=text)


def add_pooling(parser: argparse.ArgumentParser, more: str = "") -> None:
    """Add --pooling; the help ends with ``more``."""
    parser.add_argument("--pooling", metavar="P", help=f"a pooling without weights{more}")


def add_dim(parser: argparse.ArgumentParser) -> None:
    """Add --dim."""
    add_number(
        parser, "--dim", "the first N numbers of each vector (default: all); see `matryoshka`"
    )


def add_output(parser: argparse.ArgumentParser, metavar: str, text: str) -> None:
    """Add --output."""
    add_path(parser, "--output", metavar, text)


def add_sweep(parser: argparse.ArgumentParser, part: str, output: str) -> None:
    """Add the options of a sweep: of every ``part``, and where the runs are trained."""
    from multitask.sweep.engines.base import ENGINES

    add_overrides(parser, f"config values of every {part}, such as data_dir=DIR")
    text = "keep each run's weights, checkpoints and encoder copy"
    parser.add_argument("--keep-weights", action="store_true", help=text)
    add_output(parser, "DIR", f"default: {output}")
    group = parser.add_argument_group("where the runs are trained (docs/ablations.md)")
    text = "this machine (local, the default), Ray or SLURM"
    group.add_argument("--engine", choices=tuple(ENGINES), default="local", help=text)
    text = "runs at once (default 1; a grid on SLURM: all)"
    group.add_argument("--jobs", metavar="N", type=int, help=text)
    text = "CPU cores per run (default: an equal share)"
    group.add_argument("--cpus-per-run", dest="cpus", metavar="N", type=int, help=text)
    text = "GPUs per run; 0.5: two runs share one (Ray)"
    group.add_argument("--gpus-per-run", dest="gpus", metavar="F", type=float, help=text)
    text = "a Ray cluster, such as auto (default: a new one on this machine)"
    group.add_argument("--address", metavar="A", help=text)
    text = "options of sbatch, such as partition=gpu,time=2:00:00; may be repeated"
    group.add_argument("--slurm", metavar="KEY[=VALUE],...", action=SbatchOptions, help=text)
    text = "lines of bash that SLURM's nodes run before each run (docs/clusters.md)"
    add_path(group, "--slurm-setup", "FILE", text)
    text = "submit the runs to SLURM, write the table so far and end"
    group.add_argument("--detach", action="store_true", help=text)


class SbatchOptions(argparse.Action):
    """Reads ``KEY=VALUE,KEY,...``; an option without a value gets an empty text.

    A value may have commas: a part that begins neither ``key=`` nor is an option that needs no
    value goes on with the value before it. What is in double quotes is not divided.

    Raises UserError for a part without a key or a value.
    """

    def __call__(self, parser: Any, namespace: Any, values: Any, option_string: Any = None) -> None:
        options: dict[str, str] = dict(getattr(namespace, self.dest) or {})
        for part in NEXT_OPTION.split(values):
            name, equals, value = part.replace('"', "").partition("=")
            if not (value if equals else name in FLAGS):
                raise UserError(f"--slurm: expected KEY=VALUE,KEY=VALUE, not {part!r}")
            options[name] = value
        setattr(namespace, self.dest, options)
