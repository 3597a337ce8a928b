# Tested by tests/commands/test_check.py
"""Check everything that a run needs, and plan it."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from multitask.api.read_source import Rows, read_source
from multitask.config import Config
from multitask.config.yaml_merge import Source
from multitask.store.prepare_run import check_directory
from multitask.utils.errors import UserError
from multitask.utils.terminal import silent


def check(
    config: Source | Config | None = None,
    overrides: Sequence[str] = (),
    *,
    rows: Rows | None = None,
    dry_run: bool = True,
) -> str:
    """Check what ``multitask.train`` with these arguments needs, and return its plan as text.

    The files of ``rows`` are written, as the plan is made from them. With ``dry_run`` one batch of
    each task is taken forward and backward. Raises UserError for the first mistake.
    """
    return "\n".join(
        check_config(read_source(config, overrides, rows), dry_run=dry_run, say=silent)
    )


def check_config(config: Config, *, dry_run: bool, say: Callable[[str], None]) -> Iterator[str]:
    """Check a run as ``check``, and yield the parts of the text; its directory is not written.

    ``say`` prints what is going on.
    """
    from multitask.training.describe_plan import describe_plan
    from multitask.training.describe_plan import dry_run as one_batch_each
    from multitask.training.distillation import check_teachers
    from multitask.training.setup import set_up
    from multitask.utils.device import pick_device

    with config.errors_at(("device",)):
        device = pick_device(config.device)
    plan = set_up(config, device, say)
    check_teachers(config, plan.data.readers)
    yield "\n".join(describe_plan(plan))
    if dry_run:
        yield "\none batch of each task, forward and backward"
        yield "\n".join(f"  {line}" for line in one_batch_each(plan))
    try:
        check_directory(Path(config.output_dir), resume=False, overwrite=False)
    except UserError as error:
        yield f"warning: {error}"
