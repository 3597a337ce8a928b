"""Check out two commits and run the cases of tools/same_results.py in them."""

import contextlib
import hashlib
import importlib.metadata
import json
import os
import platform
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from string import Template
from typing import Any

from same_results_files import write_files

HERE = Path(__file__).resolve().parent
SOURCES = sorted(HERE.glob("same_results*"))
PACKAGES = ("torch", "transformers", "numpy", "tokenizers")
THREADS = ("OMP", "MKL", "OPENBLAS", "NUMEXPR", "VECLIB_MAXIMUM", "RAYON")
COMMAND_LIMIT = 600.0  # seconds
WORKING_TREE = "."
CHECKPOINTS = "checkpoints/step-*"
EVALUATED = "evaluated"  # the file, in a run, of what `evaluate` printed

running: set[int] = set()  # process groups that are alive
stopped = threading.Event()


class Failure(Exception):
    """Something could not be run: one line for the user."""


@dataclass(frozen=True)
class Side:
    """One of the two commits.

    Attributes:
        name: OLD or NEW.
        commit: its hash.
        tree: the directory where it is checked out.
        outputs: the directory of its outputs.
    """

    name: str
    commit: str
    tree: Path
    outputs: Path


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case in one commit.

    Attributes:
        directory: the directory of its outputs.
        paths: the paths in its outputs that a comparison replaces, with their placeholders.
        codes: the exit code of each command.
        seconds: how long the commands took.
        error: why the case failed; None if it did not.
        evaluations: each finished run with weights, and why `evaluate` failed; None if it did not.
    """

    directory: Path
    paths: dict[str, str]
    codes: list[int]
    seconds: float
    error: str | None
    evaluations: dict[str, str | None]


# ---- commits and their worktrees


def git(*arguments: str, **environment: str) -> str:
    """Return the output of git, run in the repository of the current directory."""
    command = ["git", *arguments]
    result = subprocess.run(command, capture_output=True, text=True, env=os.environ | environment)
    if result.returncode:
        raise Failure(f"git {arguments[0]}: {' '.join(result.stderr.split())}")
    return result.stdout.strip()


def resolve(revision: str) -> str:
    """The full hash of a revision; of the working tree, that of a commit made of it."""
    git("rev-parse", "--git-dir")  # says so where this is no repository
    if revision == WORKING_TREE:
        return commit_of_working_tree()
    try:
        return git("rev-parse", "--verify", "--quiet", "--end-of-options", f"{revision}^{{commit}}")
    except Failure:
        raise Failure(f"no such revision: {revision!r}") from None


def commit_of_working_tree() -> str:
    """Make a commit of the working tree, ignored files left out; no branch names it.

    The index of the checkout is not touched. The same files give the same hash.
    """
    if git("ls-files", "--unmerged"):
        raise Failure("the working tree has unmerged files: resolve them first")
    top = git("rev-parse", "--show-toplevel")
    with tempfile.TemporaryDirectory() as directory:
        index = {"GIT_INDEX_FILE": str(Path(directory) / "index")}
        git("-C", top, "read-tree", "HEAD", **index)
        git("-C", top, "add", "--all", ".", **index)
        tree = git("-C", top, "write-tree", **index)
    who = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER")
           for key, value in (("NAME", "same_results"), ("EMAIL", "none"),
                              ("DATE", "2000-01-01T00:00:00Z"))}  # fmt: skip
    return git("commit-tree", tree, "-p", "HEAD", "-m", "working tree", **who)


def make_sides(
    commits: list[str], scratch: Path, keep: Path | None, stack: contextlib.ExitStack
) -> list[Side]:
    """Check out both commits; their worktrees go when ``stack`` is closed."""
    sides = []
    for name, commit in zip(("OLD", "NEW"), commits, strict=True):
        tree = scratch / f"tree-{name}"
        stack.callback(remove_worktree, tree)
        git("worktree", "add", "--detach", "--quiet", str(tree), commit)
        outputs = scratch / f"outputs-{name}"
        if keep is not None:
            again = "-again" if name == "NEW" and commits[0] == commits[1] else ""
            outputs = keep.resolve() / f"{commit}-{fingerprint()}{again}"
            if again:  # the point is to run it twice
                shutil.rmtree(outputs, ignore_errors=True)
        sides.append(Side(name, commit, tree, outputs))
    return sides


def remove_worktree(tree: Path) -> None:
    """Remove a worktree, also one that is half there."""
    remove = ["git", "worktree", "remove", "--force", "--force", str(tree)]
    subprocess.run(remove, capture_output=True)
    shutil.rmtree(tree, ignore_errors=True)
    subprocess.run(["git", "worktree", "prune"], capture_output=True)


def fingerprint() -> str:
    """A hash of this tool, of Python and packages, and of the machine: outputs depend on them."""
    digest = hashlib.sha256()
    for file in SOURCES:
        if file.is_file():
            digest.update(file.read_bytes())
    for package in PACKAGES:
        digest.update(f"{package} {importlib.metadata.version(package)}".encode())
    digest.update(f"{sys.version} {platform.platform()} {platform.node()}".encode())
    return digest.hexdigest()[:12]


def prepare_outputs(side: Side, shared: dict[str, str]) -> None:
    """Write the tiny files and the shared configs, unless they are there."""
    mark = side.outputs / "written"
    if mark.exists():
        return
    shutil.rmtree(side.outputs, ignore_errors=True)
    (side.outputs / "shared").mkdir(parents=True)
    write_files(side.outputs / "files")
    for name, text in shared.items():
        (side.outputs / "shared" / name).write_text(filled(text, side, ""))
    mark.touch()


def filled(text: str, side: Side, case: str) -> str:
    """A config or a command with the directories of this side and of a case."""
    places = {
        "files": side.outputs / "files",
        "shared": side.outputs / "shared",
        "configs": side.outputs / "configs" / case,
        "here": side.outputs / "cases" / case,
    }
    return Template(text).substitute(places)


# ---- running the cases


@contextlib.contextmanager
def workers(jobs: int) -> Iterator[ThreadPoolExecutor]:
    """Threads that run cases. On the way out what is alive is killed and what waits is dropped."""
    pool = ThreadPoolExecutor(jobs)
    try:
        yield pool
    finally:
        stopped.set()
        for group in list(running):
            kill_group(group)
        pool.shutdown(cancel_futures=True)


def finished(future: Future[Outcome]) -> Outcome:
    """The result of a case; the wait lets Ctrl-C through."""
    while not future.done():
        time.sleep(0.1)
    return future.result()


def kill_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


def environment(cache: Path) -> dict[str, str]:
    """One thread, no GPU, no network, a token cache for this process."""
    rest = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return (
        rest
        | {f"{name}_NUM_THREADS": "1" for name in THREADS}
        | {
            "CUDA_VISIBLE_DEVICES": "",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
            "MULTITASK_CACHE": str(cache),
            "MULTITASK_KERNELS": "torch",  # the compiled ones draw other dropout
            "PYTHONHASHSEED": "0",
            "MPLBACKEND": "Agg",
            "COLUMNS": "200",
        }
    )


def run_case(side: Side, name: str, case: dict[str, Any]) -> Outcome:
    """Run the commands of a case, any YAML, or take what an earlier proof has kept."""
    directory = side.outputs / "cases" / name
    mark = side.outputs / "cases" / f"{name}.done"
    if mark.exists():
        saved = json.loads(mark.read_text())
        return Outcome(directory, **saved, seconds=0.0, error=None)
    configs = side.outputs / "configs" / name
    for old in (directory, configs, side.outputs / "caches" / name):
        shutil.rmtree(old, ignore_errors=True)
    for made in (directory, configs):
        made.mkdir(parents=True)
    for file, text in case.get("files", {}).items():
        (configs / file).write_text(filled(text, side, name))
    paths = {str(side.tree): "/TREE", str(side.outputs): "/WORK"}
    codes: list[int] = []
    error = None
    evaluations: dict[str, str | None] = {}
    began = time.monotonic()
    for number, step in enumerate(case["commands"], 1):
        code, reason = run_step(side, name, step, directory / f"printed-{number:02}.txt")
        codes.append(code)
        if reason:
            error = f"command {number} {reason}"
            break
    else:
        evaluations = evaluate_runs(side, directory)
        saved = {"paths": paths, "codes": codes, "evaluations": evaluations}
        if not stopped.is_set():  # it would have ended an evaluation
            mark.write_text(json.dumps(saved))
    return Outcome(directory, paths, codes, time.monotonic() - began, error, evaluations)


def evaluate_runs(side: Side, directory: Path) -> dict[str, str | None]:
    """Evaluate each finished run of a case that has weights; by run why it failed, or None."""
    reasons = {}
    for report in sorted(directory.rglob("report.json")):
        run = report.parent
        if any(run.glob("*/step-*.safetensors")):
            name = run.relative_to(directory).as_posix()
            printed = run / f"{EVALUATED}.txt"
            _, reasons[name] = run_step(side, directory.name, f"evaluate $here/{name}", printed)
    return reasons


def run_step(side: Side, case: str, step: Any, printed: Path) -> tuple[int, str | None]:
    """Run one command; its exit code, and why the case cannot go on (None where it can).

    What it prints goes to the file ``printed``, its errors to another one beside it.
    """
    killed = isinstance(step, dict)
    words = shlex.split(filled(step["kill"] if killed else step, side, case))
    run = Path(filled(step["run"], side, case)) if killed else None
    errors = printed.with_suffix(".err")
    with printed.open("w") as out, errors.open("w") as err:
        process = subprocess.Popen(
            [sys.executable, "run_multitask.py", *words],
            cwd=side.tree,
            env=environment(side.outputs / "caches" / case),
            stdout=out,
            stderr=err,
            stdin=subprocess.DEVNULL,
            start_new_session=True,
        )
        running.add(process.pid)
        try:
            code = wait(process, run)
        finally:
            kill_group(process.pid)
            running.discard(process.pid)
    if run is not None:
        printed.unlink()  # how far it came is chance
        if code != -signal.SIGKILL or (run / "report.json").exists():
            return code, f"ended before it could be killed, with exit code {code}"
        saved = any(run.glob(CHECKPOINTS))
        return code, None if saved else "saved no checkpoint"
    last = " ".join(errors.read_text().strip().splitlines()[-1:])
    return code, f"ended with exit code {code}: {last}" if code else None


def wait(process: subprocess.Popen[bytes], run: Path | None) -> int:
    """Wait for the end; with ``run``, kill the process once it has saved a checkpoint there."""
    began = time.monotonic()
    while (code := process.poll()) is None:
        saved = run is not None and any(run.glob(CHECKPOINTS))
        if saved or stopped.is_set() or time.monotonic() - began > COMMAND_LIMIT:
            kill_group(process.pid)
            return process.wait()
        time.sleep(0.005 if run is not None else 0.05)
    return code
