"""The socket, and the libraries that may be absent."""

import sys

import pytest

from multitask.inference.serve import server
from multitask.utils.errors import UserError


def test_only_the_loopback_address_listens():
    with server.listen(0) as listening:
        address, port = listening.getsockname()
        assert address == "127.0.0.1" and port > 0
        with pytest.raises(UserError, match=rf"^--port {port}: address already in use: choose an"):
            server.listen(port)


@pytest.mark.parametrize("port", [-1, 65536])
def test_numbers_that_are_no_port_are_refused(port):
    with pytest.raises(UserError, match=rf"--port {port}: expected 0 \(any free one\) to 65535"):
        server.listen(port)


def test_without_the_library_one_line_names_the_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "flask", None)
    with pytest.raises(UserError, match=r"the page needs Flask: pip install .*\[serve\]"):
        server.import_flask()
