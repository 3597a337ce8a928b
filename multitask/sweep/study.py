"""Optuna's study of a search: its database, its sampler and its pruner.

- One process writes the database. Trials that were running when a search was killed stay there as
  running, and are resumed under their number.
- The suggestions for a trial depend on the seed, its number and the scores until then alone, so a
  search of one trial at a time without a pruner gives the same trials, however often it was
  killed.
- Each trial also has a file ``trial.json`` with its values and why it ended without a score. If the
  database is missing, it is made again from these files.
"""

import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.store.files import read_json, replacing, write_json
from multitask.store.run_directory import RunDirectory
from multitask.store.run_log import parse_event
from multitask.sweep.search_space import SearchSpace
from multitask.sweep.sweep_directory import Run, SweepDirectory, train_arguments
from multitask.sweep.tuning_results import objectives_of
from multitask.utils.errors import UserError, reading, reason_of
from multitask.utils.optional import optional

NEEDED = "tune needs Optuna"
NAME = "tune"  # of the study in the database
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

    def resume(self, frozen: Any) -> Any:
        """Return a trial of an earlier start that has not ended."""
        return self.optuna.trial.Trial(self.study, frozen._trial_id)

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


@contextmanager
def open_study(optuna: Any, space: SearchSpace, directory: SweepDirectory) -> Iterator[Study]:
    """Open the study of a search during a block; make its database if it is missing.

    Raises UserError if the database is damaged or cannot be written.
    """
    import sqlite3

    errors = optional("sqlalchemy.exc", NEEDED, "tune").SQLAlchemyError
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    file = directory.study
    if not file.exists():
        _make(optuna, space, directory)
    advice = "delete it: the trials are kept, and no finished one is trained again"
    pruners = {
        "none": optuna.pruners.NopPruner(),
        "median": optuna.pruners.MedianPruner(),
        # the resource that it deals out is the number of evaluations
        "halving": optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2),
    }
    try:
        with reading(file):  # a damaged database raises errors of many kinds
            storage = _storage(optuna, file)
            with sqlite3.connect(file) as database:  # of all pages: most queries read only some
                (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
            database.close()
            if said != "ok":
                raise ValueError(said)
            # not Optuna's default for several objectives, which suggests values in `ask`
            how = {"sampler": optuna.samplers.RandomSampler(), "pruner": pruners[space.file.pruner]}
            study = optuna.load_study(storage=storage, study_name=NAME, **how)
            study.get_trials()
    except UserError as error:
        raise UserError(f"{error}; {advice}") from error
    try:
        yield Study(space, directory, optuna, study)
    except (errors, optuna.exceptions.StorageInternalError) as error:
        said = reason_of(error.__cause__ or error, 200)
        raise UserError(f"{file}: {said}: free space, or {advice}") from error


def _make(optuna: Any, space: SearchSpace, directory: SweepDirectory) -> None:
    """Make the database with the trials that have a file, or trial 0. A kill leaves all or none."""
    for end in ("-journal", "-wal", "-shm"):  # of a deleted one; SQLite would apply it to this one
        directory.study.with_name(directory.study.name + end).unlink(missing_ok=True)
    with replacing(directory.study) as made:
        storage = _storage(optuna, made)
        directions = ["maximize"] * len(objectives_of(space))
        study = optuna.create_study(storage=storage, study_name=NAME, directions=directions)
        study.enqueue_trial(space.first)
        numbers = [int(file.parent.name.removeprefix("trial-")) for file in directory.trials()]
        for number in range(1, 1 + max(numbers, default=0)):
            # one whose file was deleted gets values like a new one
            study.enqueue_trial(saved_trial(directory, number).get("values", {}))
        storage.remove_session()
        storage.engine.dispose()


def _storage(optuna: Any, file: Path) -> Any:
    url = optional("sqlalchemy", NEEDED, "tune").URL  # it quotes `%` and `?` of a path
    place = url.create("sqlite", database=str(file.absolute())).render_as_string()
    return optuna.storages.RDBStorage(place)


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
