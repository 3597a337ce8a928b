"""Count the parameters of HIRE's Table 3, without weights: on torch's meta device."""

import torch

from multitask.config.registry import build
from multitask.reporting.layout import load_layout
from multitask.reporting.table_formats import Table, number
from tools.measured_docs.store import ROOT


def parameters(_: str) -> str:
    """Write HIRE's Table 3, and for its rows on RoBERTa-large our own count next to it."""
    layout = load_layout(ROOT / "configs" / "hire" / "table3.yaml")
    ours = {"roberta": _roberta_large()}
    ours["hire"] = ours["roberta"] + _hire()
    rows = []
    for name, row in layout.rows.items():
        count = ours.get(name)
        counted = f"{count / 1e6:.2f}" if count else "-"
        rows.append([row.title or name, number(row.printed[0], ".0f"), counted])
    return Table(("", "paper, M", "counted, M"), rows).markdown() + "\n"


def _roberta_large() -> int:
    """Count RoBERTa-large with its pooler."""
    from transformers import RobertaConfig, RobertaModel

    config = RobertaConfig(
        vocab_size=50265,
        hidden_size=1024,
        num_hidden_layers=24,
        num_attention_heads=16,
        intermediate_size=4096,
        max_position_embeddings=514,
        type_vocab_size=1,
    )
    with torch.device("meta"):
        return _count(RobertaModel(config))


def _hire() -> int:
    """Count what HIRE adds: both of its recurrent networks and the score."""
    with torch.device("meta"):
        return _count(build("pooling", "hire", {}, {"dim": 1024, "num_layers": 24}))


def _count(module: torch.nn.Module) -> int:
    return sum(parameter.numel() for parameter in module.parameters())
