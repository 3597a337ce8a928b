"""Multi-task BERT training from one YAML file: the command line."""
# PYTHON_ARGCOMPLETE_OK

import sys

try:
    import argparse
    import contextlib
    import errno
    import importlib
    import io
    import os
    from functools import partial
    from pathlib import Path
    from types import ModuleType
    from typing import Any

    from multitask.utils.errors import (
        LIMITS,
        STANDARD_OUTPUT,
        PeerLost,
        UserError,
        is_first_process,
        is_out_of_memory,
        is_panic,
        one_line,
        reason_of,
        suggest,
    )
    from multitask.utils.heartbeat import talking, working
    from multitask.utils.names import MODULES_VARIABLE
    from multitask.utils.terminal import escape_output
    from multitask.utils.versions import VERSION, git_revision, program_name
except KeyboardInterrupt:
    print("error: interrupted", file=sys.stderr)
    sys.exit(130)

COMMANDS = tuple(
    "train ablate tune check evaluate predict attention sts index search serve evaluate-search "
    "importance export table report score".split()
)
ADVICE = {
    errno.ENOSPC: "; what was saved before is intact: free space",
    errno.EEXIST: ": a file of that name is where a directory is needed: choose another place",
    errno.ENOTDIR: ": a file is where a directory is needed: choose another place",
    **{number: f": {remedy}" for number, remedy in LIMITS.items()},
}
EPILOG = "Every key of the YAML file: docs/configuration.md. Bad input: one line and exit code 2."


def command_module(name: str) -> ModuleType:
    return importlib.import_module(f"multitask.commands.{name.replace('-', '_')}")


def command_parser(name: str) -> argparse.ArgumentParser:
    module = command_module(name)
    parser = argparse.ArgumentParser(
        prog=f"{program_name()} {name}", description=module.__doc__, epilog=EPILOG
    )
    module.add_arguments(parser)
    text = "let the YAML file name `PACKAGE.module:Class` of this package, also from here"
    parser.add_argument("--allow-module", metavar="PACKAGE", action="append", help=text)
    return parser


def parse(name: str, arguments: list[str]) -> argparse.Namespace:
    """Parse a command's arguments. Raises UserError for an option that is a key of the config."""
    parser = command_parser(name)
    parsed, unknown = parser.parse_known_intermixed_args(arguments)
    for word in unknown:
        from multitask.config.validation_error import full_keys

        key = word.partition("=")[0].removeprefix("--").replace("-", "_")
        if word.startswith("--") and (keys := full_keys(key.rpartition(".")[2])):
            meant = " or ".join(one if "=" in one else f"{one}=VALUE" for one in keys)
            raise UserError(f"{word}: no such option; a key of the config is set by {meant}")
    if unknown:
        parser.error(f"unrecognized arguments: {' '.join(unknown)}")
    return parsed


def print_help() -> None:
    program = program_name()
    print(f"usage: {program} [COMMAND] ...   ({program} COMMAND --help: its arguments)\n")
    print("Train one BERT encoder on several tasks from one YAML file.\n")
    width = max(map(len, COMMANDS))
    for name in COMMANDS:
        summary = (command_module(name).__doc__ or "").partition("\n")[0].partition(" (docs/")[0]
        print(f"  {name:{width}}  {summary.removesuffix('.')}")
    print(f"\nExample: {program} configs/demo.yaml training.epochs=1 --overwrite\n{EPILOG}")


def complete() -> None:
    """Answer a shell that completes a command line (``register-python-argcomplete``)."""
    import argcomplete

    parser = argparse.ArgumentParser(prog=program_name())
    commands = parser.add_subparsers()
    for name in COMMANDS:
        command_module(name).add_arguments(commands.add_parser(name))
    argcomplete.autocomplete(parser)


