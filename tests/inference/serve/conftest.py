"""A tiny run on the page of `serve`, and an index that was made with it; read only."""

from pathlib import Path

import pytest

from multitask.inference.serve.responses import Served, open_run
from tests.support.commands import main

SCRIPT = "<script>alert('x')</script> </textarea><img src=http://x.y onerror=alert(1)> & {{ 7*7 }}"


@pytest.fixture(scope="module")
def served(tiny_run: Path) -> Served:
    return open_run(tiny_run, None)


@pytest.fixture(scope="session")
def index(tiny_run: Path, tmp_path_factory) -> Path:
    """Four texts, one of them long, one of them code."""
    pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")
    folder = tmp_path_factory.mktemp("index")
    texts = ["the cat sleeps", "", "a bad film", "a good film " * 60, SCRIPT]
    (folder / "mine.txt").write_text("\n".join(texts))
    words = ["--texts", folder / "mine.txt", "--out", folder / "i", "--task", "sts"]
    assert main("index", tiny_run, *words) == 0
    return folder / "i"
