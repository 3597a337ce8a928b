"""Read the files that a case leaves, and compare those of two commits bit by bit.

A file becomes *values* (key path -> written value), which must be equal, and *prose*, which need
not be. Values are all of JSON, JSON lines, YAML, CSV and TSV, the hash of each tensor, and the
numbers of tables and the decimal fractions in text, Markdown, LaTeX, HTML and what a command
printed. Prose is the rest of such text. Times, rates, versions, revisions and paths are left out.
"""

import csv
import hashlib
import io
import json
import re
import struct
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import yaml

SKIPPED_DIRECTORIES = {"checkpoints", "figures", "tensorboard", "trackers"}
TEXT = {".md", ".txt", ".tex", ".log", ".html"}
TABLES = {".csv": ",", ".tsv": "\t"}
KEYED = {".json", ".yaml"}  # a key that only NEW writes changes nothing that was there
BINARY = {".faiss"}  # compared by their bytes
# what a tokenizer did last: whoever calls it sets them again; and checksums that cover paths
LAST_CALL = {
    "run.json": ("config", "checksum"),
    "tokenizer.json": ("truncation", "padding"),
    "tokenizer_config.json": ("truncation", "max_length", "stride"),
}
CHECKSUM = "multitask_sha256"  # of the file's bytes, in its metadata
IGNORED_KEYS = {
    "command",
    "format",
    "git_revision",
    "git revision",
    "versions",
    "seconds",
    "sha256",  # of an index: it covers the path of the run
    "time",
    "training_time",
    "epoch_seconds_ratio",
}
IGNORED_PATTERN = re.compile(r"(_seconds|_time_s|_per_s|_ms|_ms_.*|_bytes_per_s)$")
PROSE_KEYS = {"flags", "warning", "warnings", "note", "notes"}
UNIT = r"(?:ms|s|sec|seconds?|min|minutes?|h|hours?|MB|GB|[a-z]+/s)"
TIME = re.compile(rf"\d[\d.,]*\s*{UNIT}\b|x\s?\d[\d.]*")
TIMED_HEADER = re.compile(r"second|\bms\b|\btime\b|/s\b|speed|ratio to", re.IGNORECASE)
TIMED_CAPTION = re.compile(r"(\\\w+ ?|[#\s])*(seconds|training time)\b", re.IGNORECASE)
DROPPED_LINE = re.compile(r"run_multitask\.py |git.revision|\bcommit\b|versions?\b|\btorch\b")
NUMBER = re.compile(r"(?<![\w.+-])[-+]?\d[\d,]*(?:\.\d+)?(?:e[-+]?\d+)?(?![\w-]|\.\d)")
RULE = re.compile(r"\s*\\(top|mid|bottom)rule|[-\s]+$")
LAYOUT = re.compile(r"\s*\\(begin|end|toprule|midrule|bottomrule)\b")
PLAIN_CELLS = re.compile(r"\S {2,}\S")


@dataclass
class Content:
    """The content of a file.

    Attributes:
        values: what must be equal, by key.
        prose: text that may differ.
    """

    values: dict[str, str] = field(default_factory=dict)
    prose: str = ""


@dataclass
class Comparison:
    """The comparison of two directories.

    Attributes:
        files: how many files were compared.
        values: how many values were compared.
        differences: one line per difference.
        added: what only the new side has, which is no difference.
        wording: the files whose prose differs.
    """

    files: int = 0
    values: int = 0
    differences: list[str] = field(default_factory=list)
    added: list[str] = field(default_factory=list)
    wording: list[str] = field(default_factory=list)


