"""The socket, and the libraries that may be absent."""

import sys

import pytest

from multitask.inference.serve import server
from multitask.utils.errors import UserError


def test_only_the_loopback_address_listens():
    with server.listen(0) as listening:
        address, port = listening.getsockname()
        assert address == "127.0.0.1" and port > 0
        for taken in (port, 65536):
            with pytest.raises(UserError, match=rf"^--port {taken}: .*: choose another one"):
                server.listen(taken)


def test_without_the_library_one_line_names_the_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flask", None)
    with pytest.raises(UserError, match=r"the page needs Flask: pip install .*\[serve\]"):
        server.import_flask()
