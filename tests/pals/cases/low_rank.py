"""A bottleneck per layer, added to the layer's output."""

from tests.support.small_adapters import bottleneck, same

OPTIONS = {"size": 5}
FORMULAS = (same, same, lambda state, layer, h: bottleneck(state, f"bottlenecks.{layer}", h))
STARTS_AS_THE_ENCODER = True


def parameters(d, layers):
    size = OPTIONS["size"]
    return layers * (2 * d * size + size + d)


def learns_at_once(key):
    return ".up." in key
