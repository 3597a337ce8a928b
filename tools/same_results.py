"""Prove that a refactor changed nothing: run two commits and compare all that they leave.

    python tools/same_results.py OLD NEW                    # two revisions
    python tools/same_results.py HEAD .                     # the working tree, uncommitted or not
    python tools/same_results.py OLD . --only smart,resume --keep /tmp/proof

Each commit is checked out in a git worktree, which is removed at the end. In each of them the same
short trainings and commands run through `run_multitask.py`, on one CPU thread: tiny random BERTs
and tiny files that this tool writes, and the packaged MiniLM on the embedded data. The cases are
in `same_results_cases.yaml`. At the end of a case each finished run with weights is loaded and
evaluated.

Compared, bit by bit: the exit code of each command and all values in the JSON, JSON lines, YAML,
CSV and TSV files, every tensor of the saved weights and exports, search indexes, and the numbers
of tables and the decimal fractions in printed text, Markdown, LaTeX and HTML. Not compared: the
git revision, versions, formats, times, rates, paths, figures and checkpoints. Other text is
wording: where it differs the case lists it, and it still counts as the same. So does a key of a
JSON or YAML file that only NEW writes, such as a new option with its default. If OLD cannot
evaluate a run and NEW can, the case says so and compares the rest: that is a fault that was mended.

Exit code 0: no difference. 1: differences, listed by case. 2: something could not be run.
"""

import argparse
import contextlib
import importlib.util
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import yaml
from same_results_compare import Comparison, compare, verdict
from same_results_run import (
    EVALUATED,
    HERE,
    Failure,
    Outcome,
    finished,
    make_sides,
    prepare_outputs,
    resolve,
    run_case,
    workers,
)

WARM_CACHE = "tokenizer.json: truncation"  # is not set where all tokens come from the cache
OF_EVALUATION = ("evaluation-dev.json", f"{EVALUATED}.txt")
SHOWN = 5  # differences of a case that are listed


def main() -> int:
    arguments = parse_arguments()
    cases = yaml.safe_load((HERE / "same_results_cases.yaml").read_text())
    if arguments.list:
        for name, case in cases["cases"].items():
            print(f"{name:14}{case['about']}")
        return 0
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))
    try:
        return prove(arguments, cases)
    except (Failure, OSError, ValueError) as failure:
        print(f"error: {failure}", file=sys.stderr)
    except KeyboardInterrupt:
        print("error: interrupted", file=sys.stderr)
    return 2


def parse_arguments() -> argparse.Namespace:
    summary, _, rest = (__doc__ or "").partition("\n")
    parser = argparse.ArgumentParser(
        description=summary, epilog=rest, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("old", nargs="?", metavar="OLD", help="revision to compare with")
    parser.add_argument("new", nargs="?", metavar="NEW", help="revision, or `.`: the working tree")
    parser.add_argument("--only", metavar="NAME[,NAME]", help="run these cases alone")
    parser.add_argument("--list", action="store_true", help="print the cases and stop")
    parser.add_argument("--jobs", type=int, default=2, help="cases at once (default 2)")
    parser.add_argument(
        "--keep",
        metavar="DIR",
        type=Path,
        help="keep the outputs there; what is complete for a commit is used again",
    )
    arguments = parser.parse_args()
    if not arguments.list and arguments.new is None:
        parser.error("name two revisions: OLD NEW")
    if arguments.jobs < 1:
        parser.error("--jobs: at least 1")
    return arguments


def prove(arguments: argparse.Namespace, cases: dict[str, Any]) -> int:
    """Run the chosen cases in both commits and print a line for each; the exit code.

    ``cases`` is the content of ``same_results_cases.yaml``, any YAML.
    """
    chosen = []
    for name in chosen_cases(arguments.only, list(cases["cases"])):
        needed = cases["cases"][name].get("needs")
        if needed is None or importlib.util.find_spec(needed):
            chosen.append(name)
        else:
            print(f"left out   {name}  {needed} is not installed")
    commits = [resolve(arguments.old), resolve(arguments.new)]
    began = time.monotonic()
    verdicts: dict[str, str] = {}
    seconds = [0.0, 0.0]
    with contextlib.ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="same-results-")))
        sides = make_sides(commits, scratch.resolve(), arguments.keep, stack)
        pool = stack.enter_context(workers(arguments.jobs))
        for side in sides:
            prepare_outputs(side, cases["shared"])
        futures = {
            name: [pool.submit(run_case, side, name, cases["cases"][name]) for side in sides]
            for name in chosen
        }
        for name, pair in futures.items():
            outcomes = [finished(future) for future in pair]
            seconds = [total + made.seconds for total, made in zip(seconds, outcomes, strict=True)]
            verdicts[name] = report_case(name, outcomes, cases["cases"][name])
    count = Counter(verdicts.values())
    print(
        f"{count['same']} same, {count['DIFFERENT']} different, {count['FAILED']} failed; "
        f"{time.monotonic() - began:.0f} s (cases of OLD {seconds[0]:.0f} s, "
        f"of NEW {seconds[1]:.0f} s)"
    )
    return 2 if count["FAILED"] else 1 if count["DIFFERENT"] else 0


