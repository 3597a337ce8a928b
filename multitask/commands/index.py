# Tested by tests/commands/test_search.py
"""Make a search index of a file with one text per line (docs/search.md)."""

import argparse
from pathlib import Path

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    shared.add_path(parser, "--texts", "FILE", "UTF-8, one text a line", required=True)
    shared.add_path(parser, "--out", "DIR", "directory of the index", required=True)
    text = "an approximate index of N lists, at most a list for every 39 texts (default: exact)"
    shared.add_number(parser, "--ivf", text)
    shared.add_number(parser, "--probes", "lists searched with --ivf (default 5)")
    shared.add_task(parser, "the run's task whose vectors count")
    shared.add_pooling(parser)
    shared.add_dim(parser)
    parser.add_argument("--overwrite", action="store_true", help="replace the index in DIR")


def run(arguments: argparse.Namespace) -> None:
    from multitask.inference.search.text_index import Origin, build, check_output, import_faiss
    from multitask.utils.errors import UserError

    import_faiss()
    check_output(arguments.out, arguments.overwrite)
    lists, probes = arguments.ivf, arguments.probes
    if probes is not None and (lists is None or probes > lists):
        raise UserError(f"--probes {probes}: give --ivf N too, of at least as many lists")

    from multitask.inference.embeddings import open_vectors

    vectors = open_vectors(arguments.run, task=arguments.task, pooling=arguments.pooling)
    vectors = vectors.cut(arguments.dim)
    place = Path(arguments.run)
    ivf = None if lists is None else (lists, probes or min(5, lists))
    facts = build(
        arguments.texts,
        arguments.out,
        vectors.encode,
        dim=vectors.dim,
        origin=Origin(
            source=str(place.absolute()) if place.is_dir() else arguments.run,
            task=vectors.task,
            pooling=arguments.pooling,
            max_length=vectors.max_length,
            fingerprint=vectors.fingerprint(),
            dim=arguments.dim,
        ),
        ivf=ivf,
        overwrite=arguments.overwrite,
    )
    kind = "exact" if ivf is None else f"{lists} lists, {ivf[1]} searched"
    blank = f", {facts.blank_lines:,} blank lines left out" if facts.blank_lines else ""
    size = sum(file.stat().st_size for file in arguments.out.iterdir()) / 1e6
    print(f"{vectors.describe()}: {facts.texts:,} texts{blank}; {kind}; {size:.1f} MB")
    print(f"written: {arguments.out}")
