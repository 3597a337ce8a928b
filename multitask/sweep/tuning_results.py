"""Write the results of a search: its table, its figures, and the config of the best trial."""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from multitask.config.yaml_merge import nested
from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.page import tables_page
from multitask.reporting.table_formats import Table, number, score, text_page
from multitask.store.files import write_text
from multitask.store.run_directory import RunDirectory
from multitask.sweep.progress_bars import steps_done
from multitask.sweep.search_space import SearchSpace

OPEN = "not finished"  # the state of a trial that goes on with the next start
BEST = re.compile(r"best(-\d+)?\.yaml")
# by objective, the share of the score's variance that each key explains
Importances = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Tried:
    """A trial.

    Attributes:
        number: its number, from 0.
        state: how it ended, such as ``finished``, in one line; or ``OPEN``.
        chosen: its numbers and labels, by config key.
        values: its score, or its scores in the order of the objectives; empty if it has none.
        best: True if no other trial is better, or for a point of the Pareto front.
        directory: its run directory.
    """

    number: int
    state: str
    chosen: Mapping[str, Any]
    values: Sequence[float]
    best: bool
    directory: Path

    @cached_property
    def steps(self) -> int | None:
        """The training steps that it took; None before the first."""
        done = steps_done(self.directory)
        return done[0] if done else None

    @cached_property
    def minutes(self) -> float | None:
        """Minutes of training; None if it was not trained to the end."""
        run = RunDirectory(self.directory)
        return run.load_report().wall_time_s / 60 if self.values and run.finished else None


def objectives_of(space: SearchSpace) -> list[str]:
    """Return the names of the scores: the tasks of a Pareto front, or the mean over all tasks."""
    return space.file.objectives or ["mean"]


def write_results(
    space: SearchSpace,
    output: Path,
    tried: Sequence[Tried],
    importances: Importances,
    say: Callable[[str], None] = print,
) -> list[Path]:
    """Write table.md, the configs of the best trials and the figures; return the files.

    Without a finished trial there is only the table. ``say`` prints it.
    """
    ranked = sorted(tried, key=lambda trial: -trial.values[0] if trial.values else math.inf)
    table, notes = trials_table(space, ranked), notes_of(space, ranked)
    files = [output / "table.md"]
    write_text(files[0], tables_page("Hyperparameter search", [("Trials", table)], notes))
    configs = {
        output / ("best.yaml" if not space.file.objectives else f"best-{trial.number}.yaml"): trial
        for trial in ranked
        if trial.best
    }
    for old in output.iterdir():
        if BEST.fullmatch(old.name) and old not in configs:
            old.unlink()  # of an earlier start, and no longer the best
    for file, trial in configs.items():
        write_text(file, best_config(space, trial))
    files += [*configs, *_draw(space, output, tried, importances)]
    say(text_page([("", table)], notes))
    for file in files:
        say(f"written: {file}")
    return files


def trials_table(space: SearchSpace, ranked: Sequence[Tried]) -> Table:
    """Return a row per trial; the best are marked."""
    keys, objectives = list(space.parameters), objectives_of(space)
    header = ["trial", *keys, *(f"holdout {name}" for name in objectives), "steps", "min", "state"]
    rows = []
    for trial in ranked:
        values: Sequence[float | None] = trial.values or [None] * len(objectives)
        rows.append(
            [
                str(trial.number),
                *(_shown(trial.chosen.get(key)) for key in keys),
                *map(score, values),
                "-" if trial.steps is None else f"{trial.steps:,}",
                number(trial.minutes, ".1f"),
                trial.state,
            ]
        )
    marked = {
        (row, 1 + len(keys) + place)
        for row, trial in enumerate(ranked)
        if trial.best
        for place in range(len(objectives))
    }
    return Table(header, rows, frozenset(marked))


def notes_of(space: SearchSpace, tried: Sequence[Tried]) -> list[str]:
    """Return how to read the table, and what the search cost."""
    what = "The scores are" if space.file.objectives else "The score is the mean over the tasks,"
    steps = sum(trial.steps or 0 for trial in tried)
    minutes = sum(trial.minutes or 0.0 for trial in tried)
    count = sum(bool(trial.values) for trial in tried)
    lines = [
        f"{what} on the holdout: rows of train that no trial was trained on. The best of many "
        "trials is flattered: compare it with the base on dev, with new seeds.",
        "Trial 0 has the values of the base.",
        f"Cost: {len(tried)} trials with {steps:,} training steps; the {count} finished ones took "
        f"{minutes:.0f} minutes.",
    ]
    over = sum(trial.state != OPEN and not trial.state.startswith("failed") for trial in tried)
    if over < space.file.trials:
        lines.append(f"So far {over} of {space.file.trials} trials are over.")
    return lines


def best_config(space: SearchSpace, trial: Tried) -> str:
    """Return a config that extends the base and has the values of a trial."""
    values = nested(space.settings(trial.chosen))
    scores = ", ".join(
        f"{name} {score(value)}"
        for name, value in zip(objectives_of(space), trial.values, strict=True)
    )
    text = dump_yaml({"extends": str(space.base.resolve()), **values})
    return f"# Trial {trial.number} of {space.file.trials}: holdout {scores}.\n\n{text}"


def _shown(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else "-" if value is None else str(value)


def _draw(
    space: SearchSpace, output: Path, tried: Sequence[Tried], importances: Importances
) -> list[Path]:
    """Draw the history of the scores and, if it is known, what each parameter counts."""
    from multitask.reporting.figures import style
    from multitask.reporting.figures.dots import draw_history, draw_importance

    finished = [trial for trial in tried if trial.values]
    if not finished:
        return []
    scores = {
        name: {trial.number: trial.values[place] for trial in finished}
        for place, name in enumerate(objectives_of(space))
    }
    pruned = [trial.number for trial in tried if trial.state.startswith("pruned")]
    figures = {output / "history.png": draw_history(scores, pruned)}
    if importances:
        figures[output / "importance.png"] = draw_importance(importances)
    return style.save_figures(figures)
