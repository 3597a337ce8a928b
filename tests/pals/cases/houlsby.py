"""Two bottlenecks per layer, after attention and after the feed-forward part."""

from tests.support.small_adapters import bottleneck, nothing

OPTIONS = {"size": 5}
FORMULAS = (
    lambda state, layer, x: x + bottleneck(state, f"attention.{layer}", x),
    lambda state, layer, x: x + bottleneck(state, f"feed_forward.{layer}", x),
    nothing,
)
STARTS_AS_THE_ENCODER = False  # nearly: its first weights are small, not 0


def parameters(d, layers):
    size = OPTIONS["size"]
    return 2 * layers * (2 * d * size + size + d)


def learns_at_once(key):
    return True
