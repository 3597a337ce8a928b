"""The table and the notes of a measurement of search, from what search.json holds."""

from multitask.reporting.search_report import notes, search_table

MODE = {
    "mrr_at_10": 0.51234,
    "mrr_interval": (0.5, 0.52),
    "recall_at_10": 0.75,
    "batch_ms_per_query": 0.1234,
    "single_ms_median": 1.5,
    "single_ms_p95": 2.25,
    "index_bytes": 12_340_000,
}
FOUND = {
    "of": "runs/a_b",
    "modes": {"exact": MODE, "compatible": {**MODE, "mrr_at_10": 0.4, "mrr_by_seed": [0.41, 0.39]}},
    "lists": 100,
    "probes": 5,
    "faiss_threads": 2,
    "gold_pairs_known": {"trained_on": 1200, "selected": 30},
    "corpus": 50_000,
    "queries": 1_000,
    "queries_with_gold": 900,
    "keyed_by": "id",
    "gold_pairs": 2_000,
    "queries_in_corpus_verbatim": 12,
    "dim": 384,
    "matrix_bytes": 76_800_000,
    "encode_and_search_ms": 7.89,
    "max_length": 48,
}


def test_both_ways_of_search_are_rows_in_percent_and_milliseconds():
    lines = search_table(FOUND).text().splitlines()
    exact, compatible = (
        next(line for line in lines if line.lstrip().startswith(start))
        for start in ("exact (Flat)", "the paper's (IVF100, nprobe 5)")
    )
    numbers = ["51.23", "[50.00,", "52.00]", "75.00", "0.123", "1.500", "2.250", "12.3"]
    assert exact.split()[-8:] == numbers
    assert compatible.split()[-8:][0] == "40.00"


def test_the_notes_tell_what_was_searched_and_how():
    said = "\n".join(notes(FOUND))
    for part in (
        "50,000 texts of the corpus, 1,000 queries, 900 of them with a duplicate to find",
        "1,200 of them are in the run's training rows, 30 in the rows that selected",
        "the matrix of 50,000 x 384 fp32 numbers: 0.072 GiB",
        "with 2 other seeds of k-means the paper's index has an MRR@10 of 39.00 to 41.00",
        "7.9 ms (median)",
    ):
        assert part in said
    unknown = "\n".join(notes(FOUND | {"gold_pairs_known": None}))
    assert "training data is unknown" in unknown and "training data is unknown" not in said
