"""Search hyperparameters: Optuna suggests values, an engine trains them, Optuna gets the scores.

- A trial is an ordinary ``train`` command in the directory ``cells/trial-N/seed-S``.
- Its score is that on the holdout. Dev stays unseen.
- A training knows nothing of Optuna: this process reads the log of a trial, and cancels it.

``study.py`` has what concerns Optuna.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

from multitask.config.yaml_merge import load_extended
from multitask.config.yaml_reader import dump_yaml
from multitask.store.files import remove_scraps, write_text
from multitask.store.lock import owned
from multitask.store.outputs import check_output
from multitask.sweep.engines.base import Settings, load_engine
from multitask.sweep.pool import Pool, working
from multitask.sweep.progress_bars import Progress
from multitask.sweep.run_sweep import choose_kernels, interrupt
from multitask.sweep.search_space import SearchSpace
from multitask.sweep.study import Begun, Study, cell_of, discard, divergence, make_study, run_of
from multitask.sweep.sweep_directory import Failure, Run, SweepDirectory, check_ended
from multitask.sweep.tuning_results import write_results
from multitask.utils.errors import UserError
from multitask.utils.optional import optional
from multitask.utils.signals import on_signal


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
        begun = study.restore()
        failed: list[Failure] = []
        stopped = False
        with Progress(total, say) as progress:
            progress.skipped(study.over)
            try:
                if study.over < total:
                    with on_signal(interrupt):
                        pool = Pool(load_engine(engine, settings), settings, keep, progress)
                        _train(study, begun, pool, kernels, failed=failed)
            except KeyboardInterrupt:
                stopped = True
        results, importances = study.tried(failed), study.importances()
        files = write_results(space, directory.path, results, importances, say=say)
        check_ended(
            study.over,
            total,
            "trials are over",
            output=directory.path,
            failed=failed,
            stopped=stopped,
        )
        return files


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
                trial, new, said = study.ask()
                if new:
                    start(trial, new)
                else:
                    settled(cell_of(trial.number), said)
            for run, how, failure in pool.look():
                trial = live.pop(run.name, None)
                if trial is None:  # it was pruned
                    discard(run.files)
                elif failure and not divergence(run.files):
                    failed.append(Failure(run, failure))
                    settled(run.name, failed[-1].shown)
                    asking, good = asking and good, False
                else:
                    settled(run.name, f"{study.tell(trial, run)} ({how})")
                    good = True
            for name in [name for name in pool.running if name in live]:
                low = study.report(live[name], pool.running[name].run)
                if low is not None:
                    pool.drop(name)
                    said = f"pruned at evaluation {low}"
                    settled(name, study.end(live.pop(name), "PRUNED", said))
            if not pool.open and not more():
                return
            pool.wait()


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
