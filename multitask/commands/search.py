"""Find the texts of an index that are nearest to a query by cosine (docs/search.md)."""

import argparse
from pathlib import Path

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_path(parser, "index", "DIR", "directory that `index` wrote")
    parser.add_argument("queries", metavar="QUERY", nargs="+", help="what to look for")
    shared.add_number(parser, "--top", "texts a query (default 10)", default=10)
    text = "where the run of the index is now, if it has moved"
    parser.add_argument("--run", metavar="RUN", help=text)


def run(arguments: argparse.Namespace) -> None:
    from multitask.inference.search.text_index import check_origin, open_index
    from multitask.utils.errors import UserError, check_text, warn

    for query in arguments.queries:
        check_text(query, "the query")
    index = open_index(arguments.index)
    origin = index.facts.origin
    source = arguments.run or origin.source
    if Path(source).is_absolute() and not Path(source).exists():
        raise UserError(f"{arguments.index}: made with {source}, which is gone: give --run")

    from multitask.inference.embeddings import open_vectors

    vectors = open_vectors(
        source, task=origin.task, pooling=origin.pooling, max_length=origin.max_length
    ).cut(origin.dim)
    check_origin(arguments.index, index.facts, vectors)
    scores, places = index.search(vectors.encode(arguments.queries), arguments.top)
    for query, row, nearest in zip(arguments.queries, scores, places, strict=True):
        if len(arguments.queries) > 1:
            print(query)
        for score, place in zip(row, nearest, strict=True):
            if place >= 0:
                print(f"{score:6.3f}  line {index.lines[place]}: {index.texts[place]}")
        if (count := int((nearest >= 0).sum())) < len(nearest):
            lists = f"{index.facts.probes} of {index.facts.lists} lists were searched"
            advice = "make the index again with more --probes, or without --ivf"
            warn(f"{query!r:.60}: {count} of {len(nearest)} texts: {lists}; {advice}")
