"""The command line, called in this process."""

import run_multitask


def main(*arguments: object) -> int:
    """Run a command; return its exit code."""
    return run_multitask.main([str(argument) for argument in arguments])