def compare(
    old: Path,
    new: Path,
    old_paths: Mapping[str, str],
    new_paths: Mapping[str, str],
    random: Sequence[str] = (),
    left_out: Collection[str] = (),
) -> Comparison:
    """Compare two directories. ``*_paths`` maps the paths of each side to placeholders.

    ``random`` are beginnings of `FILE: KEY` that differ in every run; they are left out.
    So are the files ``left_out``.
    """
    comparison = Comparison()
    old_names, new_names = (file_names(side) - {*left_out} for side in (old, new))
    for name in sorted(old_names | new_names, key=lambda name: (rank(name), name)):
        if name not in old_names or name not in new_names:
            comparison.differences.append(
                f"{name}: only in {'OLD' if name in old_names else 'NEW'}"
            )
            continue
        before, after = read(old / name, old_paths), read(new / name, new_paths)
        comparison.files += 1
        comparison.values += len(before.values.keys() & after.values.keys())
        known = len(comparison.differences)
        for key in dict.fromkeys([*before.values, *after.values]):
            values = before.values.get(key, "nothing"), after.values.get(key, "nothing")
            if key not in before.values and Path(name).suffix in KEYED:
                comparison.added.append(f"{name}: {key}")
            elif values[0] != values[1] and not f"{name}: {key}".startswith(tuple(random)):
                comparison.differences.append(
                    f"{name}: {key}: {shown(values[0])} -> {shown(values[1])}"
                )
        if before.prose != after.prose and len(comparison.differences) == known:
            comparison.wording.append(f"{name}: {first_change(before.prose, after.prose)}")
    return comparison


def verdict(comparison: Comparison) -> str:
    """The result in a word. Where no value was compared nothing is proved."""
    if comparison.differences:
        return "DIFFERENT"
    return "same" if comparison.values else "FAILED"


def rank(name: str) -> int:
    """The order of reports: the log of the steps first, text last."""
    kind = Path(name).suffix
    return 0 if kind == ".jsonl" and "predictions" not in name else 2 if kind in TEXT else 1


def file_names(directory: Path) -> set[str]:
    """Names of the files that count, relative to the directory."""
    paths = (path.relative_to(directory) for path in directory.rglob("*") if path.is_file())
    kinds = TEXT | TABLES.keys() | BINARY | {".json", ".jsonl", ".yaml", ".safetensors"}
    return {
        path.as_posix()
        for path in paths
        if path.suffix in kinds and not SKIPPED_DIRECTORIES & set(path.parts)
    }


def read(file: Path, paths: Mapping[str, str]) -> Content:
    """The values and the prose of a file. Raise ValueError, naming it, where it is damaged."""
    try:
        if file.suffix in BINARY:
            return Content({"bytes": hashlib.sha256(file.read_bytes()).hexdigest()})
        if file.suffix == ".safetensors":
            return Content(dict(tensors(file)))
        text = file.read_text(encoding="utf-8")
        for path, placeholder in paths.items():
            text = text.replace(path, placeholder)
        content = parsed(text, file.suffix)
        last = LAST_CALL.get(file.name, ())
        content.values = {k: v for k, v in content.values.items() if not k.startswith(last)}
        return content
    except (ValueError, KeyError, struct.error, yaml.YAMLError) as error:
        raise ValueError(f"{file} cannot be read: {' '.join(str(error).split())}") from error


def parsed(text: str, suffix: str) -> Content:
    """The content of a text file of this kind."""
    if suffix == ".html":
        return html_content(text)
    if suffix in TEXT:
        return text_content(text.splitlines())
    if suffix in TABLES:
        return Content(dict(table_cells(text, TABLES[suffix])))
    content = Content()
    if suffix == ".json":
        add_values(content, "", json.loads(text))
    elif suffix == ".jsonl":
        for number, line in enumerate(text.splitlines(), 1):
            add_values(content, f"line {number}", json.loads(line))
    else:
        add_values(content, "", yaml.safe_load(text))
    return content


def add_values(content: Content, key: str, value: Any) -> None:
    """Add each leaf of a JSON value; a float is written so that every bit counts."""
    if isinstance(value, dict):
        for name, item in value.items():
            if name in PROSE_KEYS and isinstance(item, str | list):
                lines = [item] if isinstance(item, str) else [str(part) for part in item]
                text = text_content(lines)
                content.prose += text.prose
                content.values |= {f"{key}.{name}: {k}": v for k, v in text.values.items()}
            elif not is_ignored(str(name)):
                add_values(content, f"{key}.{name}" if key else str(name), item)
    elif isinstance(value, list):
        content.values[f"{key}: entries"] = str(len(value))
        for number, item in enumerate(value):
            add_values(content, f"{key}[{number}]", item)
    else:
        content.values[key] = repr(value)


def is_ignored(key: str) -> bool:
    """Return True for a key whose value differs between two runs of one commit."""
    return key in IGNORED_KEYS or bool(IGNORED_PATTERN.search(key))


