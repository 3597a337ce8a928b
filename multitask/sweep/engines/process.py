# Tested by tests/sweep/engines/test_base.py
"""Start the command of a job as a separate process."""

import ctypes
import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

PR_SET_PDEATHSIG = 1


def starter() -> "Callable[[Sequence[str], str, Mapping[str, str], str], subprocess.Popen[bytes]]":
    """Return the function that starts a command.

    It is nested, and needs only the standard library: Ray sends it to its workers by value, so they
    need not import ``multitask``.
    """
    death_signal = PR_SET_PDEATHSIG

    def start(
        command: Sequence[str], log: str, variables: Mapping[str, str], directory: str
    ) -> "subprocess.Popen[bytes]":
        """Start a command in a directory, with these variables, and append its output to the log.

        On Linux it gets SIGTERM, on which a run saves its state, when the calling thread dies.
        """
        libc = ctypes.CDLL(None) if sys.platform == "linux" else None
        parent = os.getpid()

        def die_with_parent() -> None:
            if libc is not None:
                libc.prctl(death_signal, signal.SIGTERM)
                if os.getppid() != parent:
                    os._exit(1)

        when = datetime.now().astimezone().isoformat(timespec="seconds")
        line = f"# start {when} on {socket.gethostname()}: {shlex.join(command)}\n"
        handle = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        with os.fdopen(handle, "ab", buffering=0) as output:
            output.write(line.encode(errors="surrogateescape"))  # a path may not be UTF-8
            return subprocess.Popen(
                command,
                cwd=directory,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **variables},
                start_new_session=True,  # Ctrl-C reaches it through the engine alone
                preexec_fn=die_with_parent,
            )

    return start
