"""``serve RUN``: what stops it before it starts, and the page in a real browser."""

import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from multitask import load
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.messages import complaint

TEXT, OTHER = "a good film , not dull", "the dog runs"
SCRIPT = "<script>document.title='taken'</script>../../etc/passwd"
HERE = "127.0.0.1"


def test_no_weights_and_no_index_are_one_line(tiny_run, tmp_path, capsys):
    pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
    copy = shutil.copytree(tiny_run, tmp_path / "copy")
    (weights,) = (copy / "weights").iterdir()
    weights.unlink()
    shutil.rmtree(copy / "checkpoints")  # which has them too
    assert str(weights) in complaint(capsys, "serve", copy, "--port", 0)
    pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")
    assert complaint(capsys, "serve", tiny_run, "--index", tmp_path, "--port", 0).startswith(
        f"{tmp_path}: no index there"
    )


@pytest.fixture(scope="module")
def index(tiny_run, tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("index")
    pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")
    (folder / "mine.txt").write_text("the cat sleeps\na bad film\nthe dog sees a bird\n<b>x</b>\n")
    assert main("index", tiny_run, "--texts", folder / "mine.txt", "--out", folder / "i") == 0
    return folder / "i"


@pytest.fixture(scope="module")
def page(tiny_run, index):
    """(address, process) of the real command."""
    pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
    command = [sys.executable, "run_multitask.py", "serve", str(tiny_run), "--index", str(index)]
    process = subprocess.Popen(
        [*command, "--port", "0"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1"},
        # a shell that starts tests in the background lets them ignore Ctrl-C, and their processes
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    )
    line = process.stdout.readline()
    address = re.match(rf"(http://{HERE}:\d+/) shows {re.escape(str(tiny_run))}; Ctrl-C", line)
    assert address, (line, process.stderr.read())
    yield address[1], process
    if process.poll() is None:
        process.kill()
        process.wait()


def examples(run):
    from multitask.inference.serve import responses

    return responses.examples(responses.Served(run, run.tasks))


@pytest.mark.slow
@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (390, "dark")])
def test_the_page_in_a_browser(width, scheme, page, browser, tiny_run):
    address, _ = page
    tab = browser.new_page(viewport={"width": width, "height": 844}, color_scheme=scheme)
    requests, mistakes = [], []
    tab.on("request", lambda request: requests.append(request.url))
    tab.on("pageerror", lambda error: mistakes.append(str(error)))
    tab.on("dialog", lambda dialog: mistakes.append(dialog.message))
    tab.goto(address)
    tab.get_by_label("First text").fill(TEXT)
    tab.get_by_label("Second text").fill(OTHER)
    tab.get_by_role("button", name="Try it").click()
    tab.wait_for_selector(".verdict")
    tab.wait_for_load_state("load")  # the reply is streamed: the pictures come after the answers

    run = load(tiny_run)
    (pair,) = run.predict("qqp", [(TEXT, OTHER)])
    names = [result["name"] for result in (*run.predict("sst", [TEXT, OTHER]), pair)]
    assert tab.locator(".verdict").all_inner_texts()[:3] == names
    assert tab.locator(".chosen .name").all_inner_texts() == names
    shown = tab.locator(".result[data-task=qqp] .percent").all_inner_texts()
    assert shown == [f"{100 * score:.1f} %" for score in pair["scores"]]

    pictures = tab.locator("#attention img")
    assert pictures.count() == 2
    for place in range(2):
        picture = pictures.nth(place)
        assert picture.evaluate("image => image.complete && image.naturalWidth > 300")
        assert picture.evaluate("image => image.clientWidth") <= width
        drawn = picture.evaluate("image => getComputedStyle(image).filter")
        assert drawn == {"light": "none", "dark": "invert(1) hue-rotate(180deg)"}[scheme]
    working = tab.locator(".working")
    assert working.count() == 5  # three tasks, the pictures, the nearest texts: all have arrived
    assert not any(working.nth(n).is_visible() for n in range(5))

    assert tab.locator(".nearest").first.locator("li").count() == 4

    tab.get_by_text("Show it here").click()
    frame = tab.frame_locator("iframe")
    assert "Run report" in frame.locator("h1").inner_text()
    assert tab.evaluate("document.documentElement.scrollWidth") == width
    ground = tab.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == {"light": "rgb(245, 246, 248)", "dark": "rgb(18, 22, 27)"}[scheme]

    title = tab.title()
    tab.get_by_label("First text").fill(SCRIPT)
    tab.get_by_role("button", name="Try it").click()
    tab.wait_for_selector(f"blockquote:has-text('{SCRIPT[:7]}')")
    tab.wait_for_load_state("load")
    assert tab.locator("blockquote").first.inner_text() == SCRIPT
    assert tab.title() == title

    tab.get_by_role("button", name="Example:").last.click()
    tab.wait_for_selector(".result[data-task=qqp] .verdict")
    tab.wait_for_load_state("load")
    (_, (one, two)) = examples(load(tiny_run))
    shown = tab.locator("blockquote").all_inner_texts()
    assert [" ".join(text.split()) for text in shown] == [one, two]

    tab.get_by_label("First text").fill("  ")
    tab.get_by_role("button", name="Try it").click()
    tab.wait_for_selector("[role=alert]")
    alert = tab.get_by_role("alert")
    assert alert.inner_text() == "The first text is empty." and alert.is_visible()
    tab.locator("#first").evaluate("field => field.removeAttribute('maxlength')")
    tab.get_by_label("First text").fill("a" * 2001)
    tab.get_by_role("button", name="Try it").click()
    tab.wait_for_selector("[role=alert]:has-text('2,001 characters')")
    assert "Traceback" not in tab.content()
    assert mistakes == []
    assert {urlsplit(url).hostname for url in requests if not url.startswith("data:")} == {HERE}
    tab.close()


@pytest.mark.slow
def test_ctrl_c_ends_it_quietly(page):
    address, process = page
    with urllib.request.urlopen(address) as reply:
        assert reply.status == 200
    host, port = urlsplit(address).hostname, urlsplit(address).port
    with socket.create_connection((host, port)):  # as a browser leaves one open
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert (process.returncode, errors) == (0, "")
