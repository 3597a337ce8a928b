"""Search hyperparameters: Optuna suggests values, an engine trains them, Optuna gets the scores.

- A trial is an ordinary ``train`` command in the directory ``cells/trial-N/seed-S``.
- Its score is that on the holdout. Dev stays unseen.
- A training knows nothing of Optuna: this process reads the log of a trial, and cancels it.

Only this module imports Optuna.
"""

import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.reporting.statistics import holdout_scores
from multitask.store.files import remove_scraps, write_text
from multitask.store.lock import Busy, owned
from multitask.store.outputs import check_output
from multitask.store.prepare_run import discard_weights, own
from multitask.store.run_directory import RunDirectory
from multitask.sweep.engines.base import Settings, load_engine
from multitask.sweep.pool import Pool, working
from multitask.sweep.progress_bars import Progress
from multitask.sweep.run_sweep import check_saved, choose_kernels, interrupt
from multitask.sweep.search_space import Range, SearchSpace
from multitask.sweep.study import (
    NOTE,
    Study,
    cell_of,
    divergence,
    evaluations,
    make_study,
    run_of,
    saved_trial,
)
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, check_ended
from multitask.sweep.tuning_results import OPEN, Tried, write_results
from multitask.utils.errors import UserError, one_line
from multitask.utils.optional import optional
from multitask.utils.signals import on_signal

Begun = list[tuple[Any, Run]]  # trials that have not ended, with their runs


def tune(
    space: SearchSpace, settings: Settings, *, engine: str, keep: bool, say: Callable[[str], None]
) -> list[Path]:
    """Run the trials of a search that are not over yet; write the results, and return the files.

    Args:
        space: a validated search file.
        settings: the options of the engine. An earlier start in their directory is continued.
        engine: the name of the engine.
        keep: keep the weights of finished trials.
        say: prints a line.

    Raises:
        Busy: another process searches there.
        UserError: Optuna is not installed; the directory has other content or another search; some
            trials failed; the search was interrupted. Then the results so far are written.
    """
    optuna = optional("optuna", "tune needs Optuna", "tune")
    directory, total = SweepDirectory(settings.directory), space.file.trials
    _check(space, directory)
    with owned(directory.lock, "searches there"):
        _check(space, directory)  # again: another process may have been faster
        remove_scraps(directory.path)
        write_text(directory.search, dump_yaml(space.resolved))
        kernels = choose_kernels(directory, [run_of(space, directory, 0, space.first)])
        study = make_study(optuna, space, directory)
        begun = restore(study)
        failed: list[Failure] = []
        stopped = False
        with Progress(total, say) as progress:
            progress.skipped(study.over)
            try:
                if study.over < total:
                    with on_signal(interrupt):
                        pool = Pool(load_engine(engine, settings), settings, keep, progress)
                        _train(study, begun, pool, kernels, failed)
            except KeyboardInterrupt:
                stopped = True
        results = tried(study, failed)
        files = write_results(space, directory.path, results, study.importances(), say=say)
        check_ended(
            study.over,
            total,
            "trials are over",
            output=directory.path,
            failed=failed,
            stopped=stopped,
        )
        return files


def restore(study: Study) -> Begun:
    """Tell the study how the trials of earlier starts ended; return those that are to be trained.

    Trial 0 of a new search is one of these. Raises UserError if an earlier start trained a trial
    with another config.
    """
    begun = []
    for _ in study.trials("WAITING"):
        trial = study.study.ask()
        run, _ = begin(study, trial)
        if run:
            begun.append((trial, run))
    return begun


def _train(
    study: Study, begun: Begun, pool: Pool, kernels: str | None, failed: list[Failure]
) -> None:
    """Ask for trials, submit and watch them and tell how they end, until enough are over.

    ``begun`` are the trials to start with. Trials that fail are added to ``failed``. If the trial
    that ended before one of them failed too, or none has ended, the reason may be the same for all
    trials: no new one is asked for.

    Raises KeyboardInterrupt after every trial has saved its state and ended.
    """
    total, jobs, settled = study.space.file.trials, pool.settings.slots, pool.progress.settled
    live: dict[str, Any] = {}  # the trials that train, by the name of their run
    told: Counter[str] = Counter()  # how many evaluations of a run the study has
    good = False  # the trial that ended last did not fail
    asking = True

    def start(trial: Any, run: Run) -> None:
        live[run.name] = trial
        pool.add(run.with_kernels(kernels))

    def more() -> bool:
        return asking and len(study.trials()) < total

    for trial, run in begun:
        start(trial, run)
    with working(pool):
        while True:
            while more() and pool.open < jobs:
                trial = study.study.ask()
                new, said = begin(study, trial)
                if new:
                    start(trial, new)
                else:
                    settled(cell_of(trial.number), said)
            for run, how, failure in pool.look():
                trial = live.pop(run.name, None)
                if trial is None:  # it was pruned
                    _discard(run.files)
                elif failure and not divergence(run.files):
                    failed.append(Failure(run, failure))
                    settled(run.name, failed[-1].shown)
                    asking, good = asking and good, False
                else:
                    settled(run.name, f"{tell(study, trial, run)} ({how})")
                    good = True
            for name in [name for name in pool.running if name in live]:
                low = report(study, live[name], pool.running[name].run, told)
                if low is not None:
                    pool.drop(name)
                    said = f"pruned at evaluation {low}"
                    settled(name, study.end(live.pop(name), "PRUNED", said))
            if not pool.open and not more():
                return
            pool.wait()


