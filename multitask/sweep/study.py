"""Optuna's study of a search: its sampler, its pruner, and the trials of earlier starts.

- The study is in memory. Every start makes it again: ``trial.json`` has the values of a trial and
  why it ended without a score, and its run directory has the score.
- The suggestions for a trial depend on the seed, its number and the scores until then alone, so a
  search of one trial at a time without a pruner gives the same trials, however often it was
  killed.
"""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from multitask.reporting.statistics import holdout_scores
from multitask.store.files import read_json, write_json
from multitask.store.lock import Busy
from multitask.store.prepare_run import discard_weights, own
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.sweep.run_sweep import check_saved
from multitask.sweep.search_space import Range, SearchSpace
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, train_arguments
from multitask.sweep.tuning_results import OPEN, Tried, objectives_of
from multitask.utils.errors import UserError, one_line, reading

Begun = list[tuple[Any, Run]]  # trials that have not ended, with their runs
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

    def restore(self) -> Begun:
        """Tell Optuna how the trials of earlier starts ended; return those that are to be trained.

        Trial 0 of a new search is one of these. Raises UserError if an earlier start trained a
        trial with another config.
        """
        asked = [self.ask() for _ in self.trials("WAITING")]
        return [(trial, run) for trial, run, _ in asked if run]

    def ask(self) -> tuple[Any, Run | None, str]:
        """Return the next trial with its values, and its run; or how it ended without training.

        Raises UserError if an earlier start trained this trial with another config.
        """
        trial = self.study.ask()
        earlier = saved_trial(self.directory, trial.number)
        for place, (key, parameter) in enumerate(self.space.parameters.items()):
            self.sample(trial.number, place)
            suggest(trial, key, parameter)
        if "state" not in earlier:
            self.save(trial)
        try:
            run = run_of(self.space, self.directory, trial.number, trial.params)
        except UserError as error:
            return trial, None, self.end(trial, "PRUNED", f"not possible: {error}")
        check_saved([run])
        if "state" in earlier:
            self.report(trial, run)
            if earlier["state"] == "PRUNED":  # a kill may have left its weights
                discard(run.files)
            return trial, None, self.end(trial, earlier["state"], earlier[NOTE])
        if run.settled or (divergence(run.files) and not run.owner):
            return trial, None, self.tell(trial, run)
        return trial, run, ""

    def sample(self, number: int, place: int) -> None:
        """Let Optuna's next suggestion be for a parameter of a trial, at a place of the file.

        With the trial's number in its seed, a restart repeats no suggestions. With the place, a
        trial whose suggestions were interrupted gets the same ones.
        """
        seeds = np.random.SeedSequence([self.space.file.seed, number, place])
        seed = int(seeds.generate_state(1)[0])
        kind = {"random": "RandomSampler", "tpe": "TPESampler"}[self.space.file.sampler]
        self.study.sampler = getattr(self.optuna.samplers, kind)(seed=seed)

    def report(self, trial: Any, run: Run) -> int | None:
        """Tell Optuna the new evaluations of a trial; return the number of one that is too low.

        Returns None after the last evaluation of the training: the score comes next.
        """
        if self.space.file.pruner == "none":
            return None
        evaluated, low = evaluations(run.files), None
        known = self.trials()[trial.number].intermediate_values
        for number, (joint, _) in enumerate(evaluated, 1):
            if joint is not None and number not in known:
                trial.report(joint, number)
                low = number if trial.should_prune() else low  # asked for each: `halving` counts
        return low if evaluated and evaluated[-1][1] else None

    def tell(self, trial: Any, run: Run) -> str:
        """Tell Optuna the scores of a finished run, or that it diverged; return them as a text."""
        self.report(trial, run)
        if not run.finished:
            return self.end(trial, "FAIL", f"diverged: {divergence(run.files)}")
        try:
            values = holdout_scores(run.directory, self.space.file.objectives)
        except UserError as error:
            return self.end(trial, "PRUNED", str(error))
        if any(map(math.isnan, values)):
            return self.end(trial, "PRUNED", "its score is undefined")
        self.study.tell(trial, values)
        return "holdout " + ", ".join(f"{value:.3f}" for value in values)

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

    def tried(self, failed: Sequence[Failure]) -> list[Tried]:
        """Return what became of each trial; ``failed`` are those that this start tried in vain."""
        reasons = {failure.run.cell: f"failed: {failure.reason}" for failure in failed}
        best, seed, result = self.best(), self.space.file.seed, []
        for trial in self.trials():
            cell, finished = cell_of(trial.number), trial.state.name == "COMPLETE"
            state = reasons.get(cell, "finished" if finished else trial.user_attrs.get(NOTE, OPEN))
            values = trial.values if finished else ()
            place, is_best = self.directory.run(cell, seed), trial.number in best
            tried = Tried(trial.number, one_line(state), trial.params, values, is_best, place)
            result.append(tried)
        return result


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


def suggest(trial: Any, key: str, parameter: Range | dict[str, Any]) -> None:
    """Let Optuna choose a parameter, unless the trial has it already."""
    if isinstance(parameter, dict):
        trial.suggest_categorical(key, list(parameter))
    elif parameter.whole:
        trial.suggest_int(key, parameter.low, parameter.high, log=parameter.log)
    else:
        trial.suggest_float(key, parameter.low, parameter.high, log=parameter.log)


def discard(run: RunDirectory) -> None:
    """Remove the weights of a trial that was pruned, if its run has ended."""
    with suppress(Busy), own(run):
        discard_weights(run)


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
