"""Gradient surgery: combine the tasks' gradients of the shared parameters into one.

Every method needs only the Gramian of the gradients, G_ij = g_i . g_j, and gives one weight per
task: the shared parameters get sum_i w_i g_i. The methods are those of the library torchjd (an
extra). This file names them for YAML and collects the gradients.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import combinations_with_replacement
from typing import Any

import torch
from torch import Tensor, nn

from multitask.config import Config
from multitask.config.registry import build
from multitask.utils import distributed
from multitask.utils.device import counts_launches
from multitask.utils.errors import UserError, reason_of
from multitask.utils.optional import install_command

# private attributes of torchjd's GradVac: its running cosines, and the number of tasks and dtype
# that they belong to
COSINES, MADE_FOR = "_phi_t", "_state_key"
# methods whose result has the scale of the gradients' mean, not of their sum; those in SHORTEN
# give a shorter vector still
MEANS = ("cagrad", "mgda", "aligned_mtl")
SHORTEN = ("mgda", "aligned_mtl")


def _made(name: str, **options: float) -> Any:
    """Make a torchjd weighting. Raises UserError if torchjd or its extras are not installed."""
    try:
        import torchjd.aggregation as library

        return getattr(library, name)(**options)
    except ImportError as error:
        reason, command = reason_of(error), install_command("surgery")
        raise UserError(f"gradient surgery needs more packages ({reason}): {command}") from error


def pcgrad() -> Any:
    """PCGrad (Yu et al. 2020, Algorithm 1): project away what points against another task."""
    return _made("PCGradWeighting")


def gradvac(beta: float = 0.01) -> Any:
    """Gradient Vaccine (Wang et al. 2021): pull each pair's cosine up to its running mean.

    Args:
        beta: how fast the running mean follows (the paper's 1e-2).

    Raises:
        ValueError: ``beta`` outside 0 to 1.
        UserError: a version of torchjd whose running cosines could not be saved.
    """
    if not 0 <= beta <= 1:
        raise ValueError(f"beta must be from 0 to 1, not {beta}")
    weighting = _made("GradVacWeighting", beta=beta)
    if not (hasattr(weighting, COSINES) and hasattr(weighting, MADE_FOR)):
        raise UserError(
            f"gradvac: this version of torchjd is not known here: {install_command('surgery')}"
        )
    return weighting


def cagrad(c: float = 0.4) -> Any:
    """CAGrad (Liu et al. 2021): helps the worst task most, not far from the mean gradient g.

    Args:
        c: how far, in lengths of g; from 0 to below 1.

    Raises:
        ValueError: ``c`` is outside this range, where the mean loss might not fall.
    """
    if not 0 <= c < 1:
        raise ValueError(f"c must be from 0 to below 1, not {c}")
    return _made("CAGradWeighting", c=c)


def mgda() -> Any:
    """MGDA (Sener & Koltun 2018): the shortest vector in the gradients' convex hull."""
    return _made("MGDAWeighting")


def aligned_mtl() -> Any:
    """Aligned-MTL (Senushkin et al. 2023): principal components of equal length."""
    return _made("AlignedMTLWeighting")


@dataclass
class Surgery:
    """Combines the tasks' gradients in every ``every``-th step.

    Attributes:
        weighting: torchjd's function from a Gramian to one weight per task.
        every: surgery is applied in every ``every``-th step.
        a_mean: the method's result has the scale of the gradients' mean. Its weights are multiplied
            by the number of tasks, because steps without surgery add the gradients up.
        phi: Gradient Vaccine's running cosine of each "task.other"; empty for other methods.
    """

    weighting: Any
    every: int = 1
    a_mean: bool = False
    phi: dict[str, float] = field(default_factory=dict)

    def due(self, step: int) -> bool:
        """Return True if surgery applies to the next step, after ``step`` steps."""
        return (step + 1) % self.every == 0

    def begin_anew(self) -> None:
        """Forget ``phi``: a new stage has other tasks or other parameters."""
        self.phi = {}

    def weights(self, gramian: Tensor, tasks: Sequence[str]) -> list[float]:
        """Compute w [tasks] from a Gramian [tasks, tasks]; a single task keeps its gradient.

        Only the first process computes them, because some methods use a random order of the tasks.
        If the Gramian is not finite, all weights are NaN, so that ``train_step`` refuses the step:
        some methods would hide it.
        """
        if len(tasks) == 1:
            return [1.0]

        def decide() -> list[float]:
            on_host = gramian.cpu()  # a GPU is waited for once
            finite = bool(on_host.isfinite().all())
            return self._decide(on_host, tasks) if finite else [math.nan] * len(tasks)

        return distributed.on_first(decide)

    def _decide(self, gramian: Tensor, tasks: Sequence[str]) -> list[float]:
        """Compute the weights with torchjd; they do not depend on the gradients' scale.

        The Gramian is scaled to trace 1, because torchjd treats short gradients (1e-2) as zero.
        GradVac stores its running cosines by position, so it is given those of these tasks.
        """
        trace = gramian.trace()
        gramian = gramian / trace if trace else gramian
        remembers = hasattr(self.weighting, COSINES)
        if remembers:
            rows = [[self.phi.get(f"{task}.{other}", 0.0) for other in tasks] for task in tasks]
            setattr(self.weighting, COSINES, torch.tensor(rows, dtype=gramian.dtype))
            setattr(self.weighting, MADE_FOR, (len(tasks), gramian.dtype))
        scale = len(tasks) if self.a_mean else 1
        weights: list[float] = (self.weighting(gramian) * scale).tolist()
        if self.a_mean and not any(weights):
            # torchjd's CAGrad treats a gradient as zero if another is 1e4 times as long
            weights = [1.0] * len(tasks)
        if remembers:
            rows = getattr(self.weighting, COSINES).tolist()
            for task, row in zip(tasks, rows, strict=True):
                self.phi |= {f"{task}.{t}": cosine for t, cosine in zip(tasks, row, strict=True)}
        return weights

    def state_dict(self) -> dict[str, Tensor]:
        """Return ``phi`` as fp64 scalars."""
        return {pair: torch.tensor(value, dtype=torch.float64) for pair, value in self.phi.items()}

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:
        self.phi = {pair: cosine.item() for pair, cosine in state.items()}


class TaskGradients:
    """The tasks' gradients of the shared parameters over the forward passes of one step.

    This needs memory for one more gradient of the shared parameters per task.

    Args:
        shared: the shared parameters, by part of the model.
    """

    def __init__(self, shared: Mapping[str, list[nn.Parameter]]) -> None:
        self.shared = shared
        self.parameters = [parameter for part in shared.values() for parameter in part]
        self.rows: dict[str, list[Tensor | None]] = {}

    def backward(self, task: str, objective: Tensor) -> None:
        """Add one task's gradients; those of parameters that are not shared stay in ``.grad``."""
        objective.backward()
        row = self.rows.setdefault(task, [None] * len(self.parameters))
        sums, more = [], []
        for place, parameter in enumerate(self.parameters):
            before, new = row[place], parameter.grad
            if before is None:
                row[place] = new
            elif new is not None:
                sums.append(before)
                more.append(new)
            parameter.grad = None
        if sums:
            torch._foreach_add_(sums, more)

    def gramians(self) -> dict[str, Tensor]:
        """Compute G_ij = g_i . g_j [tasks, tasks] for each part of the model with gradients."""
        gramians: dict[str, Tensor] = {}
        start = 0
        for name, part in self.shared.items():
            rows = [row[start : start + len(part)] for row in self.rows.values()]
            start += len(part)
            some = next((g for row in rows for g in row if g is not None), None)
            if some is None:
                continue
            gramians[name] = some.new_zeros(len(rows), len(rows))
            for i, j in combinations_with_replacement(range(len(rows)), 2):
                gramians[name][i, j] = gramians[name][j, i] = _dot(rows[i], rows[j])
        return gramians

    def gramian(self) -> Tensor | None:
        """Compute G_ij = g_i . g_j [tasks, tasks] of all parts; None without gradients.

        On a GPU one matrix product does it. It needs a copy of all gradients.
        """
        kept = [g for row in self.rows.values() for g in row if g is not None]
        if not kept:
            return None
        if not counts_launches(kept[0].device):
            return torch.stack(list(self.gramians().values())).sum(0)
        used = [place for place, some in enumerate(zip(*self.rows.values(), strict=True))
                if any(g is not None for g in some)]  # fmt: skip
        rows = []
        for row in self.rows.values():  # 0 where a task has no gradient
            pairs = [(row[place], self.parameters[place]) for place in used]
            rows.append(
                torch.cat([(torch.zeros_like(p) if g is None else g).flatten() for g, p in pairs])
            )
        flat = torch.stack(rows)
        return flat @ flat.T

    def combine(self, surgery: Surgery) -> None:
        """Write sum_i w_i g_i into ``.grad`` of the shared parameters that have gradients.

        The gradients of all ranks are added up before, task by task.
        """
        for row in self.rows.values():
            distributed.add_tensors([gradient for gradient in row if gradient is not None])
        gramian = self.gramian()
        if gramian is None:
            return
        weights = surgery.weights(gramian, list(self.rows))
        for weight, row in zip(weights, self.rows.values(), strict=True):
            first, sums, more = [], [], []
            for gradient, parameter in zip(row, self.parameters, strict=True):
                if gradient is None:
                    continue
                if parameter.grad is None:
                    parameter.grad = gradient
                    first.append(gradient)
                else:
                    sums.append(parameter.grad)
                    more.append(gradient)
            if first:
                torch._foreach_mul_(first, weight)
            if sums:
                torch._foreach_add_(sums, more, alpha=weight)


def _dot(first: Sequence[Tensor | None], second: Sequence[Tensor | None]) -> Tensor | float:
    """Compute g_i . g_j per parameter: one matrix of all gradients would copy them."""
    pairs = zip(first, second, strict=True)
    return sum(
        (torch.dot(a.flatten(), b.flatten()) for a, b in pairs if a is not None and b is not None),
        start=0.0,
    )


def cosines(gramian: Tensor) -> Tensor:
    """Convert a Gramian to cos(g_i, g_j) [tasks, tasks]; NaN if a task has no gradient."""
    lengths = gramian.diagonal().sqrt()
    return gramian / lengths.outer(lengths)


def build_surgery(config: Config) -> Surgery | None:
    """Build the gradient surgery that a config asks for; None if it asks for none."""
    choice = config.training.gradient_surgery
    if choice is None:
        if config.training.surgery_every > 1:
            raise config.error(("training", "surgery_every"), "there is no `gradient_surgery`")
        return None
    with config.errors_at(("training", "gradient_surgery")):
        weighting = build("gradient_surgery", choice.name, choice.options, {})
    if choice.name in SHORTEN and config.training.surgery_every > 1:
        message = (
            f"{choice.name} shortens the gradient: its steps would hardly count next to the others"
        )
        raise config.error(("training", "surgery_every"), message)
    return Surgery(weighting, config.training.surgery_every, a_mean=choice.name in MEANS)
