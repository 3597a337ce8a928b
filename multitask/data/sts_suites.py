"""The semantic textual similarity suites: STS12 to STS16, STS-B and SICK-R, read as published.

A suite maps the names of its subsets to rows of pairs with a gold score. Pairs without a score are
dropped and counted. Texts are not changed. (SentEval lower-cases the STS years, but not SICK-R;
with an uncased tokenizer the result is the same.)
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from multitask.config import DataConfig
from multitask.data.readers.columns import read_table
from multitask.data.readers.text_files import each_line
from multitask.tasks.label_reader import number_of
from multitask.tasks.rows import Rows
from multitask.tasks.sts_names import YEARS
from multitask.utils.errors import UserError, no_file

# the lowest and highest gold score, if not 0 and 5
RANGES = {"SICK-R": (1.0, 5.0)}
# names of the columns for first text, second text and score, if a file has a header
HEADERS = (
    ("sentence1", "sentence2", "score"),
    ("sentence1", "sentence2", "similarity"),  # the CS224N course; cells are quoted as in CSV
    ("sentence_A", "sentence_B", "relatedness_score"),  # SICK
)

Suite = dict[str, Rows]


def read_suites(directory: Path, stsb: Path | None = None) -> dict[str, Suite]:
    """Read the suites in a directory, in the order of ``NAMES``.

    A suite is a folder in the directory or in its subfolder ``STS``. Two layouts are read:

    - tab-separated files: ``STS12/MSRpar.tsv``, ``SICK-R/test.tsv``;
    - the layout of SentEval: ``STS12-en-test/STS.input.MSRpar.txt`` with ``STS.gs.MSRpar.txt``,
      ``STSBenchmark/sts-test.csv``, ``SICK/SICK_test_annotated.txt``.

    Of STS-B and SICK-R only the test split is read.

    Args:
        directory: the directory of the suites.
        stsb: a file to read as STS-B instead, such as the course's ``sts-dev.csv``.

    Raises:
        UserError: the directory has no suite, or a line of a file does not fit its format.
    """
    if not directory.is_dir():
        raise UserError(f"--data: no such directory: {directory}")
    if stsb is not None and not stsb.is_file():
        raise UserError(f"--stsb: {no_file(stsb)}")
    by_name = {year: _year(_folders(directory, year, f"{year}-en-test")) for year in YEARS}
    file = stsb or _first(_folders(directory, "STS-B", "STSBenchmark"), "test.tsv", "sts-test.csv")
    by_name["STS-B"] = {} if file is None else {file.stem: read_pairs(file, "STS-B")}
    file = _first(_folders(directory, "SICK-R", "SICK"), "test.tsv", "SICK_test_annotated.txt")
    by_name["SICK-R"] = {} if file is None else {"test": read_pairs(file, "SICK-R")}
    suites = {name: suite for name, suite in by_name.items() if suite}
    if not suites:
        raise UserError(f"{directory}: no suite there: expected folders such as STS12, SICK-R")
    return suites


def read_pairs(file: Path, suite: str) -> Rows:
    """Read the pairs of one file with a header (``HEADERS``), or of the STS benchmark.

    The STS benchmark's ``sts-test.csv`` has no header and no quotes. It has at least seven columns,
    separated by tabs: the fifth is the score, the sixth and seventh are the texts.
    """
    header = next(each_line(file), "").split("\t")
    names = next((names for names in HEADERS if set(names) <= set(header)), None)
    if names is not None:
        quoted = DataConfig(quoting="similarity" in names)
        columns = read_table(file, quoted, "tsv")
        first, second, scores = (columns[name] for name in names)
        pairs = list(zip(first, second, strict=True))
        return _rows(str(file), pairs, scores, suite, first_line=2)
    form = "a header with sentence1, sentence2 and score, or the seven columns of the STS benchmark"
    lines = _columns(file, 7, form)
    pairs = [(cells[5], cells[6]) for cells in lines]
    return _rows(str(file), pairs, [cells[4] for cells in lines], suite)


def _columns(file: Path, least: int, form: str) -> list[list[str]]:
    """Read the columns of a file with tabs. Raises UserError for a line with fewer of them."""
    lines = [line.split("\t") for line in each_line(file)]
    for number, cells in enumerate(lines, 1):
        if len(cells) < least:
            raise UserError(f"{file}, line {number}: {len(cells)} columns: expected {form}")
    return lines


def _folders(directory: Path, *names: str) -> list[Path]:
    """Return the folders of these names that exist in ``directory`` or ``directory/STS``."""
    places = [parent / name for parent in (directory, directory / "STS") for name in names]
    return [place for place in places if place.is_dir()]


def _first(folders: Sequence[Path], *names: str) -> Path | None:
    files = (folder / name for folder in folders for name in names)
    return next((file for file in files if file.is_file()), None)


def _year(folders: Sequence[Path]) -> Suite:
    """Read the subsets of a year from the first folder that has any."""
    for folder in folders:
        tables = {file.stem: read_pairs(file, folder.name) for file in sorted(folder.glob("*.tsv"))}
        inputs = sorted(folder.glob("STS.input.*.txt"))
        subsets = tables or {
            file.stem.removeprefix("STS.input."): _official(file) for file in inputs
        }
        if subsets:
            return subsets
    return {}


def _official(file: Path) -> Rows:
    """Read ``STS.input.X.txt`` (two texts, perhaps their sources) with ``STS.gs.X.txt``."""
    gold = file.with_name(file.name.replace("STS.input.", "STS.gs."))
    if not gold.is_file():
        raise UserError(f"{file}: its scores are missing: no {gold.name} next to it")
    lines, scores = _columns(file, 2, "two texts with a tab between"), [*each_line(gold)]
    if len(lines) != len(scores):
        raise UserError(f"{gold}: {len(scores)} scores for the {len(lines)} pairs of {file.name}")
    return _rows(str(gold), [(cells[0], cells[1]) for cells in lines], scores, file.parent.name)


def _rows(
    source: str, pairs: list[tuple[str, str]], scores: list[str], suite: str, first_line: int = 1
) -> Rows:
    """Convert pairs and scores to rows; drop and count pairs with an empty score."""
    low, high = RANGES.get(suite, (0.0, 5.0))
    scored = [number for number, score in enumerate(scores) if score.strip()]
    labels = [number_of(scores[number]) for number in scored]
    for number, label in zip(scored, labels, strict=True):
        if not low <= label <= high:
            where = f"{source}, line {number + first_line}"
            raise UserError(
                f"{where}: the score {scores[number]!r} is no number from {low:g} to {high:g}"
            )
    if not scored:
        raise UserError(f"{source}: no pair has a score")
    ids, dropped = [str(number) for number in scored], len(scores) - len(scored)
    return Rows(source, ids, [pairs[number] for number in scored], np.array(labels), dropped)
