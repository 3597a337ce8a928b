"""AdamW that brings a row of the word embedding up to date when it is next read.

Half of a small BERT's parameters are the word embedding, and a batch touches about one row of it
in a hundred. AdamW moves the other rows as well: their momentum decays, step by step. Here those
steps are made up for at a row's next lookup (and all of them by ``catch_up``), in closed form but
for one series. So the gradient stays sparse, and 47 MB a step are neither filled with zeros nor
clipped nor updated.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim.adamw import adamw

GONE = 1e-7  # what is left of a sum or of a first moment when it counts as gone: fp32's rounding
CHUNK = 128  # rows made up at a time, that have missed about as many steps


class RowLazyAdamW(torch.optim.AdamW):
    """The AdamW of torch, to rounding; only where one row is read, the others may lag behind.

    Rows that lag are current for every lookup of ``embedding``; whoever reads its weight otherwise
    calls ``catch_up`` first. What a row becomes does not depend on when a checkpoint was saved.

    Args:
        groups: AdamW's parameter groups, the embedding's weight among them.
        embedding: gets sparse gradients, and all gradients come from its lookups.
        options: AdamW's, ``betas`` and ``eps`` among them.
    """

    def __init__(
        self, groups: Sequence[dict[str, Any]], embedding: nn.Embedding, **options: Any
    ) -> None:
        super().__init__(groups, **options)
        self._embedding = embedding
        self._group = next(
            number
            for number, group in enumerate(self.param_groups)
            if any(parameter is embedding.weight for parameter in group["params"])
        )
        self.param_groups[self._group]["rates"] = []  # of every step so far
        weight = embedding.weight
        self.state[weight] = {
            "step": torch.tensor(0.0),
            "exp_avg": torch.zeros_like(weight),
            "exp_avg_sq": torch.zeros_like(weight),
            "current": weight.new_zeros(len(weight)),  # the step that a row is up to date with
        }
        self._history = torch.tensor([[1.0], [0.0], [1.0]], dtype=torch.float64)
        embedding.sparse = True
        self._hook = embedding.register_forward_pre_hook(self._before_lookup)

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        """AdamW's step; of the embedding only the rows that have a gradient."""
        weight = self._embedding.weight
        gradient, weight.grad = weight.grad, None
        found = super().step(closure)
        if gradient is not None:
            gradient = gradient.coalesce()
            self._step_rows(gradient.indices()[0], gradient.values())
        return found

    def catch_up(self) -> None:
        """Bring every row up to date."""
        self._make_up(torch.arange(len(self._embedding.weight)))

    def close(self) -> None:
        """Every row up to date, and the embedding as it was before."""
        self.catch_up()
        self._hook.remove()
        self._embedding.sparse = False

    def _before_lookup(self, embedding: nn.Module, inputs: tuple[Tensor]) -> None:
        self._make_up(inputs[0].unique())

    def _step_rows(self, rows: Tensor, gradient: Tensor) -> None:
        """torch's own AdamW on these rows, which are up to date."""
        group, weight = self.param_groups[self._group], self._embedding.weight
        state, rates = self.state[weight], group["rates"]
        moments = state["exp_avg"][rows], state["exp_avg_sq"][rows]
        updated = weight[rows]
        adamw(
            [updated],
            [gradient],
            [moments[0]],
            [moments[1]],
            [],
            [state["step"]],
            fused=True,
            amsgrad=False,
            beta1=group["betas"][0],
            beta2=group["betas"][1],
            lr=group["lr"],
            weight_decay=group["weight_decay"],
            eps=group["eps"],
            maximize=False,
        )
        rates.append(float(group["lr"]))
        weight[rows] = updated
        state["exp_avg"][rows], state["exp_avg_sq"][rows] = moments
        state["current"][rows] = len(rates)

    @torch.no_grad()
    def _make_up(self, rows: Tensor) -> None:
        """The steps that these rows have missed, in which their gradient was zero."""
        group, weight = self.param_groups[self._group], self._embedding.weight
        state, done = self.state[weight], len(group["rates"])
        current = state["current"][rows]
        late = current < done
        if not late.any():
            return
        self._history = _extended(self._history, group)
        rows, current = rows[late], current[late].long()
        decayed = self._history[0]
        weight[rows] *= (decayed[-1] / decayed[current]).float().unsqueeze(1)
        state["current"][rows] = done
        moving = state["exp_avg"][rows].any(1)
        order = current[moving].argsort()
        rows, current = rows[moving][order], current[moving][order]
        for begin in range(0, len(rows), CHUNK):
            some, since = rows[begin : begin + CHUNK], current[begin : begin + CHUNK]
            first, second = state["exp_avg"][some], state["exp_avg_sq"][some]
            weight[some] -= first * _missed(second.sqrt(), since, group, self._history)
            beta1, beta2 = group["betas"]
            missed = (done - since).unsqueeze(1)
            kept = beta1**missed
            state["exp_avg"][some] = first * torch.where(kept < GONE, 0, kept)
            state["exp_avg_sq"][some] = second * beta2**missed


