"""A server on the loopback address, which no other machine can reach; no torch here."""

import socket
from threading import Lock
from typing import TYPE_CHECKING, Any

from multitask.utils.errors import UserError
from multitask.utils.optional import optional

if TYPE_CHECKING:
    from flask import Flask

ADDRESS = "127.0.0.1"


def import_flask() -> Any:
    """Import the library. Raises UserError if it is missing."""
    return optional("flask", "the page needs Flask", "flask")


def listen(port: int) -> socket.socket:
    """A socket that listens on the loopback address; 0 takes any free port.

    Raises UserError for a port that cannot be had.
    """
    if not 0 <= port <= 65535:
        raise UserError(f"--port {port}: expected 0 (any free one) to 65535")
    listening = socket.socket()
    try:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((ADDRESS, port))
        listening.listen()
    except OSError as error:
        listening.close()
        reason = (error.strerror or str(error)).lower()
        raise UserError(f"--port {port}: {reason}: choose another one") from error
    return listening


def serve(app: "Flask", listening: socket.socket, busy: Lock) -> None:
    """Answer until Ctrl-C; what holds ``busy`` then is finished first."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        def log_request(self, *_: object) -> None:
            """Nothing: what was asked is in the browser."""

    # Threads, since a browser opens connections that it does not use: one would block all others.
    port, handle = listening.getsockname()[1], listening.fileno()
    server: Any = make_server(ADDRESS, port, app, threaded=True, request_handler=Handler, fd=handle)
    server.serve_forever()
    server.handle_error = lambda *_: None  # of a connection that ends because we end
    busy.acquire()
