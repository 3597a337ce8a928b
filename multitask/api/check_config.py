# Tested by tests/commands/test_check.py
"""Check everything that a run needs, and plan it."""

from collections.abc import Sequence
from pathlib import Path

from multitask.api.read_source import read_source
from multitask.api.row_files import Rows
from multitask.config import Config
from multitask.config.prepare_run_directory import check_directory
from multitask.config.yaml_merge import Source
from multitask.utils.errors import UserError


def check(
    config: Source | Config, overrides: Sequence[str] = (), *, rows: Rows | None = None
) -> str:
    """Check what ``multitask.train`` with these arguments needs, and return its plan as text.

    The files of ``rows`` are written, as the plan is made from them. Raises UserError for the first
    mistake.
    """
    return check_config(read_source(config, overrides, rows))


def check_config(config: Config) -> str:
    """Load everything that a run needs, and return its plan; the run directory is not written.

    Raises UserError for the first mistake.
    """
    from multitask.training.describe_plan import describe_plan
    from multitask.training.setup import set_up
    from multitask.utils.device import pick_device

    with config.errors_at(("device",)):
        device = pick_device(config.device)
    lines = describe_plan(set_up(config, device))
    try:
        check_directory(Path(config.output_dir), resume=False, overwrite=False)
    except UserError as error:
        lines = [*lines, f"warning: {error}"]
    return "\n".join(lines)
