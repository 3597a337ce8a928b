# Tested by tests/commands/test_train.py
"""Train a config, with advice for what may go wrong."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from multitask.config import Config
from multitask.config.prepare_run_directory import check_directory, own
from multitask.config.run_directory import RunDirectory
from multitask.utils.errors import LIMITS, STANDARD_OUTPUT, TryAgain, UserError, reason_of


def train_config(
    config: Config, *, resume: bool = False, overwrite: bool = False, discard: bool = False
) -> None:
    """Train a run. ``discard`` removes weights, checkpoints and the encoder copy at its end.

    Raises:
        Busy: another process trains in the directory.
        TryAgain: Ctrl-C or SIGTERM stopped the run; its state is saved.
        UserError: bad input, a full disk, or a loss that is not finite.
    """
    # in every process: if only some stopped here, the others would wait for them
    directory = Path(config.output_dir)
    check_directory(directory, resume=resume, overwrite=overwrite)
    # now, as the imports take seconds; `train` does it for several processes
    early = nullcontext() if "RANK" in os.environ else own(RunDirectory(directory))
    with _errors_of_files(directory), early:
        from torch import OutOfMemoryError

        from multitask.training.train_run import train
        from multitask.training.trainer import Interrupted

        try:
            train(config, resume=resume, overwrite=overwrite, discard=discard)
        except Interrupted:
            raise TryAgain(
                f"interrupted; the state is saved in {config.output_dir}: go on with the same "
                "command and --resume"
            ) from None
        except OutOfMemoryError as error:
            raise UserError(
                "the GPU's memory is full: lower `batch_size` (and raise `accumulation`) or "
                "`max_length` of the tasks"
            ) from error


@contextmanager
def _errors_of_files(directory: Path) -> Iterator[None]:
    """Turn an OSError, of a full disk or a read-only directory, into advice.

    Older files are intact.
    """
    try:
        yield
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            raise
        reason = error.strerror or reason_of(error)
        place = error.filename or directory
        remedy = LIMITS.get(error.errno or 0)
        advice = remedy or "choose another output_dir=DIR"
        if RunDirectory(directory).metrics.exists():
            remedy = remedy or "free space"
            advice = f"what was saved before is intact: {remedy}, then go on with --resume"
        # with too many open files, it may be a file that is only read
        what = "" if error.errno == errno.EMFILE else "cannot be written: "
        raise UserError(f"{place}: {what}{reason}; {advice}") from error
