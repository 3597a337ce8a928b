"""Excerpts of stored Markdown: model cards of exports, benchmarks, `sts` and `evaluate-search`."""

import re

from tools.measured_docs.store import RESULTS

BENCHMARKS = RESULTS / "benchmarks"
WRITTEN = RESULTS / "written"
# Directories of absolute paths: where a file was on the measuring machine does not matter
DIRECTORIES = re.compile(r"(?<!\S)/\S*/")


def benchmark(name: str) -> str:
    """Return what a script of benchmarks/ printed."""
    return (BENCHMARKS / f"{name}.md").read_text()


def excerpt(name: str) -> str:
    """Write what a stored file says before its first section, and its source.

    ``exports/NAME`` is a model card, of which the list counts: what `export` checked and measured.
    ``written/NAME`` is what `sts` or `evaluate-search` wrote.
    """
    text = (RESULTS / f"{name}.md").read_text()
    head = text.partition("\n# ")[2] if text.startswith("---\n") else text
    head = head.partition("\n## ")[0].partition("\n")[2]
    head = re.sub(r"^(    python |git revision: ).*$", "", head, flags=re.MULTILINE)
    if name.startswith("exports/"):
        head = "\n".join(re.findall(r"^- .*$", head, re.MULTILINE))
    return re.sub(DIRECTORIES, "", f"{head.strip()}\n\n{_source(text)}\n")


def _source(text: str) -> str:
    """Return the last command and commit that a file names: how it was made, not its run."""
    command = re.findall(r"^ *(python .*)$", text, re.MULTILINE)[-1]
    revision = re.findall(r"^(?:- )?git revision: (\S+)$", text, re.MULTILINE)[-1]
    shown = re.sub(r" --output \S+", "", command)
    return re.sub(DIRECTORIES, "", f"`{shown}`, commit {revision}")


def lines(names: str) -> str:
    """Write one table with one line per file: the first line of the file's first table.

    ``names`` are separated by commas; ``/2`` after them asks for the second line.
    """
    header, rule, rows, sources = "", "", [], []
    names, _, number = names.partition("/")
    for name in names.split(","):
        file = WRITTEN / f"{name}.md"
        text = file.read_text()
        header, rule, *table = re.findall(r"^\|.*$", text, re.MULTILINE)
        first_cell, _, rest = table[int(number or 1) - 1].removeprefix("| ").partition(" | ")
        title = re.search(r"^# \w+: (?:runs/)?(.*)$", text, re.MULTILINE)
        assert title and set(rule) <= set("|- "), file
        rows.append(f"| {title[1]} | {rest}")
        sources.append(f"- {_source(text)}")
    header = header.replace("|  |", f"| {first_cell} |", 1)
    return "\n".join([header, rule, *rows, "", *sources]) + "\n"
