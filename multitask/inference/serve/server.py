"""A server on the loopback address, which other machines cannot reach."""

import logging
import socket
from threading import Lock
from typing import TYPE_CHECKING, Any

from multitask.utils.errors import UserError
from multitask.utils.heartbeat import working
from multitask.utils.optional import optional

if TYPE_CHECKING:
    from flask import Flask

ADDRESS = "127.0.0.1"


def import_flask() -> Any:
    """Import the library. Raises UserError if it is missing."""
    return optional("flask", "the page needs Flask", "serve")


def listen(port: int) -> socket.socket:
    """Open a socket that listens on the loopback address; port 0 takes any free port.

    Raises UserError for a port that is invalid or in use.
    """
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((ADDRESS, port))
        listening.listen()
    except (OSError, OverflowError) as error:  # in use, or above 65535
        listening.close()
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"--port {port}: {reason}: choose another one") from error
    return listening


def serve(app: "Flask", listening: socket.socket, busy: Lock) -> None:
    """Serve until Ctrl-C; a request that holds ``busy`` is finished first."""
    from werkzeug.serving import make_server

    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # the browser shows the requests
    # threads, because a browser opens unused connections, which would block a single thread
    port, handle = listening.getsockname()[1], listening.fileno()
    server: Any = make_server(ADDRESS, port, app, threaded=True, fd=handle)
    with working(""):  # it waits for requests
        server.serve_forever()
    server.handle_error = lambda *_: None  # connections that end because the server ends
    busy.acquire()