def tensors(file: Path) -> Iterator[tuple[str, str]]:
    """Type, shape and hash of each tensor of a safetensors file, and a number to look at."""
    data = file.read_bytes()
    (size,) = struct.unpack("<Q", data[:8])
    header = json.loads(data[8 : 8 + size])
    for name, entry in sorted(header.items()):
        if name == "__metadata__":
            metadata = {key: value for key, value in entry.items() if key != CHECKSUM}
            yield from [(name, json.dumps(metadata, sort_keys=True))] if metadata else []
            continue
        first, last = (8 + size + place for place in entry["data_offsets"])
        raw = data[first:last]
        sample = f", first {struct.unpack('<f', raw[:4])[0]!r}" if entry["dtype"] == "F32" else ""
        digest = hashlib.sha256(raw).hexdigest()[:16]
        yield name, f"{entry['dtype']} {entry['shape']} {digest}{sample}"


def table_cells(text: str, separator: str) -> Iterator[tuple[str, str]]:
    """Each cell of a CSV or TSV file, but for the columns of times."""
    rows = list(csv.reader(io.StringIO(text), delimiter=separator))
    header = rows[0] if rows else []
    for number, row in enumerate(rows, 1):
        for place, cell in enumerate(row):
            column = header[place] if place < len(header) else str(place)
            if not is_ignored(column):
                yield f"line {number}, column {place + 1} ({column})", cell


class _Page(HTMLParser):
    """The text of a page as lines, each row of a table as one line ``| cell | cell``."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = [""]
        self.hidden = 0

    def handle_starttag(self, tag: str, attributes: object) -> None:
        self.hidden += tag in ("style", "script", "svg")
        if tag in ("td", "th"):
            self.lines[-1] += "| "
        elif tag in ("tr", "p", "li", "table", "h1", "h2", "h3", "pre", "div", "figure"):
            self.lines.append("")

    def handle_endtag(self, tag: str) -> None:
        self.hidden -= tag in ("style", "script", "svg")
        if tag in ("table", "p", "li", "tr", "pre"):
            self.lines.append("")

    def handle_data(self, data: str) -> None:
        if not self.hidden:
            self.lines[-1] += " ".join(data.split()) + " "


def html_content(text: str) -> Content:
    """The content of a page, without its figures and style."""
    page = _Page()
    page.feed(text)
    return text_content([line.strip() for line in page.lines if line.strip()])


def text_content(lines: list[str]) -> Content:
    """Numbers of tables and decimal fractions as values, the rest as prose."""
    numbers: list[str] = []
    prose: list[str] = []
    above = ["", ""]  # the last lines before the table: they may say what it holds
    table = timed = False
    for line in lines:
        inside = is_table_row(line) or (table and bool(RULE.match(line)))
        if inside and not table:
            timed = bool(TIMED_HEADER.search(line)) or any(map(TIMED_CAPTION.match, above))
        elif not inside:
            timed = False
            above = [above[1], line] if line.strip() and not LAYOUT.match(line) else above
        table = inside
        if timed or DROPPED_LINE.search(line):
            continue
        rest = TIME.sub("", line)
        of_line = NUMBER.findall(rest)
        numbers += of_line if inside else [number for number in of_line if "." in number]
        prose.append(re.sub(r"-{3,}", "---", " ".join(rest.split())))
    return Content({f"number {i}": n for i, n in enumerate(numbers, 1)}, "\n".join(prose))


def is_table_row(line: str) -> bool:
    """Return True for a row of a table in Markdown, LaTeX, HTML lines or aligned columns."""
    plain = len(PLAIN_CELLS.findall(line.strip())) >= 2
    return line.lstrip().startswith("|") or " & " in line or plain


def shown(value: str) -> str:
    """A value, cut to what a line can hold."""
    return value if len(value) <= 70 else f"{value[:67]}..."


def first_change(old: str, new: str) -> str:
    """The first line in which two texts differ."""
    old_lines, new_lines = old.splitlines(), new.splitlines()
    for before, after in zip(old_lines, new_lines, strict=False):
        if before != after:
            return f"{shown(before)!r} -> {shown(after)!r}"
    return f"{len(old_lines)} -> {len(new_lines)} lines"
