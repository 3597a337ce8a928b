"""Search latency: texts in, the ten nearest of 10,000 questions out.

    pip install sentence-transformers faiss-cpu
    python -m benchmarks.search DIRECTORY-OF-THE-COURSE-FILES [--threads 2]

The packaged MiniLM under mean pooling in fp32; the second questions of QQP are the corpus, 64 first
questions are asked one at a time, and 640 at once. sentence-transformers encodes and calls its
`semantic_search`; ours encodes and asks FAISS, exactly; both in turn in one process, ratios by
round. Then the search alone, of vectors.
"""

import statistics
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch

from benchmarks.course_batches import headline, in_turn, parser, ratio, read_texts, started
from multitask.inference.embeddings import open_vectors
from multitask.inference.search.text_index import exact_index, nearest, normalised
from multitask.models.packaged_weights import packaged_directory
from multitask.reporting.table_formats import markdown_table
from multitask.utils.names import PACKAGED_ENCODER

CORPUS, TOGETHER, TOP = 10_000, 640, 10
ASKED = {"one at a time": (64, 1), "640 at once": (TOGETHER, TOGETHER)}  # queries, in a call
PEER, OURS = "sentence-transformers", "ours"
Searcher = Callable[[Any], object]


def ask(searcher: Searcher, queries: Sequence[Any], size: int) -> None:
    """All queries, ``size`` in a call."""
    for start in range(0, len(queries), size):
        searcher(queries[start : start + size])


def main() -> None:
    arguments = started(parser(__doc__, rounds=5))
    try:
        from sentence_transformers import SentenceTransformer, util
    except ImportError as error:
        raise SystemExit("pip install sentence-transformers") from error
    pairs = read_texts(arguments.directory, "qqp", 5 * CORPUS)
    corpus = list(dict.fromkeys(second for _, second in pairs))[:CORPUS]
    queries = list(dict.fromkeys(first for first, _ in pairs))[:TOGETHER]
    peer = SentenceTransformer(str(packaged_directory()), device="cpu")
    vectors = open_vectors(PACKAGED_ENCODER)

    def encode(texts: Sequence[str]) -> torch.Tensor:
        return peer.encode(list(texts), convert_to_tensor=True, show_progress_bar=False)

    theirs = encode(corpus)
    index = exact_index(theirs.shape[1])
    index.add(normalised(vectors.encode(corpus)))
    ours, other = vectors.encode(queries), encode(queries)

    def semantic_search(asked: torch.Tensor) -> np.ndarray:
        nearest = util.semantic_search(asked, theirs, top_k=TOP)
        return np.array([[one["corpus_id"] for one in row] for row in nearest])

    def faiss_search(asked: np.ndarray) -> np.ndarray:
        return nearest(index, asked, TOP)[1]

    same = (semantic_search(other) == faiss_search(ours)).mean()
    work: dict[str, dict[str, tuple[Searcher, Any]]] = {
        "text to places": {
            PEER: (lambda texts: semantic_search(encode(texts)), queries),
            OURS: (lambda texts: faiss_search(vectors.encode(texts)), queries),
        },
        "vectors to places": {PEER: (semantic_search, other), OURS: (faiss_search, ours)},
    }
    lines = []
    for title, searchers in work.items():
        for asked, (count, size) in ASKED.items():
            variants = {
                name: partial(ask, searcher, given[:count], size)
                for name, (searcher, given) in searchers.items()
            }
            times = in_turn(variants, arguments.rounds)
            for name, each in times.items():
                milliseconds = 1000 * statistics.median(each) / count
                lines.append(
                    [title, asked, name, f"{milliseconds:.3f}", f"{ratio(times[PEER], each):.2f}"]
                )
    print(headline(arguments.threads, arguments.rounds))
    header = ("work", "queries", "search", "ms a query", f"x {PEER}")
    print(markdown_table(header, lines))
    print(f"\nPlaces that are the same: {100 * same:.2f} % of {TOP} times {len(queries)}.")


if __name__ == "__main__":
    main()
