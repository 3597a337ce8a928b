# Tested by tests/sweep/test_tune.py
"""Optuna's study of a search: its database, its sampler and its pruner.

- One process writes the database. Trials that were running when a search was killed stay there as
  running, and are resumed under their number.
- The suggestions for a trial depend on the seed, its number and the scores until then alone, so a
  search of one trial at a time without a pruner gives the same trials, however often it was
  killed.
- Each trial also has a file ``trial.json`` with its values and why it ended without a score. If the
  database is missing, it is made again from these files.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.store.files import read_json, replacing, write_json
from multitask.sweep.search_space import SearchFile, SearchSpace
from multitask.sweep.sweep_directory import SweepDirectory
from multitask.sweep.trial_runs import cell_of
from multitask.sweep.tuning_results import objectives_of
from multitask.utils.errors import UserError, reading, reason_of
from multitask.utils.optional import optional

NEEDED = "tune needs Optuna"
NAME = "tune"  # of the study in the database
NOTE = "note"  # the attribute of a trial that says why it has no score


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

    def resume(self, number: int) -> Any:
        """Return a trial of an earlier start that has not ended."""
        frozen = self.study.get_trials(deepcopy=False)[number]
        self.sample(number, 0)
        return self.optuna.trial.Trial(self.study, frozen._trial_id)

    def ask(self, number: int) -> Any:
        """Return a new trial, without values."""
        self.sample(number, 0)
        return self.study.ask()

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
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    errors = optional("sqlalchemy.exc", NEEDED, "tune").SQLAlchemyError
    if not directory.study.exists():
        _make(optuna, space, directory)
    file = directory.study
    advice = "delete it: the trials are kept, and no finished one is trained again"
    try:
        with reading(file):  # a damaged database raises errors of many kinds
            storage = _storage(optuna, file)
            check_pages(file)
            study = optuna.load_study(
                storage=storage, study_name=NAME, pruner=pruner_of(optuna, space.file)
            )
            study.get_trials()
    except UserError as error:
        raise UserError(f"{error}; {advice}") from error
    try:
        yield Study(space, directory, optuna, study)
    except (errors, optuna.exceptions.StorageInternalError) as error:
        said = reason_of(error.__cause__ or error, 200)
        raise UserError(f"{file}: {said}: free space, or {advice}") from error


def check_pages(file: Path) -> None:
    """Raise an exception if a page of an SQLite file is damaged: most queries read only some."""
    import sqlite3

    with sqlite3.connect(file) as database:
        (said,) = database.execute("PRAGMA quick_check(1)").fetchone()
    database.close()
    if said != "ok":
        raise ValueError(said)


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


def saved_trial(directory: SweepDirectory, number: int) -> dict[str, Any]:
    """Return what the file of a trial says; {} if there is none. Raises UserError if damaged."""
    file = directory.trial(cell_of(number))
    with reading(file):
        return dict(read_json(file)) if file.is_file() else {}


def pruner_of(optuna: Any, file: SearchFile) -> Any:
    """Return the pruner. The resource that ``halving`` deals out is the number of evaluations."""
    if file.pruner == "none":
        return optuna.pruners.NopPruner()
    if file.pruner == "median":
        return optuna.pruners.MedianPruner()
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)


def _storage(optuna: Any, file: Path) -> Any:
    url = optional("sqlalchemy", NEEDED, "tune").URL  # it quotes `%` and `?` of a path
    place = url.create("sqlite", database=str(file.absolute())).render_as_string()
    return optuna.storages.RDBStorage(place)
