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


def terminal_table(report: Mapping[str, Any]) -> str:
    """Write both modes of search, and what they searched, for the terminal."""
    return "\n".join([_table(report).text(), "", *_facts(report)])


def markdown_page(report: Mapping[str, Any]) -> str:
    """Write search.md from the content of search.json."""
    lines = [
        f"# Search: {markdown(report['of'])}",
        "",
        _table(report).markdown(),
        "",
        *(f"- {markdown(line)}" for line in _facts(report)),
        *([f"- {markdown(report['warning'])}"] if report["warning"] else []),
        "",
        f"    {report['command']}",
        "",
        f"git revision: {report['git_revision'] or '-'}",
    ]
    return "\n".join(lines) + "\n"


def _table(report: Mapping[str, Any]) -> Table:
    titles = {
        "exact": "exact (Flat)",
        "compatible": f"the paper's (IVF{report['lists']}, nprobe {report['probes']})",
    }
    rows = []
    for name, title in titles.items():
        mode = report["modes"][name]
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


def _facts(report: Mapping[str, Any]) -> list[str]:
    threads, known = report["faiss_threads"], report["gold_pairs_known"]
    seen = (
        f"{known['trained_on']:,} of them are in the run's training rows, "
        f"{known['selected']:,} in the rows that selected its weights"
        if known
        else "how many of them are in its training data is unknown here"
    )
    return [
        f"{report['corpus']:,} texts of the corpus, {report['queries']:,} queries, "
        f"{report['queries_with_gold']:,} of them with a duplicate to find; a question is "
        f"identified by its {report['keyed_by']}",
        f"{report['gold_pairs']:,} duplicate pairs; {seen}",
        f"{report['queries_in_corpus_verbatim']:,} queries are in the corpus word for word",
        f"the matrix of {report['corpus']:,} x {report['dim']} fp32 numbers: "
        f"{report['matrix_bytes'] / 1e6:.1f} MB",
        "encoding and exact search of one query: "
        f"{report['encode_and_search_ms']:.1f} ms (median); FAISS threads: {threads}; texts cut at "
        f"{report['max_length']} tokens",
    ]
