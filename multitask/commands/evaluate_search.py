# Tested by tests/commands/test_search.py
"""Measure search on pairs of questions: MRR, recall, latency and memory.

Search is exact, and as the layer-attention paper does it. The second questions are the corpus and
the first ones the queries; each query should find its duplicates. Writes search.md and search.json
(docs/search.md).
"""

import argparse

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    text = "table with question1, question2 (or sentence1, sentence2) and is_duplicate; with qid1 "
    text += "and qid2 questions are known by them, else by their exact text"
    shared.add_path(parser, "--pairs", "FILE", text, required=True)
    text = "pairs to read at most, from the beginning (default 100,000, as in the paper)"
    shared.add_number(parser, "--limit", text, default=100_000)
    shared.add_task(parser, "the run's task whose vectors count")
    shared.add_pooling(parser)
    shared.add_output(parser, "DIR", "default: RUN/scores; ./scores for an encoder")


def run(arguments: argparse.Namespace) -> None:
    from multitask.api.score_vectors import evaluate_search

    for line in evaluate_search(**vars(arguments)):
        print(line)
