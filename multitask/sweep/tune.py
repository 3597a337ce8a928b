"""Search hyperparameters: Optuna suggests values, an engine trains them, Optuna gets the scores.

- A trial is an ordinary ``train`` command in the directory ``cells/trial-N/seed-S``.
- Its score is that on the holdout. Dev stays unseen.
- Optuna's database in the output directory is written by one process. A killed search goes on from
  it: trials that were running are resumed under their number.
- The suggestions for a trial depend on the seed, its number and the scores until then alone, so a
  search of one trial at a time without a pruner gives the same trials, however often it was
  killed.
- A training knows nothing of Optuna: this process reads the log of a trial, and cancels it.

Only this module imports Optuna.
"""

import math
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config.prepare_run_directory import discard_weights, own
from multitask.config.run_directory import RunDirectory
from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.statistics import holdout_scores
from multitask.sweep.engines.base import Settings, load_engine
from multitask.sweep.pool import Pool, work
from multitask.sweep.progress_bars import Progress
from multitask.sweep.run_sweep import check_output, check_saved, interrupt
from multitask.sweep.same_kernels import choose_kernels
from multitask.sweep.search_space import Range, SearchFile, SearchSpace
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory
from multitask.sweep.trial_runs import cell_of, evaluations, run_of
from multitask.sweep.tuning_results import OPEN, Tried, objectives_of, write_results
from multitask.utils.errors import UserError, one_line, reading
from multitask.utils.files import remove_scraps, replacing, write_text
from multitask.utils.optional import optional
from multitask.utils.owner import Busy, owned
from multitask.utils.signals import on_signal

NEEDED = "tune needs Optuna"
NAME = "tune"  # of the study in the database
NOTE = "note"  # the attribute of a trial that says why it has no score


def tune(space: SearchSpace, output: Path, *, engine: str, settings: Settings, keep: bool) -> None:
    """Run the trials of a search that are not over yet, and write the results.

    Args:
        space: a validated search file.
        output: the search's directory; an earlier start there is continued.
        engine: the name of the engine.
        settings: its options.
        keep: keep the weights of finished trials.

    Raises:
        Busy: another process searches there.
        UserError: Optuna is not installed; ``output`` has other content or another search; some
            trials failed (after the others are done); the search was interrupted. Then the results
            so far are written.
    """
    optuna = optional("optuna", NEEDED, "engines")
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    directory = SweepDirectory(output)
    _check(space, directory)
    with owned(directory.lock, "searches there"):
        _check(space, directory)  # again: another process may have been faster
        remove_scraps(output)
        write_text(directory.search, dump_yaml(space.resolved))
        choose_kernels(directory, [run_of(space, directory, 0, space.first)])
        _search(Search(optuna, space, directory), engine, settings, keep)


def _search(search: "Search", engine: str, settings: Settings, keep: bool) -> None:
    total, output = search.space.file.trials, search.directory.path
    failed: list[Failure] = []
    stopped = False
    with Progress(total, settings.jobs) as progress:
        progress.skipped(search.over)
        try:
            if search.over < total:
                with on_signal(interrupt):
                    loaded = load_engine(engine, settings)
                    search.train(Pool(loaded, settings, keep, progress, failed=failed))
        except KeyboardInterrupt:
            stopped = True
    write_results(search.space, output, search.tried(failed), search.importances())
    if stopped:
        message = f"interrupted: {search.over} of {total} trials are over in {output}"
        raise UserError(f"{message}; go on with the same command")
    if failed:
        names = ", ".join(failure.run.name for failure in failed)
        message = f"{len(failed)} of {total} trials failed: {names}; see their logs"
        logs = f"({output}/cells/TRIAL/logs/seed-{search.space.file.seed}.log)"
        raise UserError(f"{message} {logs}; the same command tries them again")


