"""Seconds until each part of the reply of `serve` has arrived, for a short text and a long one.

    python -m benchmarks.serve RUN [--rounds 5]

RUN is a run directory, such as that of `configs/cs224n_minilm.yaml data_dir=data --try`. The page
is served by a process of its own; the times are medians over rounds, from the request to the first
byte, to "Working", to the last task's answer, and to the end, after the pictures.
"""

import argparse
import http.client
import os
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path
from urllib.parse import urlencode

from multitask.reporting.table_formats import markdown_table
from multitask.utils.versions import git_revision

ROOT = Path(__file__).parent.parent
TEXTS = {
    "a text of 6 words": "A quiet triumph of a film .",
    "a text of 400 words": "the film is good " * 100,
}
WORKING, ANSWER = b'class="working"', b'class="result" data-task='
PARTS = ("first byte", "Working", "answers", "pictures")


def reply(port: int, text: str) -> tuple[list[float], int]:
    """Post a text; return the seconds until each of PARTS, and the size of the reply in bytes."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/", urlencode({"first": text, "second": ""}), form)
    response = connection.getresponse()
    seconds: dict[str, float] = {}
    page = b""
    answers = 0
    while chunk := response.read1():
        now, page = time.perf_counter() - began, page + chunk
        seconds.setdefault("first byte", now)
        if WORKING in page:
            seconds.setdefault("Working", now)
        if page.count(ANSWER) > answers:
            answers, seconds["answers"] = page.count(ANSWER), now
        seconds["pictures"] = now
    connection.close()
    return [seconds[part] for part in PARTS], len(page)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    command = [sys.executable, "run_multitask.py", "serve", str(arguments.run.absolute())]
    began = time.perf_counter()
    server = subprocess.Popen(
        [*command, "--port", "0"], cwd=ROOT, stdout=subprocess.PIPE, text=True
    )
    try:
        assert server.stdout
        found = re.search(r"http://127\.0\.0\.1:(\d+)/", server.stdout.readline())
        if not found:
            raise SystemExit("serve did not start")
        started = time.perf_counter() - began
        rows = []
        for name, text in TEXTS.items():
            rounds = [reply(int(found[1]), text) for _ in range(arguments.rounds)]
            medians = map(statistics.median, zip(*(seconds for seconds, _ in rounds), strict=True))
            rows.append([name, *(f"{one:.2f}" for one in medians), f"{rounds[0][1] / 1e6:.2f}"])
    finally:
        server.terminate()
        server.wait()
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, {arguments.rounds} rounds, commit {git_revision()}; ")
    print(f"the address was printed after {started:.1f} seconds\n")
    print(markdown_table(["seconds until", *PARTS, "MB"], rows))


if __name__ == "__main__":
    main()
