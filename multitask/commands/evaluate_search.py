# Tested by tests/commands/test_search.py
"""Measure search on pairs of questions: exact, and as the layer-attention paper does it.

The second questions are the corpus and the first ones the queries; each query should find its
duplicates.
Writes search.md and search.json (docs/search.md).
"""

import argparse

from multitask.commands import arguments as shared
from multitask.utils.paths import expand_home


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    text = (
        "table with question1, question2 (or sentence1, sentence2) and is_duplicate; with qid1 and "
        "qid2 questions are known by them, else by their exact text"
    )
    parser.add_argument("--pairs", metavar="FILE", type=expand_home, required=True, help=text)
    text = "pairs to read at most, from the beginning (default 100,000, as in the paper)"
    parser.add_argument("--limit", metavar="N", type=int, default=100_000, help=text)
    shared.add_task(parser, "the run's task whose vectors count")
    shared.add_pooling(parser)
    shared.add_output(parser, "DIR", "default: RUN/scores; ./scores for an encoder")


def run(arguments: argparse.Namespace) -> None:
    import contextlib
    from functools import partial

    from multitask.inference.search import search_quality
    from multitask.inference.search.text_index import import_faiss
    from multitask.reporting.search_report import markdown_page, terminal_table
    from multitask.store.files import write_json, write_text
    from multitask.store.outputs import check_replaced
    from multitask.utils.errors import UserError

    import_faiss()
    shared.check_number("--limit", arguments.limit)
    questions = search_quality.read_questions(arguments.pairs, arguments.limit)

    from multitask.inference.embeddings import open_vectors

    vectors = open_vectors(
        arguments.run,
        task=arguments.task,
        pooling=arguments.pooling,
        max_length=search_quality.MAX_LENGTH,
    )
    seen = {}
    with contextlib.suppress(UserError):  # the data of the run may be elsewhere
        known = [search_quality.known_pairs(questions, find) for find in vectors.pair_finders()]
        seen = dict(zip(("trained_on", "selected"), known, strict=False))
    output = arguments.output or vectors.scores_directory
    replaced = output / "search.json", ("gold_pairs_known", "pairs_file"), ("search.md",)
    check_replaced(*replaced)
    report = {**vectors.facts(), "pairs_file": str(arguments.pairs), "gold_pairs_known": seen}
    encode_all = partial(vectors.encode, title="questions")
    report |= search_quality.evaluate(questions, vectors.encode, encode_all)
    print(vectors.describe())
    print(terminal_table(report))
    if report["warning"]:
        print(f"warning: {report['warning']}")
    if vectors.run is not None:
        vectors.run.check_unchanged()
    check_replaced(*replaced)  # again: measuring takes a while
    output.mkdir(parents=True, exist_ok=True)
    write_json(output / "search.json", report)
    write_text(output / "search.md", markdown_page(report))
    print(f"written: {output / 'search.md'}, search.json")
