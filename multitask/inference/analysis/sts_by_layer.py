"""Score every layer on the STS suites: zero-shot Spearman by layer and fixed pooling.

Figures 1 and 2 of the layer-attention pooling paper: the [CLS] vector, the mean and the maximum
over tokens of every layer, and the average of the first and the last layer's means (SimCSE's
``avg_first_last``; the first is layer 1).
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from multitask.config.registry import resolve
from multitask.data.collate import Batch
from multitask.data.sts_suites import Suite
from multitask.inference.scoring import Scorer
from multitask.inference.similarity import cosines
from multitask.reporting.sts_report import FIRST_LAST, POOLINGS, LayerScores, SuiteLayers
from multitask.tasks.regression import correlation
from multitask.tasks.rows import Rows


def layer_vectors(
    scorer: Scorer, adapter: Any, texts: Sequence[str], max_length: int, title: str = ""
) -> np.ndarray:
    """Pool N texts at every layer, 0 (embeddings) to L: float32 [N, POOLINGS, L + 1, d]."""
    encoder = scorer.model.encoder
    layers = range(encoder.num_layers + 1)
    # poolers of the last layer, each built for an encoder that ends at layer n
    poolers = [[resolve("pooling", name)(encoder.dim, n) for n in layers] for name in POOLINGS]

    def pooled(batch: Batch) -> Tensor:
        mask = batch.attention_mask
        packing = encoder.packing(mask)
        embedded = encoder.embed(batch.input_ids, batch.token_type_ids, mask, packing)
        hidden = encoder.encode(embedded, mask, layers, adapter=adapter, packing=packing)
        return torch.stack(
            [torch.stack([pool(hidden, mask) for pool in row], 1) for row in poolers], 1
        )

    return scorer.over_texts(texts, pooled, max_length, title)


def score_layers(
    suites: Mapping[str, Suite], encode: Callable[[Sequence[str], str], np.ndarray]
) -> dict[str, SuiteLayers]:
    """Compute layers.json: Spearman of every suite and subset, by pooling and layer.

    Args:
        suites: the suites by name.
        encode: (texts, title) -> [N, POOLINGS, L + 1, d], see ``layer_vectors``; called once per
            subset.

    Returns:
        Per suite ``all`` (all its pairs together) and ``subsets``, each with a list [L + 1] per
        name in ``POOLINGS`` and a number for ``FIRST_LAST``. NaN if all cosines are equal, as for
        [CLS] of the embeddings.
    """
    scores: dict[str, SuiteLayers] = {}
    for name, suite in suites.items():
        parts = {
            subset: (rows.gold, _similarities(rows, encode, f"{name} {subset}"))
            for subset, rows in suite.items()
        }
        together = [np.concatenate(side) for side in zip(*parts.values(), strict=True)]
        subsets = {subset: _spearman(*part) for subset, part in parts.items()}
        scores[name] = {"all": _spearman(*together), "subsets": subsets}
    return scores


def _similarities(
    rows: Rows, encode: Callable[[Sequence[str], str], np.ndarray], title: str
) -> np.ndarray:
    """Compute cosines of N pairs: [N, POOLINGS * (L + 1) + 1], the last for ``FIRST_LAST``."""
    number = {text: 0 for pair in rows.texts for text in pair}
    number = {text: place for place, text in enumerate(number)}
    vectors = encode(list(number), title)
    means = vectors[:, POOLINGS.index("mean")]
    ends = (means[:, 1] + means[:, -1]) / 2
    flat = [*vectors.reshape(len(vectors), -1, vectors.shape[-1]).swapaxes(0, 1), ends]
    first, second = ([number[pair[side]] for pair in rows.texts] for side in (0, 1))
    return np.stack([cosines(layer[first], layer[second]) for layer in flat], axis=1)


def _spearman(gold: np.ndarray, similarities: np.ndarray) -> LayerScores:
    values = [correlation("spearman", gold, column) for column in similarities.T]
    table = np.array(values[:-1]).reshape(len(POOLINGS), -1).tolist()
    return {**dict(zip(POOLINGS, table, strict=True)), FIRST_LAST: values[-1]}
