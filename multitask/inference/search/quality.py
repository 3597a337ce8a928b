"""How good and how fast search is, on pairs of questions that are duplicates or not.

The corpus is the second questions, the queries are the first ones, gold are the pairs marked as
duplicates (the layer-attention pooling paper, section 3.4 and Table 3).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import DataConfig
from multitask.data.readers.tables import read_table, read_text
from multitask.data.summary import row_key, text_sets
from multitask.inference.search.index import (
    POINTS_A_LIST,
    Encode,
    exact_index,
    import_faiss,
    ivf_index,
    most_lists,
    nearest,
    normalised,
)
from multitask.tasks.examples import Rows, canonical
from multitask.utils.errors import UserError

TOP = 10
# the paper's index, and the longest question in tokens
LISTS, PROBES, MAX_LENGTH = 1024, 5, 64
CORPUS_LIMIT = 100_000
TEXT_COLUMNS = (("question1", "question2"), ("sentence1", "sentence2"))
ID_COLUMNS = ("qid1", "qid2")
LABEL_COLUMN = "is_duplicate"
# queries that are searched one by one for the latency
SINGLE, SINGLE_ENCODED = 200, 30


@dataclass(frozen=True)
class Questions:
    """Distinct corpus texts and queries; ``gold`` holds the places in the corpus of each query."""

    corpus: list[str]
    queries: list[str]
    gold: list[set[int]]
    by_id: bool

    @property
    def verbatim(self) -> int:
        """Queries that stand in the corpus word for word: their own text may come first."""
        own = set(self.corpus)
        return sum(query in own for query in self.queries)


def read_questions(file: Path, limit: int = CORPUS_LIMIT) -> Questions:
    """Read a pairs file: Quora's own columns, or those of the course's quora files.

    A question is known by its id (``qid1``, ``qid2``) where the file has them, else by its exact
    text. Of the corpus the first ``limit`` distinct questions count, with the pairs that name them.

    Raises:
        UserError: no such columns, a label that is neither 0 nor 1, or no duplicates.
    """
    if not file.is_file():
        raise UserError(f"--pairs: no such file: {file}")
    form = "tsv" if "\t" in read_text(file).partition("\n")[0] else "csv"
    columns = read_table(file, form, DataConfig())
    names = next((names for names in TEXT_COLUMNS if set(names) <= set(columns)), None)
    if names is None or LABEL_COLUMN not in columns:
        raise UserError(f"{file}: expected the columns question1, question2 and {LABEL_COLUMN}")
    texts = [columns[name] for name in names]
    by_id = set(ID_COLUMNS) <= set(columns)
    keys = [columns[name] for name in ID_COLUMNS] if by_id else texts
    corpus: dict[str, int] = {}
    queries: dict[str, int] = {}
    documents: list[str] = []
    asked: list[str] = []
    gold: list[set[int]] = []
    cells = zip(*texts, *keys, columns[LABEL_COLUMN], strict=True)
    for number, (first, second, query, document, value) in enumerate(cells, 1):
        label = canonical(value)
        if label not in ("0", "1", "true", "false", ""):
            raise UserError(f"{file}, row {number}: {LABEL_COLUMN} is {value!r}: expected 0 or 1")
        if not first.strip() or not second.strip():
            continue
        if document not in corpus:
            if len(corpus) == limit:
                continue
            corpus[document] = len(documents)
            documents.append(second)
        if query not in queries:
            queries[query] = len(asked)
            asked.append(first)
            gold.append(set())
        if label in ("1", "true"):
            gold[queries[query]].add(corpus[document])
    if not any(gold):
        raise UserError(f"{file}: no duplicates among the pairs, so nothing to find")
    return Questions(documents, asked, gold, by_id)


def known_pairs(questions: Questions, rows: Iterable[Rows]) -> int:
    """How many of the pairs that are to be found also stand, in either order, in some rows."""
    known = text_sets(rows, 2)
    return sum(
        row_key((query, questions.corpus[place])) in known
        for query, places in zip(questions.queries, questions.gold, strict=True)
        for place in places
    )


def reciprocal_rank(places: np.ndarray, gold: Sequence[set[int]]) -> float:
    """MRR: mean over queries with gold of 1 / rank of the first gold place in [Q, k], else 0."""
    found = []
    for row, wanted in zip(places.tolist(), gold, strict=True):
        if wanted:
            ranks = [rank for rank, place in enumerate(row, 1) if place in wanted]
            found.append(1 / ranks[0] if ranks else 0.0)
    return float(np.mean(found))


def recall(places: np.ndarray, gold: Sequence[set[int]]) -> float:
    """Mean over queries with gold of the share of it that is among the places [Q, k]."""
    shares = [
        len(wanted & set(row)) / len(wanted)
        for row, wanted in zip(places.tolist(), gold, strict=True)
        if wanted
    ]
    return float(np.mean(shares))


def compatible_lists(count: int) -> tuple[int, str | None]:
    """The lists of the paper's index for a corpus of ``count``, and a warning where they are many.

    Fewer texts than lists cannot train them at all: then as many as they should train.
    """
    wanted = LISTS * POINTS_A_LIST
    if count >= wanted:
        return LISTS, None
    if count >= LISTS:
        return LISTS, f"{LISTS:,} lists as in the paper want {wanted:,} texts; there are {count:,}"
    lists = max(1, most_lists(count))
    return lists, f"{count:,} texts cannot train the paper's {LISTS:,} lists: {lists} instead"


def evaluate(questions: Questions, encode: Encode, encode_many: Encode) -> dict[str, Any]:
    """search.json's numbers: exact search and the paper's, on one encoding of both sides.

    Args:
        questions: corpus, queries and gold.
        encode: texts -> vectors [N, d].
        encode_many: the same, perhaps behind a progress bar.
    """
    faiss = import_faiss()
    corpus = normalised(encode_many(questions.corpus))
    queries = normalised(encode_many(questions.queries))
    lists, warning = compatible_lists(len(corpus))
    exact = exact_index(corpus.shape[1])
    exact.add(corpus)
    # the authors take FAISS's default metric: on vectors of length one it ranks as the cosine does
    indexes = {"exact": exact, "compatible": ivf_index(corpus, lists, PROBES, faiss.METRIC_L2)}
    began = [time.perf_counter()]
    for text in questions.queries[:SINGLE_ENCODED]:
        nearest(exact, encode([text]), _top(corpus))
        began.append(time.perf_counter())
    return {
        "corpus": len(corpus),
        "queries": len(queries),
        "queries_with_gold": sum(map(bool, questions.gold)),
        "gold_pairs": sum(map(len, questions.gold)),
        "queries_in_corpus_verbatim": questions.verbatim,
        "keyed_by": "id" if questions.by_id else "text",
        "dim": corpus.shape[1],
        "matrix_bytes": corpus.nbytes,
        "lists": lists,
        "probes": PROBES,
        "faiss_threads": faiss.omp_get_max_threads(),
        "encode_and_search_ms": 1000 * float(np.median(np.diff(began))),
        "warning": warning,
        "modes": {
            name: _measured(index, queries, questions.gold) for name, index in indexes.items()
        },
    }


def _top(corpus: np.ndarray) -> int:
    return min(TOP, len(corpus))


def _measured(index: Any, queries: np.ndarray, gold: Sequence[set[int]]) -> dict[str, float]:
    """MRR@10, recall@10, times in ms and the bytes of a FAISS index."""
    top = min(TOP, index.ntotal)
    began = time.perf_counter()
    places = index.search(queries, top)[1]
    batch = (time.perf_counter() - began) / len(queries)
    alone = []
    for query in queries[:SINGLE]:
        began = time.perf_counter()
        index.search(query[None], top)
        alone.append(time.perf_counter() - began)
    return {
        "mrr_at_10": reciprocal_rank(places, gold),
        "recall_at_10": recall(places, gold),
        "batch_ms_per_query": 1000 * batch,
        "single_ms_median": 1000 * float(np.median(alone)),
        "single_ms_p95": 1000 * float(np.percentile(alone, 95)),
        "index_bytes": import_faiss().serialize_index(index).nbytes,
    }
