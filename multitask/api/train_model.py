"""Train a config, with advice for what may go wrong."""

import errno
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from multitask.api.read_source import Rows, read_source
from multitask.config import Config
from multitask.config.yaml_merge import Source
from multitask.store.prepare_run import check_directory
from multitask.store.run_directory import RunDirectory
from multitask.utils.errors import LIMITS, STANDARD_OUTPUT, TryAgain, UserError, reason_of
from multitask.utils.signals import Interrupted, interrupt, on_signal

if TYPE_CHECKING:
    from multitask.inference.load_run import TrainedRun
    from multitask.training.callbacks import Callback


def train(
    config: Source | Config | None = None,
    overrides: Sequence[str] = (),
    *,
    rows: Rows | None = None,
    callbacks: Sequence["Callback"] = (),
    resume: bool = False,
    overwrite: bool = False,
) -> "TrainedRun":
    """Train a run as the command does, and load it.

    Args:
        config: a YAML file, a dict of its keys and values, or a ``Config``. None: a classification
            task for each of ``rows``.
        overrides: config values to change, such as ``["training.epochs=1"]``.
        rows: a table per task, ``{"topic": T}``, or per task and split, ``{"topic": {"train": T,
            "dev": T}}``. A table is a ``datasets.Dataset``, a list of dicts, or anything that
            ``pyarrow.table`` takes. It is written as a Parquet file to the directory ``rows`` next
            to the run directory. Without dev rows a tenth of train is dev.
        callbacks: objects of ``multitask.Callback``, called in order before the checkpoints are
            saved. Checkpoints do not have their state. An exception from one ends the run.
        resume: go on from the last checkpoint; the other arguments must be the same.
        overwrite: replace the run in ``output_dir``.

    Raises:
        Busy: another process trains in the directory.
        TryAgain: Ctrl-C or SIGTERM stopped the run; its state is saved.
        UserError: bad input, a full disk, or a loss that is not finite.
    """
    began = time.perf_counter()
    if resume and overwrite:
        raise UserError("resume and overwrite: give one of them")
    loaded = read_source(config, overrides, rows)
    from multitask.inference.load_run import load
    from multitask.training.callbacks import Callback
    from multitask.utils.distributed import planned_world

    if planned_world() > 1:  # only the first process could load the run
        message = "several processes train by the command: torchrun run_multitask.py CONFIG"
        raise UserError(f"multitask.train trains in one process: {message}")
    for callback in callbacks:
        if not isinstance(callback, Callback):  # such as the class in place of an object
            message = "expected a list of objects of multitask.Callback"
            raise UserError(f"callbacks: {message}, not {callback!r:.60}")
    train_config(loaded, callbacks=callbacks, resume=resume, overwrite=overwrite, began=began)
    return load(loaded.output_dir)


def train_config(
    config: Config,
    *,
    callbacks: Sequence["Callback"] = (),
    resume: bool = False,
    overwrite: bool = False,
    discard: bool = False,
    began: float | None = None,
) -> None:
    """Train a run; ``callbacks`` as in ``train``.

    ``discard`` removes weights, checkpoints and the encoder copy at its end. ``wall_time_s`` of the
    report counts from ``began``, the clock (`time.perf_counter`) at the start; None: now.

    Raises:
        Busy: another process trains in the directory.
        TryAgain: Ctrl-C or SIGTERM stopped the run; its state is saved.
        UserError: bad input, a full disk, or a loss that is not finite.
    """
    directory = Path(config.output_dir)
    # before torch is loaded, and in every process: if only some stopped, the others would wait
    check_directory(directory, resume=resume, overwrite=overwrite)
    with _advice(directory, overwrite=overwrite, others=bool(callbacks)):
        from multitask.training.train_run import train as train_run

        train_run(
            config,
            callbacks=callbacks,
            resume=resume,
            overwrite=overwrite,
            discard=discard,
            began=began,
        )


@contextmanager
def _advice(directory: Path, *, overwrite: bool, others: bool) -> Iterator[None]:
    """Say what to do after a signal, and after an error of files or of the GPU's memory.

    ``others``: other code runs, too, whose errors of other files are left.
    """
    from torch import OutOfMemoryError

    try:
        with on_signal(partial(interrupt, begun=False)):
            yield
    except Interrupted as stopped:
        advice = "nothing was changed: give the same command again"
        if stopped.begun:
            option = "--resume in place of --overwrite" if overwrite else "--resume"
            saved = f"the state is saved in {directory}"
            advice = f"{saved}: go on with the same command and {option}"
        raise TryAgain(f"interrupted; {advice}") from None
    except OutOfMemoryError as error:
        raise UserError(
            "the GPU's memory is full: set `encoder.gradient_checkpointing=true`, or lower "
            "`batch_size` (and raise `accumulation`) or `max_length` of the tasks"
        ) from error
    except OSError as error:  # a full disk or a read-only directory; older files are intact
        in_run = directory.absolute() in Path(str(error.filename)).absolute().parents
        known = in_run or not others or error.errno in LIMITS
        if error.filename == STANDARD_OUTPUT or not known:
            raise
        remedy = LIMITS.get(error.errno or 0)
        advice = remedy or "choose another output_dir=DIR"
        if RunDirectory(directory).metrics.exists():
            remedy = remedy or "free space"
            advice = f"what was saved before is intact: {remedy}, then go on with --resume"
        # with too many open files, it may be a file that is only read
        what = "" if error.errno == errno.EMFILE else "cannot be written: "
        reason = error.strerror or reason_of(error)
        raise UserError(f"{error.filename or directory}: {what}{reason}; {advice}") from error
