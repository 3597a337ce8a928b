"""Masked language modelling (Devlin et al. 2019, section 3.1 and appendix A.1)."""

from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from heads.base import Head


class MaskedLMHead(Head):
    """E LN(gelu(W h + b)) + c over the vocabulary, where E is the encoder's word embedding.

    E is not a parameter of the head: it is trained, frozen and saved with the encoder.

    Args:
        dim: width d of a token's vector.
        word_embedding: word embedding of the encoder, [V, e].
        norm_eps: eps of the LayerNorm.
        mlm_weights: the other weights from a checkpoint, under the names of this module. None: new
            weights (W normal with standard deviation .02, biases 0).
        mask_share: share of the tokens to predict, without special tokens. Of these 80 % are
            masked, 10 % replaced by a random token and 10 % left unchanged.
        whole_words: mask all tokens of a word or none.

    Raises:
        ValueError: a share outside (0, 1), or weights that do not fit.
    """

    task_type: ClassVar[str] = "tokens"

    def __init__(
        self,
        dim: int,
        word_embedding: nn.Embedding,
        norm_eps: float = 1e-12,
        mlm_weights: dict[str, Tensor] | None = None,
        mask_share: float = 0.15,
        whole_words: bool = False,
    ) -> None:
        super().__init__()
        if not 0 < mask_share < 1:
            raise ValueError(f"mask_share must be between 0 and 1, not {mask_share}")
        self.mask_share, self.whole_words = mask_share, whole_words
        vocabulary, width = word_embedding.weight.shape
        self.dense = nn.Linear(dim, width)
        self.norm = nn.LayerNorm(width, eps=norm_eps)
        self.bias = nn.Parameter(torch.zeros(vocabulary))
        nn.init.normal_(self.dense.weight, std=0.02)
        nn.init.zeros_(self.dense.bias)
        if mlm_weights is not None:
            self.load_state_dict(mlm_weights)
        # in a tuple, so that its weight belongs to the encoder alone
        self._tied = (word_embedding,)

    @classmethod
    def reads(cls, form: Any, vectors: bool) -> bool:
        return not vectors and form.texts == 1

    def forward(self, tokens: Tensor) -> Tensor:
        """Vectors of the masked tokens [M, d] -> logits [M, V]."""
        transformed = self.norm(functional.gelu(self.dense(tokens)))
        return functional.linear(transformed, self._tied[0].weight, self.bias)

    def criterion(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, V], token ids [M] -> mean cross-entropy."""
        return functional.cross_entropy(scores, labels)

    def outcomes(self, scores: Tensor, labels: Tensor) -> Tensor:
        """logits [M, V], token ids [M] -> (1 if correct else 0, cross-entropy) per token [M, 2]."""
        right = (scores.argmax(-1) == labels).to(scores.dtype)
        return torch.stack([right, functional.cross_entropy(scores, labels, reduction="none")], 1)

    def row_values(self, scores: Tensor, batch: Any, longest: int) -> Tensor:
        """Return (tokens predicted correctly, summed cross-entropy) per row [B, 2]."""
        outcomes = self.outcomes(scores, batch.labels)
        return outcomes.new_zeros(batch.rows, 2).index_add(0, batch.row_of_place, outcomes)

    def results(self, output: Tensor, labels: Tensor | None) -> tuple[Tensor, Tensor, float]:
        """``row_values`` of N rows and their numbers of masked tokens -> correct tokens [N], summed
        losses [N, 1], and the mean loss over all masked tokens."""
        assert labels is not None, "masked texts need the numbers of their masked tokens"
        right, losses = output.double().cpu().T
        masked = labels.sum().item()
        loss = losses.numpy().sum() / masked if masked else float("nan")
        return right.long(), losses.unsqueeze(1), float(loss)
