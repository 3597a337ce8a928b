"""The quality and speed of search, exact and as in the paper: a table and its notes."""

from collections.abc import Mapping
from typing import Any

from multitask.reporting.table_formats import Table

# the titles of the columns, what a mode is multiplied by, and the format
COLUMNS = {
    "mrr_at_10": ("MRR@10", 100, ".2f"),
    "recall_at_10": ("recall@10", 100, ".2f"),
    "batch_ms_per_query": ("ms a query, all at once", 1, ".3f"),
    "single_ms_median": ("ms a query, alone (median)", 1, ".3f"),
    "single_ms_p95": ("95 %", 1, ".3f"),
    "index_bytes": ("index, MB", 1e-6, ".1f"),
}


def search_table(report: Mapping[str, Any]) -> Table:
    """Build the table of both modes of search from the content of search.json."""
    titles = {
        "exact": "exact (Flat)",
        "compatible": f"the paper's (IVF{report['lists']}, nprobe {report['probes']})",
    }
    rows = []
    for name, title in titles.items():
        values = report["modes"][name]
        cells = [f"{values[key] * by:{form}}" for key, (_, by, form) in COLUMNS.items()]
        low, high = (100 * bound for bound in values["mrr_interval"])
        cells[0] += f" [{low:.2f}, {high:.2f}]"
        rows.append([title, *cells])
    return Table(["", *(title for title, *_ in COLUMNS.values())], rows)


def notes(report: Mapping[str, Any]) -> list[str]:
    """List what was searched, what of it the model may have seen, and how it was measured."""
    threads, overlap = report["faiss_threads"], report["gold_pairs_known"]
    seen = (
        f"{overlap['trained_on']:,} of them are in the run's training rows, "
        f"{overlap['selected']:,} in the rows that selected its weights"
        if overlap
        else "how many of them are in its training data is unknown here"
    )
    by_seed = [100 * mrr for mrr in report["modes"]["compatible"]["mrr_by_seed"]]
    return [
        "MRR@10 has the 95 % bootstrap interval over the queries with a duplicate",
        f"with {len(by_seed)} other seeds of k-means the paper's index has an MRR@10 of "
        f"{min(by_seed):.2f} to {max(by_seed):.2f}",
        f"{report['corpus']:,} texts of the corpus, {report['queries']:,} queries, "
        f"{report['queries_with_gold']:,} of them with a duplicate to find; a question is "
        f"identified by its {report['keyed_by']}",
        f"{report['gold_pairs']:,} duplicate pairs; {seen}",
        f"{report['queries_in_corpus_verbatim']:,} queries are also in the corpus, word for word",
        f"the matrix of {report['corpus']:,} x {report['dim']} fp32 numbers: "
        f"{report['matrix_bytes'] / 2**30:.3f} GiB, the paper's memory",
        "encoding and exact search of one query: "
        f"{report['encode_and_search_ms']:.1f} ms (median); FAISS threads: {threads}; texts cut at "
        f"{report['max_length']} tokens",
    ]
