"""Optuna's study of a search: its sampler, its pruner, and the trials of earlier starts.

- The study is in memory. Every start makes it again: ``trial.json`` has the values of a trial and
  why it ended without a score, and its run directory has the score.
- The suggestions for a trial depend on the seed, its number and the scores until then alone, so a
  search of one trial at a time without a pruner gives the same trials, however often it was
  killed.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from multitask.store.files import read_json, write_json
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.sweep.search_space import SearchSpace
from multitask.sweep.sweep_directory import Run, SweepDirectory, train_arguments
from multitask.sweep.tuning_results import objectives_of
from multitask.utils.errors import reading

NOTE = "note"  # the attribute of a trial that says why it has no score
EVAL = b'{"event": "eval"'  # how the line of an evaluation begins


@dataclass(frozen=True)
class Study:
    """The study of a search.

    Attributes:
        space: what is searched.
        directory: the search's directory.
        optuna: the library.
        study: Optuna's study.
    """

    space: SearchSpace
    directory: SweepDirectory
    optuna: Any
    study: Any

    def trials(self, *states: str) -> list[Any]:
        """Return the trials so far, or those in some of Optuna's states, such as ``RUNNING``."""
        trials = self.study.get_trials(deepcopy=False)
        return [trial for trial in trials if not states or trial.state.name in states]

    @property
    def over(self) -> int:
        """The number of trials that have ended, with or without a score."""
        return sum(trial.state.is_finished() for trial in self.trials())

    def sample(self, number: int, place: int) -> None:
        """Let Optuna's next suggestion be for a parameter of a trial, at a place of the file.

        With the trial's number in its seed, a restart repeats no suggestions. With the place, a
        trial whose suggestions were interrupted gets the same ones.
        """
        seeds = np.random.SeedSequence([self.space.file.seed, number, place])
        seed = int(seeds.generate_state(1)[0])
        kind = {"random": "RandomSampler", "tpe": "TPESampler"}[self.space.file.sampler]
        self.study.sampler = getattr(self.optuna.samplers, kind)(seed=seed)

    def end(self, trial: Any, state: str, note: str) -> str:
        """End a trial without a score; return the note, which says why.

        A sampler avoids values like those of a trial in the state ``PRUNED``, and ignores one in
        the state ``FAIL``.
        """
        self.save(trial, state=state, note=note)
        trial.set_user_attr(NOTE, note)
        self.study.tell(trial, state=self.optuna.trial.TrialState[state])
        return note

    def best(self) -> list[int]:
        """Return the number of the best trial, or those of the Pareto front."""
        if self.space.file.objectives:
            return [trial.number for trial in self.study.best_trials]
        ranked = sorted(self.trials("COMPLETE"), key=lambda trial: -trial.value)
        return [trial.number for trial in ranked[:1]]

    def importances(self) -> dict[str, dict[str, float]]:
        """Return the importance of each parameter by objective; none with too few trials."""
        values = [trial.values for trial in self.trials("COMPLETE")]
        result = {}
        for place, name in enumerate(objectives_of(self.space)):
            if len({of_trial[place] for of_trial in values}) < 2:
                continue  # nothing varies
            shares = self.optuna.importance.get_param_importances(
                self.study,
                evaluator=self.optuna.importance.FanovaImportanceEvaluator(seed=0),
                target=lambda trial, place=place: trial.values[place],
            )
            result[name] = {key: float(share) for key, share in shares.items()}
        return result

    def save(self, trial: Any, **ended: str) -> None:
        """Write the file of a trial: its values, and how it ended if that was without a score."""
        file = self.directory.trial(cell_of(trial.number))
        file.parent.mkdir(parents=True, exist_ok=True)
        write_json(file, {"values": trial.params, **ended})


def make_study(optuna: Any, space: SearchSpace, directory: SweepDirectory) -> Study:
    """Make the study of a search, in which trial 0 and the trials of earlier starts wait."""
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruners = {
        "none": optuna.pruners.NopPruner(),
        "median": optuna.pruners.MedianPruner(),
        # the resource that it deals out is the number of evaluations
        "halving": optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    }
    study = optuna.create_study(
        # not Optuna's default for several objectives, which suggests values in `ask`
        sampler=optuna.samplers.RandomSampler(),
        pruner=pruners[space.file.pruner],
        directions=["maximize"] * len(objectives_of(space)),
    )
    study.enqueue_trial(space.first)
    numbers = [int(file.parent.name.removeprefix("trial-")) for file in directory.trials()]
    for number in range(1, 1 + max(numbers, default=0)):
        # one whose file was deleted gets values like a new one
        study.enqueue_trial(saved_trial(directory, number).get("values", {}))
    return Study(space, directory, optuna, study)


def saved_trial(directory: SweepDirectory, number: int) -> dict[str, Any]:
    """Return what the file of a trial says; {} if there is none. Raises UserError if damaged."""
    file = directory.trial(cell_of(number))
    with reading(file):
        return dict(read_json(file)) if file.is_file() else {}


def cell_of(number: int) -> str:
    """Return the name of a trial."""
    return f"trial-{number}"


def run_of(
    space: SearchSpace, directory: SweepDirectory, number: int, chosen: Mapping[str, Any]
) -> Run:
    """Return the run of a trial. Raises UserError for a combination that is not possible."""
    seed, cell = space.file.seed, cell_of(number)
    path = directory.run(cell, seed)
    config = space.config(chosen).model_copy(update={"seed": seed, "output_dir": str(path)})
    arguments = train_arguments(space.base, space.settings(chosen), seed, path)
    return Run(cell, seed, path, config, arguments)


def evaluations(run: RunDirectory) -> list[tuple[float | None, bool]]:
    """Return each evaluation on the holdout in the log of a run that may still train.

    That is the joint score, None if undefined, and True if the training goes on after it.
    """
    lines = _log_of(run)
    plan = parse_event(lines[0]) if lines else None
    steps = plan["steps"] if plan and plan["event"] == "plan" else math.inf
    events = [parse_event(line) for line in lines if line.startswith(EVAL)]  # the last may be cut
    return [
        (event.get("joint"), event["step"] < steps)
        for event in events
        if event and event["split"] == "holdout"
    ]


def divergence(run: RunDirectory) -> str:
    """Return why a training run that diverged has ended; empty if it has not.

    Its log ends with that event; a resumed training run removes it.
    """
    last = parse_event(lines[-1]) if (lines := _log_of(run)) else None
    return str(last["reason"]) if last and last["event"] == "diverged" else ""


def _log_of(run: RunDirectory) -> list[bytes]:
    return run.metrics.read_bytes().splitlines() if run.metrics.exists() else []
