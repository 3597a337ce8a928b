"""Train the tasks of a YAML file, evaluate them and write the report."""

import argparse
import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path

from multitask.commands.arguments import add_config


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_config(parser)
    group = parser.add_mutually_exclusive_group()
    text = "go on from the last checkpoint in output_dir; the same command otherwise"
    group.add_argument("--resume", action="store_true", help=text)
    group.add_argument("--overwrite", action="store_true", help="replace the run in output_dir")
    text = "remove weights, checkpoints and the encoder copy at the end, as `ablate` does"
    parser.add_argument("--discard-weights", action="store_true", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.config import load_config
    from multitask.config.prepare_run_directory import check_directory, own
    from multitask.config.run_directory import RunDirectory
    from multitask.utils.errors import TryAgain, UserError

    config = load_config(arguments.config, arguments.overrides)
    # in every process: if only some stopped here, the others would wait for them
    directory = Path(config.output_dir)
    check_directory(directory, resume=arguments.resume, overwrite=arguments.overwrite)
    # now, as the imports take seconds; `train` does it for several processes
    early = nullcontext() if "RANK" in os.environ else own(RunDirectory(directory))
    with _errors_of_files(directory), early:
        from torch import OutOfMemoryError

        from multitask.training.train_run import train
        from multitask.training.trainer import Interrupted

        try:
            train(
                config,
                resume=arguments.resume,
                overwrite=arguments.overwrite,
                discard=arguments.discard_weights,
            )
        except Interrupted:
            raise TryAgain(
                f"interrupted; the state is saved in {config.output_dir}: go on with the same "
                "command and --resume"
            ) from None
        except OutOfMemoryError as error:
            raise UserError(
                "the GPU's memory is full: set `encoder.gradient_checkpointing=true`, or lower "
                "`batch_size` (and raise `accumulation`) or `max_length` of the tasks"
            ) from error


@contextmanager
def _errors_of_files(directory: Path) -> Iterator[None]:
    """Turn an OSError, of a full disk or a read-only directory, into advice.

    Older files are intact.
    """
    from multitask.config.run_directory import RunDirectory
    from multitask.utils.errors import LIMITS, STANDARD_OUTPUT, UserError, reason_of

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
