"""TS(h) = gelu(V_D MH(V_E h)), added to each layer's output."""

from tests.support.small_adapters import pal_term, same

OPTIONS = {"size": 6, "heads": 3}
FORMULAS = (same, same, pal_term)
STARTS_AS_THE_ENCODER = True


def parameters(d, layers):
    size = OPTIONS["size"]
    return 2 * d * size + size + d + 3 * layers * (size * size + size)


def learns_at_once(key):
    return key.startswith("up.")