def chosen_cases(only: str | None, names: list[str]) -> list[str]:
    """The cases to run. Raise Failure for an unknown name."""
    chosen = only.split(",") if only else names
    for name in chosen:
        if name not in names:
            raise Failure(f"no case {name!r}: --list prints all")
    return chosen


# ---- the verdict


def report_case(name: str, outcomes: list[Outcome], case: dict[str, Any]) -> str:
    """Compare both sides of a case, any YAML; print the result, and return the verdict."""
    old, new = outcomes
    if old.error and new.error:
        print(f"FAILED     {name}  in both commits: {old.error}", flush=True)
        return "FAILED"
    failing = evaluations_failing(old, new)
    comparison = compare(
        old.directory,
        new.directory,
        old.paths,
        new.paths,
        random=case.get("random", []),
        left_out=[f"{run}/{file}" for run in failing for file in OF_EVALUATION],
    )
    for side, made in zip(("OLD", "NEW"), outcomes, strict=True):
        if made.error:
            comparison.differences.insert(0, f"only {side} fails: {made.error}")
        comparison.differences += inside(side, made, case.get("alike", []))
    comparison.differences[:0] = [
        f"only NEW fails: evaluate {run}: {after}"
        for run, (before, after) in failing.items()
        if before is None
    ]
    if old.codes != new.codes:
        comparison.differences.insert(0, f"exit codes: {old.codes} -> {new.codes}")
    seconds = ", ".join(f"{made.seconds:.1f} s" for made in outcomes)
    neither = any(before and after for before, after in failing.values())
    result = "FAILED" if neither else verdict(comparison)
    counts = f"{comparison.files:,} files, {comparison.values:,} values"
    print(f"{result:9}  {name}  {counts}, {seconds}")
    if result == "FAILED" and not neither:
        print("    no value was compared: the commands of the case leave none")
    for run, (before, after) in failing.items():
        if before:
            who = "both fail" if after else "OLD fails, NEW does not"
            print(f"    {who}: evaluate {run}: {before}")
    print_differences(comparison)
    return result


def evaluations_failing(old: Outcome, new: Outcome) -> dict[str, tuple[str | None, str | None]]:
    """The runs of both commits that one cannot evaluate, and why OLD and NEW cannot (or None)."""
    reasons = {
        run: (old.evaluations[run], new.evaluations[run])
        for run in old.evaluations
        if run in new.evaluations
    }
    return {run: pair for run, pair in reasons.items() if pair != (None, None)}


def inside(side: str, made: Outcome, alike: list[list[str]]) -> list[str]:
    """The differences between two directories of one commit that must hold the same."""
    differences: list[str] = []
    for left, right in alike if made.error is None else []:
        paths = [{str(made.directory / part): "/RUN", **made.paths} for part in (left, right)]
        pair = compare(made.directory / left, made.directory / right, *paths)
        differences += [
            f"{side}: {left} and {right} differ: {line}"
            for line in pair.differences
            if WARM_CACHE not in line
        ]
    return differences


def print_differences(comparison: Comparison) -> None:
    """Print the first differences, and the first additions and changes of wording."""
    for line in comparison.differences[:SHOWN]:
        print(f"    {line}")
    if len(comparison.differences) > SHOWN:
        print(f"    ... and {len(comparison.differences) - SHOWN:,} more differences")
    for kind, lines in (("only in NEW", comparison.added), ("wording", comparison.wording)):
        for line in lines[:SHOWN]:
            print(f"    {kind}: {line}")
        if len(lines) > SHOWN:
            print(f"    ... and {len(lines) - SHOWN:,} more ({kind})")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