def _extended(history: Tensor, group: Mapping[str, Any]) -> Tensor:
    """What is known of steps 0, 1, ..., up to the last: float64 [3, steps + 1].

    The rows are what weight decay has left of a weight after step j, the step's rate over
    1 - beta1^j, and 1 - beta2^j.
    """
    known = history.shape[1]
    rates = torch.tensor(group["rates"][known - 1 :], dtype=torch.float64)
    steps = torch.arange(known, known + len(rates), dtype=torch.float64)
    beta1, beta2 = group["betas"]
    decayed = history[0, -1] * (1 - group["weight_decay"] * rates).cumprod(0)
    new = torch.stack([decayed, rates / (1 - beta1**steps), 1 - beta2**steps])
    return torch.cat([history, new], 1)


def _missed(root: Tensor, since: Tensor, group: Mapping[str, Any], history: Tensor) -> Tensor:
    """What the missed steps subtract, as multiples of the first moment: [n, d] -> [n, d].

    With sqrt(v) = x after step s, step s + k subtracts a_k m / (x g_k + eps), where

        a_k = lr beta1^k / (1 - beta1^(s+k)) * what decay leaves after it
        g_k = sqrt(beta2^k / (1 - beta2^(s+k)))

    g falls with k. With y = x g_1 / (x g_1 + eps), between 0 and 1, the sum over k is a power
    series without cancellation, cut where fp32 would round the rest away:

        1 / (x g_1 + eps) * sum_n y^n sum_k a_k (1 - g_k / g_1)^n

    Args:
        root: x of each row.
        since: s of each row.
        group: the embedding's.
        history: as ``_extended`` has it.
    """
    beta1, beta2 = group["betas"]
    last = history.shape[1] - 1
    longest = last - int(since.min())
    if beta1 > 0:
        longest = min(longest, math.ceil(math.log(GONE) / math.log(beta1)))
    passed = torch.arange(1, longest + 1)
    steps = since.unsqueeze(1) + passed
    decayed, rates, bias = history[:, steps.clamp(max=last)]
    term = rates * (steps <= last) * (history[0, -1] / decayed) * beta1 ** passed.double()
    slope = (beta2 ** passed.double() / bias).sqrt()
    lack = 1 - slope / slope[:, :1]
    coefficients = [term.sum(1)]
    while True:
        term = term * lack
        if ((term / (1 - lack)).sum(1) <= GONE * coefficients[0]).all():
            break
        coefficients.append(term.sum(1))
    columns = torch.stack(coefficients).to(root.dtype).unsqueeze(2)
    scaled = root * slope[:, :1].to(root.dtype)
    below = scaled + group["eps"]
    y = scaled / below
    found = columns[-1].expand_as(y).clone()
    for column in columns[:-1].flip(0):
        found.mul_(y).add_(column)
    return found / below
