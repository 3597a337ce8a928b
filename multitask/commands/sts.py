"""Score sentence vectors on STS12 to STS16, STS-B and SICK-R (docs/sts.md).

Writes sts.md and sts.json; --layers also the scores of every layer and fixed pooling, with figures.
"""

import argparse
from pathlib import Path
from typing import Any

from multitask.commands import arguments as shared
from multitask.utils.paths import expand_home

FIGURES = ("layers", "domains")


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    shared.add_overrides(parser)
    parser.add_argument(
        "--data", metavar="DIR", type=expand_home, required=True, help="directory with the suites"
    )
    text = (
        "file to read as STS-B, such as the course's sts-dev.csv (default: its test split in DIR)"
    )
    parser.add_argument("--stsb", metavar="FILE", type=expand_home, help=text)
    shared.add_task(
        parser,
        "the run's task whose weights, adapter and pooling count (default: the first that compares "
        "two sentences)",
    )
    shared.add_pooling(parser, ": cls, mean, ... (default: the task's; mean for an encoder)")
    parser.add_argument(
        "--layers", action="store_true", help="also score every layer under each fixed pooling"
    )
    parser.add_argument(
        "--with",
        dest="others",
        metavar="FILE",
        type=expand_home,
        nargs="+",
        default=[],
        help="layers.json of other encoders: draw their curves too (with --layers)",
    )
    shared.add_output(parser, "DIR", "default: RUN/scores; ./scores for an encoder")


def run(arguments: argparse.Namespace) -> None:
    from multitask.data.sts_suites import read_suites
    from multitask.reporting.sts_report import missing_notes, read_layers
    from multitask.utils.errors import UserError

    if arguments.others and not arguments.layers:
        raise UserError("--with draws layers of other encoders: give --layers too")
    suites = read_suites(arguments.data, arguments.stsb)
    others = read_layers(arguments.others, suites)

    from multitask.inference.analysis.sts_by_layer import score_layers
    from multitask.inference.embeddings import open_vectors
    from multitask.inference.sts_scores import score_suites
    from multitask.reporting.sts_report import (
        StsReport,
        average,
        markdown_page,
        notes,
        terminal_table,
    )
    from multitask.store.files import without_nan, write_json, write_text

    vectors = open_vectors(
        arguments.run, task=arguments.task, pooling=arguments.pooling, overrides=arguments.overrides
    )
    source = vectors.weights()
    _check_others(source, others)
    finders = vectors.pair_finders()
    output = arguments.output or vectors.scores_directory
    _check_output(output)
    entries = score_suites(suites, lambda texts: vectors.encode(texts, "sentences"), *finders)
    report: StsReport = {
        **vectors.facts(),
        "average": {
            "spearman": average(entries, "spearman"),
            "pearson": average(entries, "pearson"),
        },
        "suites": entries,
    }
    print(vectors.describe())
    print(terminal_table(report))
    print("\n".join(f"note: {line}" for line in (*notes(report), *missing_notes(suites, others))))
    if vectors.run is not None:
        vectors.run.check_unchanged()
    _check_output(output)  # again: scoring takes a while
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "sts.json", report)
    write_text(output / "sts.md", markdown_page(report))
    print(f"written: {output / 'sts.md'}, sts.json")
    if arguments.layers:
        _write_layers(output, source, without_nan(score_layers(suites, vectors.layers)), others)


def _write_layers(output: Path, source: str, scores: Any, others: dict[str, Any]) -> None:
    """Write the scores of the layers, and draw them next to those of other encoders."""
    import json

    from multitask.reporting.figures.curves import draw_domains, draw_layers
    from multitask.reporting.figures.style import save_figure
    from multitask.store.files import write_text

    write_text(output / "layers.json", json.dumps({"of": source, "suites": scores}))
    figures = (draw_layers({source: scores, **others}), draw_domains(scores, source))
    for name, figure in zip(FIGURES, figures, strict=True):
        for ending in ("png", "svg"):
            save_figure(figure, output / f"{name}.{ending}")
    print(f"written: {output / 'layers.json'}, layers.png, domains.png (and .svg)")


def _check_others(source: str, others: dict[str, Any]) -> None:
    """Raise UserError if a file of `--with` would replace the scores of this call."""
    from multitask.utils.errors import UserError

    if source in others:
        message = f"--with: a file is of {source!r}, which is scored now: leave it out"
        raise UserError(f"{message}, or change its `of` to another name")


def _check_output(output: Path) -> None:
    """Raise UserError if scores would replace files that this command has not written."""
    from multitask.store.outputs import check_replaced

    pictures = (f"{name}.{ending}" for name in FIGURES for ending in ("png", "svg"))
    names = ("sts.md", "layers.json", *pictures)
    check_replaced(output / "sts.json", ("average", "suites"), names)
