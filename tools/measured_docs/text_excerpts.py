"""Excerpts of stored Markdown: model cards of exports, benchmarks, `sts` and `evaluate-search`."""

import re

from tools.measured_docs.store import RESULTS

EXPORTS = RESULTS / "exports"
BENCHMARKS = RESULTS / "benchmarks"
WRITTEN = RESULTS / "written"
# Directories of absolute paths: where a file was on the measuring machine does not matter
DIRECTORIES = re.compile(r"(?<!\S)/\S*/")


def exported(name: str) -> str | None:
    """Write what `export` checked and measured, from the model card, and its source."""
    file = EXPORTS / f"{name}.md"
    if not file.is_file():
        return None
    card = file.read_text().partition("\n# ")[2]
    notes = "\n".join(re.findall(r"^- .*$", card.partition("\n## ")[0], re.MULTILINE))
    made = card.partition("## How it was exported")[2]
    command = re.search(r"^\s*(python .*)$", made, re.MULTILINE)
    revision = re.search(r"git revision: (\S+)", made)
    assert command and revision, file
    shown = re.sub(r"/\S*/", "", command[1])
    return f"{notes}\n\n`{shown}`, commit {revision[1]}\n"


def benchmark(name: str) -> str | None:
    """Return what a script of benchmarks/ printed."""
    file = BENCHMARKS / f"{name}.md"
    return file.read_text() if file.is_file() else None


def written(name: str) -> str | None:
    """Write the first table of what `sts` or `evaluate-search` wrote, and its source."""
    file = WRITTEN / f"{name}.md"
    if not file.is_file():
        return None
    text = file.read_text()
    head = text.partition("\n## ")[0].partition("\n")[2]
    head = re.sub(r"^(    python |git revision: ).*$", "", head, flags=re.MULTILINE).strip()
    return re.sub(DIRECTORIES, "", f"{head}\n\n{_source(text)}\n")


def _source(text: str) -> str:
    """Return the command and the commit that such a file names."""
    (command,) = re.findall(r"^    (python .*)$", text, re.MULTILINE)
    (revision,) = re.findall(r"^git revision: (\S+)$", text, re.MULTILINE)
    shown = re.sub(r" --output \S+", "", command)
    return re.sub(DIRECTORIES, "", f"`{shown}`, commit {revision}")


def lines(names: str) -> str | None:
    """Write one table with one line per file: the first line of the file's first table.

    ``names`` are separated by commas; ``/2`` after them asks for the second line.
    """
    header, rule, rows, sources = "", "", [], []
    names, _, number = names.partition("/")
    for name in names.split(","):
        file = WRITTEN / f"{name}.md"
        if not file.is_file():
            return None
        text = file.read_text()
        header, rule, *table = re.findall(r"^\|.*$", text, re.MULTILINE)
        first_cell, _, rest = table[int(number or 1) - 1].removeprefix("| ").partition(" | ")
        title = re.search(r"^# \w+: (?:runs/)?(.*)$", text, re.MULTILINE)
        assert title and set(rule) <= set("|- "), file
        rows.append(f"| {title[1]} | {rest}")
        sources.append(f"- {_source(text)}")
    header = header.replace("|  |", f"| {first_cell} |", 1)
    return "\n".join([header, rule, *rows, "", *sources]) + "\n"