def begin(study: Study, trial: Any) -> tuple[Run | None, str]:
    """Choose the values of a trial; return its run, or how it ended if nothing is left to train.

    Raises UserError if an earlier start trained this trial with another config.
    """
    space, directory = study.space, study.directory
    earlier = saved_trial(directory, trial.number)
    for place, (key, parameter) in enumerate(space.parameters.items()):
        study.sample(trial.number, place)
        suggest(trial, key, parameter)
    if "state" not in earlier:
        study.save(trial)
    try:
        run = run_of(space, directory, trial.number, trial.params)
    except UserError as error:
        return None, study.end(trial, "PRUNED", f"not possible: {error}")
    check_saved([run])
    if "state" in earlier:
        report(study, trial, run)
        if earlier["state"] == "PRUNED":  # a kill may have left its weights
            _discard(run.files)
        return None, study.end(trial, earlier["state"], earlier[NOTE])
    if run.settled or (divergence(run.files) and not run.owner):
        return None, tell(study, trial, run)
    return run, ""


def suggest(trial: Any, key: str, parameter: Range | dict[str, Any]) -> None:
    """Let Optuna choose a parameter, unless the trial has it already."""
    if isinstance(parameter, dict):
        trial.suggest_categorical(key, list(parameter))
    elif parameter.whole:
        trial.suggest_int(key, parameter.low, parameter.high, log=parameter.log)
    else:
        trial.suggest_float(key, parameter.low, parameter.high, log=parameter.log)


def tell(study: Study, trial: Any, run: Run) -> str:
    """Tell the study the scores of a finished run, or that it diverged; return them as a text."""
    report(study, trial, run)
    if not run.finished:
        return study.end(trial, "FAIL", f"diverged: {divergence(run.files)}")
    try:
        values = holdout_scores(run.directory, study.space.file.objectives)
    except UserError as error:
        return study.end(trial, "PRUNED", str(error))
    if any(map(math.isnan, values)):
        return study.end(trial, "PRUNED", "its score is undefined")
    study.study.tell(trial, values)
    return "holdout " + ", ".join(f"{value:.3f}" for value in values)


def report(study: Study, trial: Any, run: Run, told: Counter[str] | None = None) -> int | None:
    """Tell the study the new evaluations of a trial; return the number of one that is too low.

    ``told`` is how many it has by the run's name. Returns None after the last evaluation of the
    training: the score comes next.
    """
    if study.space.file.pruner == "none":
        return None
    found, low = evaluations(run.files), None
    if told is not None:
        if len(found) <= told[run.name]:
            return None
        told[run.name] = len(found)
    known = study.trials()[trial.number].intermediate_values
    for number, (joint, _) in enumerate(found, 1):
        if joint is None or (number in known and number != max(known)):
            continue
        if number not in known:
            trial.report(joint, number)
        # Optuna judges the newest one; asked for each: `halving` counts
        low = number if trial.should_prune() else low
    return low if found and found[-1][1] else None


def tried(study: Study, failed: Sequence[Failure]) -> list[Tried]:
    """Return what became of each trial."""
    reasons = {failure.run.cell: f"failed: {failure.reason}" for failure in failed}
    best, seed, result = study.best(), study.space.file.seed, []
    for trial in study.trials():
        cell, finished = cell_of(trial.number), trial.state.name == "COMPLETE"
        state = reasons.get(cell, "finished" if finished else trial.user_attrs.get(NOTE, OPEN))
        values = trial.values if finished else ()
        place, is_best = study.directory.run(cell, seed), trial.number in best
        result.append(Tried(trial.number, one_line(state), trial.params, values, is_best, place))
    return result


def _discard(run: RunDirectory) -> None:
    """Remove the weights of a trial that was pruned, if its run has ended."""
    with suppress(Busy), own(run):
        discard_weights(run)


def _check(space: SearchSpace, directory: SweepDirectory) -> None:
    """Raise UserError if the directory has other content, or another search."""
    check_output(directory.path, directory.search.name)
    if not directory.search.is_file():
        return
    saved: dict[str, Any] = load_extended(directory.search).value
    now: dict[str, Any] = space.resolved
    for values in (saved, now):
        values.get("set", {}).pop("data_dir", None)  # the data may have moved
    for key in now:
        if key != "trials" and saved.get(key) != now[key]:
            raise UserError(
                f"{directory.path} holds a search with another `{key}`: take the change back, or "
                "choose another --output DIR"
            )
