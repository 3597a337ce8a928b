"""Measure the quality and speed of search on pairs of questions with a duplicate label.

The first questions are the queries, the second questions the corpus, and the duplicate pairs the
gold standard (the layer-attention pooling paper, section 3.4 and Table 3). The protocol is that of
BERT-whitening, which the paper names in a footnote: the first 100,000 pairs, the inner product of
vectors of length one.
"""

import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from multitask.config import DataConfig
from multitask.data.readers.columns import read_table
from multitask.inference.search.text_index import (
    POINTS_A_LIST,
    Encode,
    exact_index,
    import_faiss,
    ivf_index,
    nearest,
    normalised,
)
from multitask.tasks.bootstrap import percentiles, resampled_rows
from multitask.tasks.label_reader import canonical
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError, no_file

TOP = 10
# the paper's index, and its longest question in tokens
LISTS, PROBES, MAX_LENGTH = 1024, 5, 64
PAIRS_LIMIT = 100_000
KMEANS_SEEDS = range(1, 11)
TEXT_COLUMNS = (("question1", "question2"), ("sentence1", "sentence2"))
ID_COLUMNS = ("qid1", "qid2")
LABEL_COLUMN = "is_duplicate"
# the number of queries that are searched one by one to measure latency
SINGLE, SINGLE_ENCODED = 200, 30


@dataclass(frozen=True)
class Questions:
    """Queries, a corpus to search, and the correct answers.

    Attributes:
        corpus: distinct texts to search.
        queries: distinct queries.
        gold: for each query the places of its duplicates in the corpus.
        by_id: True if questions are identified by id, False if by text.
    """

    corpus: list[str]
    queries: list[str]
    gold: list[set[int]]
    by_id: bool

    @property
    def verbatim(self) -> int:
        """Number of queries that are also in the corpus, so they may find themselves first."""
        corpus = set(self.corpus)
        return sum(query in corpus for query in self.queries)


def read_questions(file: Path, limit: int = PAIRS_LIMIT) -> Questions:
    """Read a file of pairs with the columns of Quora or of the course's quora files.

    A question is identified by its id (``qid1``, ``qid2``) if the file has ids, else by its exact
    text. Only the first ``limit`` pairs are read.

    Raises:
        UserError: no such columns, a label that is neither 0 nor 1, or no duplicates.
    """
    if not file.is_file():
        raise UserError(f"--pairs: {no_file(file)}")
    columns = read_table(file, DataConfig(), "csv")
    names = next((names for names in TEXT_COLUMNS if set(names) <= set(columns)), None)
    if names is None or LABEL_COLUMN not in columns:
        raise UserError(f"{file}: expected the columns question1, question2 and {LABEL_COLUMN}")
    texts = [columns[name] for name in names]
    by_id = set(ID_COLUMNS) <= set(columns)
    keys = [columns[name] for name in ID_COLUMNS] if by_id else texts
    corpus: dict[str, str] = {}  # texts by key
    queries: dict[str, str] = {}
    duplicates = defaultdict[str, set[str]](set)  # keys of documents by that of the query
    cells = zip(*texts, *keys, columns[LABEL_COLUMN], strict=True)
    for row, (first, second, query, document, value) in enumerate(islice(cells, limit)):
        label = canonical(value)
        if label not in ("0", "1", "true", "false", ""):
            raise UserError(f"{columns.place(row)}: {LABEL_COLUMN} is {value!r}: expected 0 or 1")
        if first.strip() and second.strip():
            queries.setdefault(query, first)
            corpus.setdefault(document, second)
            if label in ("1", "true"):
                duplicates[query].add(document)
    if not duplicates:
        raise UserError(f"{file}: no duplicates among the pairs, so nothing to find")
    place = {key: number for number, key in enumerate(corpus)}
    gold = [{place[key] for key in duplicates[query]} for query in queries]
    return Questions([*corpus.values()], [*queries.values()], gold, by_id)


def known_pairs(questions: Questions, find: Callable[[Rows], np.ndarray]) -> int:
    """Count the duplicate pairs that ``find`` knows (``multitask.data.overlap.pair_finder``)."""
    pairs: list[tuple[str, ...]] = [
        (query, questions.corpus[place])
        for query, places in zip(questions.queries, questions.gold, strict=True)
        for place in places
    ]
    return int(find(Rows("duplicates", list(map(str, range(len(pairs)))), pairs, None)).sum())