@dataclass
class Search:
    """A search, and Optuna's study of it.

    Attributes:
        optuna: the library.
        space: what is searched.
        directory: the output.
        storage: Optuna's database.
        study: Optuna's study.
        asked: the number of trials so far.
        pool: the runs of its trials.
        trials: the trials that train, by the name of their run.
        reported: how many evaluations of a run Optuna has, by the run's name.
        stopping: the runs that were pruned and have not ended yet, by the number of the trial.
    """

    optuna: Any
    space: SearchSpace
    directory: SweepDirectory
    storage: Any = None
    study: Any = None
    asked: int = 0
    pool: Pool = field(init=False)
    trials: dict[str, Any] = field(default_factory=dict)
    reported: dict[str, int] = field(default_factory=dict)
    stopping: dict[int, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if not self.directory.study.exists():
            self._begin()
        with reading(self.directory.study):  # a damaged database raises errors of many kinds
            self.storage = self._storage(self.directory.study)
            self.study = self.optuna.load_study(
                storage=self.storage,
                study_name=NAME,
                sampler=self._sampler(0, 0),
                pruner=pruner_of(self.optuna, self.space.file),
            )
            self.asked = sum(trial.state.name != "WAITING" for trial in self.study.get_trials())

    def _begin(self) -> None:
        """Make the database, with trial 0. A kill leaves none, or all of it."""
        with replacing(self.directory.study) as made:
            storage = self._storage(made)
            directions = ["maximize"] * len(objectives_of(self.space))
            study = self.optuna.create_study(
                storage=storage, study_name=NAME, directions=directions
            )
            study.enqueue_trial(self.space.first)
            storage.remove_session()
            storage.engine.dispose()

    @property
    def over(self) -> int:
        """The number of trials that are finished or pruned."""
        return sum(trial.state.is_finished() for trial in self.study.get_trials(deepcopy=False))

    def train(self, pool: Pool) -> None:
        """Train trials until as many are over as were asked for.

        Raises KeyboardInterrupt after every trial has saved its state and ended.
        """
        self.pool, pool.result = pool, self.settle
        trials = self.study.get_trials()
        begun = [trial for trial in trials if self._files(trial.number).holds_run]
        check_saved([self._run(trial.number, trial.params) for trial in begun])
        for trial in begun:
            if trial.state.name == "PRUNED":
                self._discard(trial.number)
        for trial in trials:
            if trial.state.name == "RUNNING":
                self._start(self._trial(trial.number))
        work(pool, self.refill)

    def refill(self) -> None:
        """Prune trials, and ask for new ones while there is room."""
        for name in list(self.pool.running):
            if name in self.trials:
                self._prune(self.pool.running[name].run)
        for number, name in list(self.stopping.items()):
            if name not in self.pool.running:
                del self.stopping[number]
                self._discard(number)
        while self.asked < self.space.file.trials and self.pool.open < self.pool.settings.jobs:
            self.study.sampler = self._sampler(self.asked, 0)
            trial = self.study.ask()
            self.asked += 1
            self._start(trial)

    def settle(self, run: Run) -> str:
        """Tell Optuna the score of a finished run, and return it as a text."""
        trial = self.trials.pop(run.name)
        self._report(trial, run)
        try:
            values = holdout_scores(run.directory, self.space.file.objectives)
        except UserError as error:
            return self._end(trial, str(error))
        if any(map(math.isnan, values)):
            return self._end(trial, "its score is undefined")
        self.study.tell(trial, values)
        return "holdout " + ", ".join(f"{value:.3f}" for value in values)

    def tried(self, failed: Sequence[Failure]) -> list[Tried]:
        """Return what became of each trial."""
        reasons = {failure.run.cell: failure.reason for failure in failed}
        best = {trial.number for trial in self._best()}
        result = []
        for trial in self.study.get_trials(deepcopy=False):
            cell = cell_of(trial.number)
            state = {"COMPLETE": "finished", "PRUNED": "pruned"}.get(trial.state.name, OPEN)
            if cell in reasons:
                state = f"failed: {reasons[cell]}"
            finished = state == "finished"
            result.append(
                Tried(
                    trial.number,
                    # a kill may have left a note on a trial that has gone on since
                    one_line(trial.user_attrs.get(NOTE, state) if state == "pruned" else state),
                    trial.params,
                    trial.values if finished else (),
                    trial.number in best,
                    self._files(trial.number).path,
                )
            )
        return result

    def importances(self) -> dict[str, dict[str, float]]:
        """Return the importance of each parameter by objective; none with too few trials."""
        values = [trial.values for trial in self._complete()]
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

    def _best(self) -> list[Any]:
        """Return the best trial, or those of the Pareto front."""
        if self.space.file.objectives:
            return list(self.study.best_trials)
        return sorted(self._complete(), key=lambda trial: -trial.value)[:1]

    def _complete(self) -> list[Any]:
        complete = (self.optuna.trial.TrialState.COMPLETE,)
        return list(self.study.get_trials(deepcopy=False, states=complete))

    def _sampler(self, number: int, place: int) -> Any:
        """Return the sampler for a parameter of a trial, the one at a place of the search file.

        With the trial's number in its seed, a restart repeats no suggestions. With the place, a
        trial whose suggestions were interrupted gets the same ones.
        """
        seeds = np.random.SeedSequence([self.space.file.seed, number, place])
        seed = int(seeds.generate_state(1)[0])
        if self.space.file.sampler == "random":
            return self.optuna.samplers.RandomSampler(seed=seed)
        return self.optuna.samplers.TPESampler(seed=seed)

    def _trial(self, number: int) -> Any:
        """Return a trial of an earlier start that has not ended."""
        self.study.sampler = self._sampler(number, 0)
        study = self.storage.get_study_id_from_name(NAME)
        trial = self.storage.get_trial_id_from_study_id_trial_number(study, number)
        return self.optuna.trial.Trial(self.study, trial)

    def _storage(self, file: Path) -> Any:
        url = optional("sqlalchemy", NEEDED, "engines").URL  # it quotes `%` and `?` of a path
        place = url.create("sqlite", database=str(file.absolute())).render_as_string()
        return self.optuna.storages.RDBStorage(place)

    def _files(self, number: int) -> RunDirectory:
        return RunDirectory(self.directory.run(cell_of(number), self.space.file.seed))

    def _start(self, trial: Any) -> None:
        """Let a trial wait for its start, or end it if its values do not go together."""
        for place, (key, parameter) in enumerate(self.space.parameters.items()):
            self.study.sampler = self._sampler(trial.number, place)
            suggest(trial, key, parameter)
        try:
            run = self._run(trial.number, trial.params)
        except UserError as error:
            said = self._end(trial, f"not possible: {error}")
            self.pool.progress.settled(cell_of(trial.number), said)
            return
        self.trials[run.name] = trial
        self.pool.add(run)

    def _run(self, number: int, chosen: dict[str, Any]) -> Run:
        return run_of(self.space, self.directory, number, chosen)

    def _end(self, trial: Any, note: str) -> str:
        """End a trial without a score, so that the sampler avoids values like its; return why."""
        trial.set_user_attr(NOTE, note)
        self.study.tell(trial, state=self.optuna.trial.TrialState.PRUNED)
        return note

    def _prune(self, run: Run) -> None:
        """Cancel a running trial if an evaluation is too low."""
        trial = self.trials[run.name]
        number = self._report(trial, run)
        if number is None:
            return
        self.pool.drop(run.name)
        self.stopping[trial.number] = run.name
        del self.trials[run.name]
        said = self._end(trial, f"pruned at evaluation {number}")
        self.pool.progress.settled(run.name, said)

    def _report(self, trial: Any, run: Run) -> int | None:
        """Tell Optuna the new evaluations of a trial; return the number of one that is too low.

        Returns None after the last one of the training: the score comes next.
        """
        if self.space.file.pruner == "none":
            return None
        found, low = evaluations(run.files), None
        if len(found) <= self.reported.get(run.name, 0):
            return None
        self.reported[run.name] = len(found)
        known = self.study.get_trials(deepcopy=False)[trial.number].intermediate_values
        for number, (joint, _) in enumerate(found, 1):
            if joint is None or (number in known and number != max(known)):
                continue
            if number not in known:
                trial.report(joint, number)
            # Optuna judges the newest one; asked for each: `halving` counts
            low = number if trial.should_prune() else low
        return low if found[-1][1] else None

    def _discard(self, number: int) -> None:
        """Remove the weights of a trial that was pruned, if its run has ended."""
        run = self._files(number)
        with suppress(Busy), own(run):
            discard_weights(run)


def suggest(trial: Any, key: str, parameter: Range | dict[str, Any]) -> None:
    """Let Optuna choose a parameter, unless the trial has it already."""
    if isinstance(parameter, dict):
        trial.suggest_categorical(key, list(parameter))
    elif parameter.whole:
        trial.suggest_int(key, parameter.low, parameter.high, log=parameter.log)
    else:
        trial.suggest_float(key, parameter.low, parameter.high, log=parameter.log)


def pruner_of(optuna: Any, file: SearchFile) -> Any:
    """Return the pruner. The resource that ``halving`` deals out is the number of evaluations."""
    if file.pruner == "none":
        return optuna.pruners.NopPruner()
    if file.pruner == "median":
        return optuna.pruners.MedianPruner()
    return optuna.pruners.SuccessiveHalvingPruner(min_resource=1, reduction_factor=2)


def _check(space: SearchSpace, directory: SweepDirectory) -> None:
    """Raise UserError if the directory has other content, or another search."""
    check_output(directory.path, directory.search, "search")
    if not directory.search.is_file():
        return
    saved, now = load_extended(directory.search).value, space.resolved
    for key in now:
        if key != "trials" and _without_place(saved.get(key)) != _without_place(now[key]):
            raise UserError(
                f"{directory.path} holds a search with another `{key}`: take the change back, or "
                "choose another --output DIR"
            )


def _without_place(value: Any) -> Any:
    """Leave out ``data_dir`` of ``set``: the data may have moved."""
    if isinstance(value, dict):
        return {key: each for key, each in value.items() if key != "data_dir"}
    return value
