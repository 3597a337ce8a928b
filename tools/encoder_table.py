"""Print the table of docs/encoders.md from ``hf_layout.LAYOUTS``, or write it into the page.

python -m tools.encoder_table > /dev/null   # renews docs/encoders.md
"""

from pathlib import Path

from transformers import AutoConfig

from multitask.models.encoders.hf_layout import LAYOUTS, Layout, has_dropout, has_token_types

PAGE = Path(__file__).parent.parent / "docs" / "encoders.md"
BEGIN, END = "<!-- table: python -m tools.encoder_table -->\n", "<!-- end -->\n"
# an encoder of each type, by its name on the hub
EXAMPLES = {
    "bert": "`bert-base-uncased`, `packaged-minilm`",
    "roberta": "`roberta-base`",
    "xlm-roberta": "`xlm-roberta-base`",
    "camembert": "`camembert-base`",
    "distilbert": "`distilbert-base-uncased`",
    "electra": "`google/electra-base-discriminator`",
    "albert": "`albert-base-v2`",
    "mpnet": "`packaged-mpnet`",
    "deberta-v2": "`microsoft/deberta-v3-base`",
    "modernbert": "`answerdotai/ModernBERT-base`, `jhu-clsp/ettin-encoder-17m`",
    "nomic_bert": "`nomic-ai/nomic-embed-text-v1.5`",
    "gte": "`Alibaba-NLP/gte-base-en-v1.5`",
    "eurobert": "`EuroBERT/EuroBERT-210m`",
}
# types whose pretrained weights were at hand; of the others only random ones
TRIED = ("bert", "mpnet")
HEADER = (
    "`model_type`",
    "such as",
    "runs in",
    "weights tried",
    "tells pairs apart by",
    "dropout by default",
    "`encoder.dropout` sets",
    "tanh pooler",
    "masked-LM head",
    "`transformers` classifier",
    "checkpointing",
    "states below the last",
)


def table() -> str:
    """Return the table as Markdown."""
    rows = [HEADER, ["---"] * len(HEADER), *(_row(kind, row) for kind, row in LAYOUTS.items())]
    return "".join(f"| {' | '.join(row)} |\n" for row in rows)


def _row(kind: str, layout: Layout) -> list[str]:
    config = AutoConfig.for_model(kind)
    heads = [h for h in layout.heads if not h.activation or getattr(config, h.activation) == "gelu"]
    return [
        f"`{kind}`",
        EXAMPLES[kind],
        "our encoder" if layout.own else "`transformers`",
        "pretrained" if kind in TRIED else "random",
        # RoBERTa's published kin have one token type, by default it has two
        "token types" if has_token_types(config) and not layout.padding_id else "separators",
        _yes(has_dropout(config)),
        ", ".join(f"`{key}`" for key in layout.dropout) or "-",
        _yes(layout.pooler),
        _yes(heads),
        _yes(layout.classifier),
        _yes(layout.checkpoints or layout.own),
        "not normalised" if layout.final_norm else "normalised",
    ]


def _yes(value: object) -> str:
    return "yes" if value else "-"


def renewed(page: str) -> str:
    """Return the page with the table of today."""
    before, _, rest = page.partition(BEGIN)
    return before + BEGIN + table() + END + rest.partition(END)[2]


if __name__ == "__main__":
    PAGE.write_text(renewed(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
    print(table(), end="")