def main(arguments: list[str]) -> int:
    try:
        os.environ.setdefault("THP_MEM_ALLOC_ENABLE", "1")  # torch: large tensors in huge pages
        escape_output()
        try:
            os.getcwd()  # noqa: PTH109 - libraries end the process in a directory that was deleted
        except FileNotFoundError:
            raise UserError("the working directory was deleted: change to another one") from None
        return run(arguments)
    except UserError as error:
        with contextlib.suppress(OSError):
            sys.stdout.flush()  # earlier output comes before the error
        if is_first_process() or isinstance(error, PeerLost):  # the others have the same error
            complain(str(error))
        return error.exit_code
    except OSError as error:
        if error.filename == STANDARD_OUTPUT:
            discard(1)
        place = f"{error.filename}: " if error.filename else ""
        complain(f"{place}{error.strerror or error}{ADVICE.get(error.errno or 0, '')}")
    except (MemoryError, RuntimeError, ImportError) as error:
        if not is_out_of_memory(error):
            raise
        remedy = "or lower `batch_size` or `max_length` of the tasks"
        complain(f"too little memory ({reason_of(error, 200)}): {LIMITS[errno.ENOMEM]}, {remedy}")
    except KeyboardInterrupt:
        trains = arguments and (arguments[0] == "train" or arguments[0] not in COMMANDS)
        advice = "; a run that has saved a checkpoint goes on with --resume" if trains else ""
        complain(f"interrupted{advice}")
    except BaseException as error:
        if not is_panic(error):
            raise
        advice = (
            "a file that it reads is damaged, such as an encoder's tokenizer.json: copy it anew"
        )
        complain(f"a library failed ({reason_of(error, 200)}): {advice}")
    return 2


def complain(message: str) -> None:
    """Print an error in one line, if stderr can be written."""
    try:
        print(f"error: {one_line(message)}", file=sys.stderr)
    except OSError:
        discard(2)


def discard(stream: int) -> None:
    """Send a stream that cannot be written nowhere: Python flushes it once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream)


class StandardOutput(io.FileIO):
    """The standard output, whose errors have its name, as those of other files do."""

    def write(self, data: Any) -> int:
        try:
            return super().write(data)
        except OSError as error:
            error.filename = STANDARD_OUTPUT
            raise


def run(arguments: list[str]) -> int:
    if not arguments or arguments[0] in ("-h", "--help"):
        print_help()
        sys.stdout.flush()
        return 0 if arguments else 2
    if arguments == ["--version"]:
        commit = git_revision()
        print(f"multitask {VERSION}" + (f" (commit {commit})" if commit else ""))
        sys.stdout.flush()
        return 0
    name, rest = arguments[0], arguments[1:]
    if name not in COMMANDS:
        meant = suggest(name, list(COMMANDS))
        if "did you mean" in meant and not Path(name).exists():
            print(f"error: no such command, and no such config: {name!r}{meant}", file=sys.stderr)
            return 2
        name, rest = "train", arguments
    parsed = parse(name, rest)
    if allowed := vars(parsed).pop("allow_module"):
        os.environ[MODULES_VARIABLE] = ",".join(allowed)
    if MODULES_VARIABLE in os.environ:
        sys.path.append(os.getcwd())  # noqa: PTH109
    with talking(partial(print, file=sys.stderr)), working(name):
        command_module(name).run(parsed)
    sys.stdout.flush()
    return 0


def program() -> None:
    """Run the command line of this process, and end it with the exit code."""
    if "_ARGCOMPLETE" in os.environ:
        complete()
    if sys.stdout is None:
        print("error: standard output is closed: send it to a file or /dev/null", file=sys.stderr)
        sys.exit(2)
    sys.stdout = io.TextIOWrapper(
        io.BufferedWriter(StandardOutput(1, "w", closefd=False)),
        encoding=sys.stdout.encoding,
        errors=sys.stdout.errors,
        line_buffering=bool(sys.stdout.line_buffering),
    )
    sys.exit(main(sys.argv[1:]))


if __name__ == "__main__":
    program()