def reciprocal_ranks(places: np.ndarray, gold: Sequence[set[int]]) -> np.ndarray:
    """Return 1 / rank of the first gold place, or 0, for each query with gold; MRR is the mean."""
    reciprocals = []
    for row, wanted in zip(places.tolist(), gold, strict=True):
        if wanted:
            ranks = [rank for rank, place in enumerate(row, 1) if place in wanted]
            reciprocals.append(1 / ranks[0] if ranks else 0.0)
    return np.array(reciprocals)


def interval_of_mean(values: np.ndarray) -> tuple[float, float]:
    """Return the 95 % percentile bootstrap interval of the mean of values [N], over its rows."""
    resampled = [values[rows].mean(axis=1) for rows in resampled_rows(len(values), 1000, seed=0)]
    return percentiles(np.concatenate(resampled))


def recall(places: np.ndarray, gold: Sequence[set[int]]) -> float:
    """Compute the mean over queries with gold of the share of gold among the places [Q, k]."""
    pairs = zip(places.tolist(), gold, strict=True)
    shares = [len(wanted & set(row)) / len(wanted) for row, wanted in pairs if wanted]
    return float(np.mean(shares))


def compatible_lists(count: int) -> tuple[int, str | None]:
    """Return the number of lists for a corpus of ``count`` texts, and a warning if it is small.

    It is the paper's number of lists if there are at least as many texts. Otherwise it is the
    largest number of lists that the texts can train.
    """
    wanted = LISTS * POINTS_A_LIST
    if count >= wanted:
        return LISTS, None
    if count >= LISTS:
        need = f"the paper's {LISTS:,} lists need {wanted:,} texts to train on"
        return LISTS, f"{need}; this corpus has {count:,}"
    lists = max(1, count // POINTS_A_LIST)
    return lists, f"{count:,} texts cannot train the paper's {LISTS:,} lists: {lists} instead"


def evaluate(questions: Questions, encode: Encode, encode_many: Encode) -> dict[str, Any]:
    """Return the keys of search.json: exact search and the paper's index on the same vectors.

    Args:
        questions: corpus, queries and gold.
        encode: texts -> vectors [N, d].
        encode_many: the same, for many texts (with a progress bar).
    """
    faiss = import_faiss()
    corpus = normalised(encode_many(questions.corpus))
    queries = normalised(encode_many(questions.queries))
    lists, warning = compatible_lists(len(corpus))
    exact = exact_index(corpus.shape[1])
    exact.add(corpus)
    indexes = {"exact": exact, "compatible": ivf_index(corpus, lists, PROBES)}
    modes = {name: _measured(index, queries, questions.gold) for name, index in indexes.items()}
    by_seed = modes["compatible"]["mrr_by_seed"] = []
    for seed in KMEANS_SEEDS:
        index = ivf_index(corpus, lists, PROBES, seed)
        places = index.search(queries, min(TOP, index.ntotal))[1]
        by_seed.append(float(reciprocal_ranks(places, questions.gold).mean()))
    began = [time.perf_counter()]
    for text in questions.queries[:SINGLE_ENCODED]:
        nearest(exact, encode([text]), min(TOP, len(corpus)))
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
        "modes": modes,
    }


def _measured(index: Any, queries: np.ndarray, gold: Sequence[set[int]]) -> dict[str, Any]:
    """Measure MRR@10, recall@10, times in ms and the bytes of a FAISS index."""
    top = min(TOP, index.ntotal)
    began = time.perf_counter()
    places = index.search(queries, top)[1]
    batch = (time.perf_counter() - began) / len(queries)
    alone = []
    for query in queries[:SINGLE]:
        began = time.perf_counter()
        index.search(query[None], top)
        alone.append(time.perf_counter() - began)
    reciprocals = reciprocal_ranks(places, gold)
    return {
        "mrr_at_10": float(reciprocals.mean()),
        "mrr_interval": interval_of_mean(reciprocals),
        "recall_at_10": recall(places, gold),
        "batch_ms_per_query": 1000 * batch,
        "single_ms_median": 1000 * float(np.median(alone)),
        "single_ms_p95": 1000 * float(np.percentile(alone, 95)),
        "index_bytes": import_faiss().serialize_index(index).nbytes,
    }
