# Tested by tests/commands/test_sts.py
"""Score the sentence vectors of a run or of an encoder."""

import contextlib
import json
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from multitask.store.files import without_nan, write_json, write_text
from multitask.store.outputs import check_output
from multitask.utils.errors import UserError

if TYPE_CHECKING:
    from multitask.data.sts_suites import Suite
    from multitask.inference.embeddings import Vectors
    from multitask.reporting.table_formats import Table


def sts(
    run: str,
    data: Path,
    overrides: Sequence[str] = (),
    *,
    stsb: Path | None = None,
    task: str | None = None,
    pooling: str | None = None,
    dim: int | None = None,
    layers: bool = False,
    others: Sequence[Path] = (),
    output: Path | None = None,
) -> Iterator[str]:
    """Score vectors on the STS suites, write sts.md and sts.json, and yield lines about it.

    Args:
        run: a run directory or an encoder.
        data: the directory with the suites.
        overrides: values of the run's config to change.
        stsb: a file to read as STS-B.
        task: the run's task whose weights, adapter and pooling count.
        pooling: a pooling without weights that replaces the task's.
        dim: the first numbers of a vector that count; None for all.
        layers: also score every layer under each fixed pooling.
        others: layers.json of other encoders, whose curves are drawn too.
        output: the directory; default: scores, in the run or here.

    Raises:
        UserError: files are missing or damaged, or would be replaced; no such run, task or pooling.
    """
    from multitask.data.sts_suites import read_suites
    from multitask.reporting import sts_report

    if others and not layers:
        raise UserError("--with draws layers of other encoders: give --layers too")
    suites = read_suites(data, stsb)
    curves_of_others = sts_report.read_layers(others, suites)

    from multitask.inference.embeddings import open_vectors
    from multitask.inference.sts_scores import score_suites

    vectors = open_vectors(run, task=task, pooling=pooling, overrides=overrides).cut(dim)
    weights = vectors.weights()
    if weights in curves_of_others:
        message = f"--with: a file is of {weights!r}, which is scored now: leave it out"
        raise UserError(f"{message}, or change its `of` to another name")
    finders = vectors.pair_finders()
    place = output or vectors.scores_directory
    check_output(place)
    entries = score_suites(suites, lambda texts: vectors.encode(texts, "sentences"), *finders)
    report: sts_report.StsReport = {
        **vectors.facts(),
        "average": {
            "spearman": sts_report.average(entries, "spearman"),
            "pearson": sts_report.average(entries, "pearson"),
        },
        "suites": entries,
    }
    tables, notes = sts_report.tables(entries), sts_report.notes(report)
    yield vectors.describe()
    yield tables["Suites"].text()
    for note in (*notes, *sts_report.missing_notes(suites, curves_of_others)):
        yield f"note: {note}"
    notes.insert(0, f"{sts_report.HOW} Texts are cut at {report['max_length']} tokens.")
    yield _written(vectors, place / "sts.json", report, "STS", tables=tables, notes=notes)
    if layers:
        yield _layers(vectors, place, suites, curves_of_others)


def _layers(
    vectors: "Vectors", place: Path, suites: "Mapping[str, Suite]", others: Mapping[str, Any]
) -> str:
    """Score every layer, write the scores and draw them next to those of other encoders."""
    from multitask.inference.analysis.sts_by_layer import score_layers
    from multitask.reporting.figures.curves import draw_domains, draw_layers
    from multitask.reporting.figures.style import save_figures

    weights, curves = vectors.weights(), without_nan(score_layers(suites, vectors.layers))
    write_text(place / "layers.json", json.dumps({"of": weights, "suites": curves}))
    encoders = {weights: curves, **others}
    figures = {"layers": draw_layers(encoders), "domains": draw_domains(encoders)}
    save_figures({place / f"{n}.{end}": f for n, f in figures.items() for end in ("png", "svg")})
    return f"written: {place / 'layers.json'}, layers.png, domains.png (and .svg)"


def evaluate_search(
    run: str,
    pairs: Path,
    *,
    limit: int,
    task: str | None = None,
    pooling: str | None = None,
    output: Path | None = None,
) -> Iterator[str]:
    """Measure search on pairs of questions, write search.md and search.json, and yield lines.

    Args:
        run: a run directory or an encoder.
        pairs: the table of pairs, of which ``limit`` are read at most.
        task: the run's task whose vectors count.
        pooling: a pooling without weights that replaces the task's.
        limit: pairs to read.
        output: the directory; default: scores, in the run or here.

    Raises:
        UserError: as ``sts``; or faiss is not installed.
    """
    from multitask.inference.search import search_quality
    from multitask.inference.search.text_index import import_faiss
    from multitask.reporting import search_report
    from multitask.reporting.table_formats import text_page

    import_faiss()
    questions = search_quality.read_questions(pairs, limit)

    from multitask.inference.embeddings import open_vectors

    length = search_quality.MAX_LENGTH
    vectors = open_vectors(run, task=task, pooling=pooling, max_length=length)
    seen = {}
    with contextlib.suppress(UserError):  # the data of the run may be elsewhere
        known = [search_quality.known_pairs(questions, find) for find in vectors.pair_finders()]
        seen = dict(zip(("trained_on", "selected"), known, strict=False))
    place = output or vectors.scores_directory
    check_output(place)
    encode_all = partial(vectors.encode, title="questions")
    report = {**vectors.facts(), "pairs_file": str(pairs), "gold_pairs_known": seen}
    report |= search_quality.evaluate(questions, vectors.encode, encode_all)
    tables = {"Search": search_report.search_table(report)}
    notes = search_report.notes(report)
    yield vectors.describe()
    yield text_page([("", tables["Search"])], notes)
    if report["warning"]:
        yield f"warning: {report['warning']}"
        notes.append(str(report["warning"]))
    yield _written(vectors, place / "search.json", report, "Search", tables=tables, notes=notes)


def _written(
    vectors: "Vectors",
    file: Path,
    report: Any,
    title: str,
    *,
    tables: "Mapping[str, Table]",
    notes: Sequence[str],
) -> str:
    """Write NAME.json and NAME.md, unless the run or the directory has changed meanwhile."""
    from multitask.reporting.page import Block, Code, Lines, tables_page

    settings: list[Block] = [
        Code(report["command"]),
        Lines([f"git revision: {report['git_revision'] or '-'}"]),
    ]
    page = tables_page(f"{title}: {report['of']}", tables.items(), notes, settings)
    if vectors.run is not None:
        vectors.run.check_unchanged()
    check_output(file.parent)
    file.parent.mkdir(parents=True, exist_ok=True)
    write_json(file, report)
    write_text(file.with_suffix(".md"), page)
    return f"written: {file.with_suffix('.md')}, {file.name}"
