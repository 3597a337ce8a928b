"""The quality and speed of search, exact and as in the paper, as text and Markdown."""

from collections.abc import Mapping
from typing import Any

from multitask.reporting.table_formats import Table, markdown

HEADER = (
    "",
    "MRR@10",
    "recall@10",
    "ms a query, all at once",
    "ms a query, alone (median)",
    "95 %",
    "index, MB",
)


def terminal_table(found: Mapping[str, Any]) -> str:
    """Write both modes of search, and what they searched, for the terminal."""
    return "\n".join([_table(found).text(), "", *_facts(found)])


def markdown_page(found: Mapping[str, Any]) -> str:
    """Write search.md from the content of search.json."""
    lines = [
        f"# Search: {markdown(found['of'])}",
        "",
        _table(found).markdown(),
        "",
        *(f"- {markdown(line)}" for line in _facts(found)),
        *([f"- {markdown(found['warning'])}"] if found["warning"] else []),
        "",
        f"    {found['command']}",
        "",
        f"git revision: {found['git_revision'] or '-'}",
    ]
    return "\n".join(lines) + "\n"


def _table(found: Mapping[str, Any]) -> Table:
    titles = {
        "exact": "exact (Flat)",
        "compatible": f"the paper's (IVF{found['lists']}, nprobe {found['probes']})",
    }
    rows = []
    for name, title in titles.items():
        mode = found["modes"][name]
        rows.append(
            [
                title,
                f"{100 * mode['mrr_at_10']:.2f}",
                f"{100 * mode['recall_at_10']:.2f}",
                f"{mode['batch_ms_per_query']:.3f}",
                f"{mode['single_ms_median']:.3f}",
                f"{mode['single_ms_p95']:.3f}",
                f"{mode['index_bytes'] / 1e6:.1f}",
            ]
        )
    return Table(HEADER, rows)


def _facts(found: Mapping[str, Any]) -> list[str]:
    threads, known = found["faiss_threads"], found["gold_pairs_known"]
    seen = (
        f"{known['trained_on']:,} of them are in the run's training rows, "
        f"{known['selected']:,} in the rows that selected its weights"
        if known
        else "how many of them are in its training data is unknown here"
    )
    return [
        f"{found['corpus']:,} texts of the corpus, {found['queries']:,} queries, "
        f"{found['queries_with_gold']:,} of them with a duplicate to find; a question is "
        f"identified by its {found['keyed_by']}",
        f"{found['gold_pairs']:,} duplicate pairs; {seen}",
        f"{found['queries_in_corpus_verbatim']:,} queries are in the corpus word for word",
        f"the matrix of {found['corpus']:,} x {found['dim']} fp32 numbers: "
        f"{found['matrix_bytes'] / 1e6:.1f} MB",
        f"encoding and exact search of one query: {found['encode_and_search_ms']:.1f} ms (median); "
        f"FAISS threads: {threads}; texts cut at {found['max_length']} tokens",
    ]
