"""Seconds until each part of the reply of `serve` has arrived, for a short text and a long one.

    python -m benchmarks.serve RUN [--rounds 5]

RUN is a run directory, such as that of `configs/cs224n_minilm.yaml data_dir=data --try`. A
separate process serves the page. Times are medians over rounds. They count from the request: to the
first byte, to "Working", to the answer of the last task, and to the end, after the pictures. Other
programs hardly change the CPU time of the server (Linux).
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
Times = tuple[float, float]  # wall, CPU of the server
PARTS = ("first byte", "Working", "answers", "pictures")


def cpu_seconds(process: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def reply(process: int, port: int, text: str) -> tuple[list[Times], int]:
    """Post a text; return the times until each of PARTS, and the size of the reply in bytes."""
    began = time.perf_counter(), cpu_seconds(process)
    connection = http.client.HTTPConnection("127.0.0.1", port)
    form = {"Content-Type": "application/x-www-form-urlencoded"}
    connection.request("POST", "/", urlencode({"first": text, "second": ""}), form)
    response = connection.getresponse()
    times: dict[str, Times] = {}
    page = b""
    answers = 0
    while chunk := response.read1():
        now = time.perf_counter() - began[0], cpu_seconds(process) - began[1]
        page += chunk
        times.setdefault("first byte", now)
        if WORKING in page:
            times.setdefault("Working", now)
        if page.count(ANSWER) > answers:
            answers, times["answers"] = page.count(ANSWER), now
        times["pictures"] = now
    connection.close()
    return [times[part] for part in PARTS], len(page)


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
            rounds = [reply(server.pid, int(found[1]), text) for _ in range(arguments.rounds)]
            for place, kind in enumerate(("wall", "CPU")):
                parts = zip(*([time[place] for time in times] for times, _ in rounds), strict=True)
                medians = [f"{statistics.median(part):.2f}" for part in parts]
                rows.append([name, kind, *medians, f"{rounds[0][1] / 1e6:.2f}"])
    finally:
        server.terminate()
        server.wait()
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"{cores} cores, load {load:.1f}, {arguments.rounds} rounds, commit {git_revision()};")
    print(f"the address was printed after {started:.1f} seconds\n")
    print(markdown_table(["seconds until", "time", *PARTS, "MB"], rows))


if __name__ == "__main__":
    main()
