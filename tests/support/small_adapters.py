"""Adapters by name in a small encoder of ours, and the formulas of both in plain loops."""

import math

import torch
from torch.nn.functional import layer_norm

from multitask.config.registry import build
from multitask.models.encoders.bert import BertEncoder
from tests.support.cases import adapter_case

D, HEADS, LAYERS, EPS = 24, 4, 3, 1e-12
LENGTHS = [6, 1, 3, 6, 9, 2]
NORMS = ("attention_norm", "output_norm")


def noisy(module, seed):
    """Every weight random, so that none is zero or one by its initial value."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            noise = torch.randn(parameter.shape, generator=generator, dtype=torch.float64)
            parameter += 0.3 * noise.to(parameter.dtype)
    return module


def encoder(dropout=0.0):
    torch.manual_seed(0)
    made = BertEncoder(
        vocab_size=50,
        dim=D,
        num_layers=LAYERS,
        heads=HEADS,
        positions=16,
        dropout=dropout,
        attention_dropout=dropout,
        eps=EPS,
    )
    return noisy(made, 1).double().eval()


def fresh(name, seed=2, **options):
    context = {"dim": D, "num_layers": LAYERS, "maps": encoder().linear_maps()}
    torch.manual_seed(seed)
    return (
        build("adapter", name, {**adapter_case(name).OPTIONS, **options}, context).double().eval()
    )


def trained(name, seed=2, **options):
    """As ``fresh``, with weights as after a training run."""
    return noisy(fresh(name, seed, **options), seed)


def embedded(lengths=LENGTHS, padding=0, left=False):
    """[B, T, d] and the mask; pads hold junk."""
    generator = torch.Generator().manual_seed(3)
    width = max(lengths) + padding
    states = torch.full((len(lengths), width, D), 1e3, dtype=torch.float64)
    mask = torch.zeros(len(lengths), width, dtype=torch.int64)
    for row, length in enumerate(lengths):
        states_of_row = torch.randn(length, D, generator=generator, dtype=torch.float64)
        place = slice(width - length, width) if left else slice(0, length)
        states[row, place], mask[row, place] = states_of_row, 1
    return states, mask


def sentences(state, mask):
    """The real tokens of each row of [B, T, d]."""
    return [row[tokens.bool()] for row, tokens in zip(state, mask, strict=True)]


def product(state, name, rows):
    return rows @ state[f"{name}.weight"].T + state[f"{name}.bias"]


def gelu(x):
    return x * 0.5 * (1 + torch.erf(x / math.sqrt(2)))


def attention(query, key, value, heads):
    """Head by head and token by token."""
    width = query.shape[1] // heads
    result = []
    for head in range(heads):
        part = slice(head * width, (head + 1) * width)
        for token in query[:, part]:
            scores = torch.stack([token @ other / math.sqrt(width) for other in key[:, part]])
            weights = scores.exp() / scores.exp().sum()
            result.append(sum(w * v for w, v in zip(weights, value[:, part], strict=True)))
    return torch.cat(torch.stack(result).split(len(query)), dim=1)


def fused(state, name, rows, heads):
    """Attention whose queries, keys and values are one matrix product."""
    wide = product(state, name, rows)
    width = wide.shape[1] // 3
    return attention(*(wide[:, i * width : (i + 1) * width] for i in range(3)), heads)


def bottleneck(state, name, rows):
    return product(state, f"{name}.up", gelu(product(state, f"{name}.down", rows)))


def feed_forward(state, name, rows):
    return product(state, f"{name}.down", gelu(product(state, f"{name}.up", rows)))


def pal_term(state, layer, hidden, last=gelu):
    """TS(h) = gelu(V_D MH(V_E h))."""
    inner = product(state, "down", hidden)
    return last(product(state, "up", fused(state, f"qkv.{layer}", inner, 3)))


def same(state, layer, rows):
    return rows


def nothing(state, layer, hidden):
    return torch.zeros_like(hidden)


def naive(bert, adapter, sentence, formulas, acts_in=range(1, LAYERS + 1)):
    """Every hidden state of one sentence [T, d]; ``bert`` and ``adapter`` are state dicts."""
    states = [sentence]
    for layer in range(1, LAYERS + 1):
        stem = f"layers.{layer - 1}"
        norms = [(bert[f"{stem}.{n}.weight"], bert[f"{stem}.{n}.bias"]) for n in NORMS]
        first, second, beside = formulas if layer in acts_in else (same, same, nothing)
        h = states[-1]
        mixed = fused(bert, f"{stem}.attention.qkv", h, HEADS)
        added = first(adapter, layer, product(bert, f"{stem}.attention.output", mixed))
        a = layer_norm(h + added, (D,), *norms[0], EPS)
        fed = second(adapter, layer, feed_forward(bert, f"{stem}.feed_forward", a))
        term = beside(adapter, layer, h)
        states.append(layer_norm(fed + a + term, (D,), *norms[1], EPS))
    return states
