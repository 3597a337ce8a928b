"""Low-rank terms for linear maps, here as other weights of these maps."""

import torch

from tests.support.small_adapters import nothing, same

OPTIONS = {"r": 5, "alpha": 7.0, "targets": ["query", "value", "attention.output", "up", "down"]}
FORMULAS = (same, same, nothing)
STARTS_AS_THE_ENCODER = True


def weights(bert, state, acts_in):
    """The state dict of an encoder whose maps W are W + (alpha / r) B A."""
    changed = dict(bert)
    for layer in acts_in:
        stem = f"layers.{layer - 1}."

        def term(name, layer=layer):
            key = f"terms.{layer}:{name.replace('.', '-')}"
            return 7.0 / 5 * state[f"{key}.up.weight"] @ state[f"{key}.down.weight"]

        for name in ("attention.output", "feed_forward.up", "feed_forward.down"):
            changed[f"{stem}{name}.weight"] = bert[f"{stem}{name}.weight"] + term(name)
        query, key, value = bert[f"{stem}attention.qkv.weight"].chunk(3)
        parts = [query + term("query"), key, value + term("value")]
        changed[f"{stem}attention.qkv.weight"] = torch.cat(parts)
    return changed


def parameters(d, layers):
    """Three maps from d to d, and two between d and 4 d."""
    return layers * 5 * (3 * 2 * d + 2 * 5 * d)


def learns_at_once(key):
    return ".up." in key
