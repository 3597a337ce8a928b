"""BERT with its tanh pooler, and a classifier on it (Devlin et al. 2019, section 3 and 4.1)."""

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from multitask.models.encoders.bert import BertEncoder, initialise
from multitask.models.encoders.dropout import Dropout


class BertModel(nn.Module):
    """Encoder and tanh pooler, by default of BERT-base's size, as a course chapter builds them."""

    def __init__(
        self,
        vocab_size: int = 30522,
        d_model: int = 768,
        n_heads: int = 12,
        n_layers: int = 12,
        max_len: int = 512,
        dropout: float = 0.1,
    ) -> None:
        super().__init__()
        self.encoder = BertEncoder(
            vocab_size=vocab_size,
            dim=d_model,
            num_layers=n_layers,
            heads=n_heads,
            positions=max_len,
            dropout=dropout,
            attention_dropout=dropout,
        )
        self.pooler = nn.Linear(d_model, d_model)
        self.pooler.apply(initialise)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
    ) -> tuple[Tensor, Tensor]:
        """int64 [B, T] -> the last layer's states [B, T, d] and tanh(W h_[CLS] + b) [B, d]."""
        mask = torch.ones_like(input_ids) if attention_mask is None else attention_mask
        types = torch.zeros_like(input_ids) if token_type_ids is None else token_type_ids
        last = self.encoder.num_layers
        packing = self.encoder.packing(mask)
        embedded = self.encoder.embed(input_ids, types, mask, packing)
        hidden = self.encoder.encode(embedded, mask, (last,), packing=packing)[last]
        return hidden, torch.tanh(self.pooler(hidden[:, 0]))


class BertForSequenceClassification(nn.Module):
    """Dropout and a linear layer on the pooled [CLS] vector."""

    def __init__(self, n_classes: int, **bert_sizes: int) -> None:
        super().__init__()
        self.bert = BertModel(**bert_sizes)
        self.classifier = nn.Linear(self.bert.encoder.dim, n_classes)
        self.classifier.apply(initialise)
        self.dropout = Dropout(0.1)

    def forward(
        self,
        input_ids: Tensor,
        attention_mask: Tensor | None = None,
        token_type_ids: Tensor | None = None,
        labels: Tensor | None = None,
    ) -> tuple[Tensor | None, Tensor]:
        """int64 [B, T], labels [B] -> mean cross-entropy (None without labels), logits [B, C]."""
        _, pooled = self.bert(input_ids, attention_mask, token_type_ids)
        logits = self.classifier(self.dropout(pooled))
        return None if labels is None else cross_entropy(logits, labels), logits
