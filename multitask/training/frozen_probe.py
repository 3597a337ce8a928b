"""Train heads on a frozen encoder (probes), and measure the baselines of a run with them."""

import copy
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from multitask.data.collate import Batch, SharedBatch, collate, label_tensor
from multitask.data.tokenize import Split, Tokens
from multitask.inference.scoring import Scorer, Scores, measure, scores_of
from multitask.inference.trivial_scores import trivial_scores
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.task_module import TaskModule
from multitask.reporting.table_formats import duration
from multitask.store.run_directory import RunDirectory
from multitask.store.saved import Baselines, Score
from multitask.tasks import metrics
from multitask.tasks.base import RowLabels
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.rows import Rows
from multitask.training.setup import Plan
from multitask.utils import distributed
from multitask.utils.device import autocast
from multitask.utils.errors import NotFinite
from multitask.utils.heartbeat import tracked

EPOCHS = 30
PATIENCE = 5  # epochs without a better score, if the pooler is trained too
BATCH_SIZE = 64
# if the hidden states of a split need at most this, they are computed once, else in every epoch
STORED_BYTES = 2 * 2**30

# (a task's pooler, split, int64 [B] rows or None for all) -> pooled vectors [B, sides, d]
Pooled = Callable[[Any, str, Tensor | None], Tensor]


@dataclass(frozen=True)
class Probing:
    """Settings of a probe.

    Attributes:
        lr: the learning rate.
        metric: the metric that selects the epoch.
        seed: the seed of the order of rows and of dropout.
    """

    lr: float
    metric: str
    seed: int


# --- the baselines of a run: a trivial predictor, and heads trained on the frozen encoder ---


def run_baselines(
    plan: Plan, run: RunDirectory, say: Callable[[str], None]
) -> dict[str, Baselines]:
    """Compute the trivial and frozen-encoder scores of each task, once per run; save them."""
    measured = [
        name
        for name, task in plan.config.tasks.items()
        if task.evaluate_only or not task.only_scored or "dev" in plan.data.splits[name]
    ]
    saved = distributed.on_first(run.load_baselines)
    if saved is not None and list(saved) == measured:
        return saved
    baselines: dict[str, Baselines] = {}
    say("measuring the baselines")
    began = time.perf_counter()
    for name in measured:
        trivial = _trivial(plan, name)
        baselines[name] = Baselines(trivial=trivial, frozen=_frozen(plan, name, say)).defined()
    say(f"baselines measured in {duration(time.perf_counter() - began)}")
    contents = {name: each.content() for name, each in baselines.items()}
    distributed.on_first(lambda: run.write_json(run.baselines, contents))
    return baselines


def _frozen(plan: Plan, name: str, say: Callable[[str], None]) -> Mapping[str, Score] | None:
    """Score a task's head on the frozen encoder; None if the config or the task asks for none."""
    config, splits, reader = plan.config, plan.data.splits[name], plan.data.readers[name]
    task = config.tasks[name]
    if not config.training.frozen_baseline:
        return None
    if task.share_pooling and name not in config.trained_tasks():  # its score before training
        return measure(plan.scorer.score(name, splits["dev"]), splits["dev"].rows, reader)
    is_this_run = config.encoder.freeze is True and task.adapter is None  # the baseline
    if task.only_scored or not isinstance(reader.task_type, RowLabels) or is_this_run:
        return None
    say(f"baseline: {name}'s head on the frozen encoder")
    how = Probing(task.head_lr or config.training.head_lr, plan.metrics[name], config.seed)
    return frozen_head_scores(plan.scorer, name, splits, reader, how=how)


def _trivial(plan: Plan, task: str) -> Mapping[str, Score]:
    """Score a predictor that ignores the texts on dev; all None for an evaluate-only task."""
    entry, reader, splits = plan.config.tasks[task], plan.data.readers[task], plan.data.splits
    if entry.evaluate_only:
        return dict.fromkeys(reader.task_type.metrics)
    train, dev = splits[plan.config.selecting_tasks()[task]]["train"], splits[task]["dev"]
    masking = plan.data.maskings.get(task)
    return trivial_scores(plan.model.head(task), train, dev, reader, masking=masking)


# --- probes ---


def frozen_vectors(
    scorer: Scorer, tasks: Sequence[str], split: Split, title: str
) -> dict[str, Tensor]:
    """Pool one split for each task with the current encoder.

    The encoder runs once for all tasks, and once per distinct text of pairs.

    Returns:
        {task: [N, sides, d]} in file order.
    """

    def pooled(batch: Batch) -> Tensor:
        vectors = scorer.model.pooled([SharedBatch(batch, dict.fromkeys(tasks, batch))])
        return torch.cat([vectors[task] for task in tasks], dim=-1)

    texts, which = split.tokens.inputs
    size = BATCH_SIZE * split.tokens.sides
    together = scorer.over_rows(texts, pooled, batch_size=size, title=title)
    widths = [scorer.model.module(task).pooler.output_dim for task in tasks]
    return dict(zip(tasks, together[which].split(widths, dim=-1), strict=True))


def frozen_head_scores(
    scorer: Scorer, task: str, splits: Mapping[str, Split], reader: LabelReader, *, how: Probing
) -> dict[str, float] | None:
    """Train a task's projection and head on the frozen encoder and return their dev metrics.

    The encoder runs once, without dropout; see ``train_probe``.

    Returns:
        The metrics; None if fixed vectors cannot train the head: the pooler has parameters, the
        task is scored with a different pooler than it trains with, or it uses another task's
        modules.
    """
    module = scorer.model.module(task)
    learned = has_parameters(module.pooler)
    if learned or len(scorer.model.owners_of(task)) > 1 or module.eval_pooler is not None:
        return None
    vectors = {
        name: frozen_vectors(scorer, [task], splits[name], f"encoding {task}")[task]
        for name in splits_in_use(splits)
    }
    probe = train_probe(module, fixed(vectors), splits, reader, how=how, task=task)
    return measure(probe.dev, splits["dev"].rows, reader)


def has_parameters(pooler: nn.Module) -> bool:
    """Return True if the pooler is trained too: a probe then needs hidden states, not vectors."""
    return any(True for _ in pooler.parameters())


def fixed(vectors: Mapping[str, Tensor]) -> Pooled:
    """Return a ``Pooled`` that uses the same vectors [N, sides, d] of a split in every epoch."""
    return lambda pooler, split, rows: vectors[split] if rows is None else vectors[split][rows]


def splits_in_use(splits: Collection[str]) -> list[str]:
    """Return the splits that a probe needs: ``train``, ``dev`` and, if it exists, ``holdout``."""
    return [name for name in ("train", "holdout", "dev") if name in splits]


@dataclass
class Probe:
    """A head that was trained on a frozen encoder.

    Attributes:
        dev: its scores on dev.
        selected_step: the step of the selected weights.
        steps: the number of steps that were trained.
        seconds: the duration of training.
    """

    dev: Scores
    selected_step: int
    steps: int
    seconds: float


def train_probe(
    module: TaskModule,
    pooled: Pooled,
    splits: Mapping[str, Split],
    reader: LabelReader,
    *,
    how: Probing,
    task: str,
) -> Probe:
    """Train a copy of a task's freshly initialised modules on a frozen encoder.

    Training takes 30 epochs of AdamW and keeps the weights of the epoch that is best on the
    selection split (``holdout`` if it exists, else ``dev``). The untrained modules count as an
    epoch too. If the pooler has parameters, an epoch is expensive, so training stops after 5 epochs
    without a better score. Modules without parameters are scored without training. Torch's global
    random state does not change.

    Args:
        module: the task's modules; they are copied, not changed.
        pooled: the vectors of each split in use: ``fixed``, or ``TokenStates`` for a pooler that
            has parameters.
        splits: the rows of these splits.
        reader: the task's label reader.
        how: how the probe is trained.
        task: the task's name, for an error message.

    Raises:
        NotFinite: a score is NaN or infinite.
    """
    began = time.monotonic()
    probe = copy.deepcopy(module)
    select = "holdout" if "holdout" in splits else "dev"

    def scores(name: str) -> Scores:
        return _probe_scores(probe, pooled, name, splits[name].rows, task=task)

    def value() -> float:
        return measure(scores(select), splits[select].rows, reader)[how.metric]

    if not any(parameter.requires_grad for parameter in probe.parameters()):
        return Probe(scores("dev"), selected_step=0, steps=0, seconds=0.0)
    best, chosen = value(), copy.deepcopy(probe.state_dict())
    patience, waited = PATIENCE if has_parameters(probe.pooler) else EPOCHS, 0
    steps = selected_step = 0
    with torch.random.fork_rng():
        torch.manual_seed(how.seed)  # for the dropout
        for steps in _epochs(probe, pooled, splits["train"].rows.gold, how, task=task):
            score, waited = value(), waited + 1
            if metrics.improves(score, best):
                best, chosen = score, copy.deepcopy(probe.state_dict())
                selected_step, waited = steps, 0
            if waited == patience:
                break
    probe.load_state_dict(chosen)
    return Probe(scores("dev"), selected_step, steps, time.monotonic() - began)


def _epochs(
    probe: Any, pooled: Pooled, labels: np.ndarray, how: Probing, *, task: str
) -> Iterator[int]:
    """Train a probe; yield the number of steps so far after each epoch."""
    trained = [parameter for parameter in probe.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=how.lr, weight_decay=0.0)
    gold = label_tensor(labels).to(trained[0].device)
    rng = torch.Generator().manual_seed(how.seed)
    steps = 0
    for _ in tracked(range(EPOCHS), f"training {task}'s head on the frozen encoder, epochs"):
        probe.train()
        for index in torch.randperm(len(gold), generator=rng).split(BATCH_SIZE):
            vectors, batch = _as_batch(pooled(probe.pooler, "train", index), gold[index])
            loss, _ = probe.loss(vectors, batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            steps += 1
        yield steps


@torch.no_grad()
def _probe_scores(probe: Any, pooled: Pooled, split: str, rows: Rows, *, task: str) -> Scores:
    """Score a split. Raises NotFinite if a score is NaN or infinite."""
    output = probe.eval()(*_as_batch(pooled(probe.pooler, split, None)))
    if not output.isfinite().all():
        reason = "on the frozen encoder are not finite numbers: lower its `head_lr`"
        raise NotFinite(f"task {task}: the head's scores {reason}")
    return scores_of(probe.head, output, rows)


def _as_batch(vectors: Tensor, labels: Tensor | None = None) -> tuple[Tensor, Batch]:
    """Pooled vectors [B, sides, d] -> those of a batch [sides * B, d], and the batch."""
    sides = vectors.shape[1]
    return vectors.transpose(0, 1).flatten(0, 1), Batch.of_vectors(sides, labels)


def _batches(tokens: Tokens) -> list[np.ndarray]:
    """Return the numbers of all rows by length, ``BATCH_SIZE`` at a time."""
    order = np.argsort(tokens.lengths, kind="stable")
    return np.split(order, range(BATCH_SIZE, len(order), BATCH_SIZE))


@dataclass
class TokenStates:
    """Runs a pooler that is being trained on the frozen encoder's hidden states (a ``Pooled``).

    Attributes:
        model: the model; its encoder is put in evaluation mode.
        splits: the task's rows.
        pad_id: the id of the pad token.
        device: the device of the model.
    """

    model: MultiTaskModel
    splits: Mapping[str, Split]
    pad_id: int
    device: torch.device

    def __post_init__(self) -> None:
        model = self.model
        self._encoder = model.encoder.eval()
        self._autocast = autocast(self.device, model.autocast)
        self._states: dict[str, dict[int, Tensor]] = {}  # all tokens, by split and layer

    def __call__(self, pooler: Any, split: str, rows: Tensor | None) -> Tensor:
        """Pool int64 rows [B], or all rows in file order if None: [B, sides, d]."""
        if rows is not None:
            return self._pooled(pooler, split, rows.numpy())
        batches = _batches(self.splits[split].tokens)
        pooled = torch.cat([self._pooled(pooler, split, batch) for batch in batches])
        return pooled[torch.from_numpy(np.argsort(np.concatenate(batches))).to(self.device)]

    def _pooled(self, pooler: Any, split: str, rows: np.ndarray) -> Tensor:
        tokens = self.splits[split].tokens
        size = len(tokens.ids) * len(pooler.layers) * self._encoder.dim * 4
        if split not in self._states and size <= STORED_BYTES:
            self._states[split] = self._all_states(pooler, tokens)
        if split in self._states:
            places, inside = self._places(tokens, rows)
            hidden = {layer: state[places] for layer, state in self._states[split].items()}
            mask = inside.long()
        else:
            hidden, mask = self._encoded(pooler, tokens, rows)
        with self._autocast:
            vectors = pooler(hidden, mask)
        return torch.stack(vectors.float().chunk(tokens.sides), dim=1)

    @torch.no_grad()
    def _encoded(
        self, pooler: Any, tokens: Tokens, rows: np.ndarray
    ) -> tuple[dict[int, Tensor], Tensor]:
        """Return the states [S, T, d] of the layers that the pooler uses, and their mask [S, T]."""
        batch = collate(tokens, rows, pad_id=self.pad_id).to(self.device)
        mask = batch.attention_mask
        with self._autocast:
            packing = self._encoder.packing(mask, batch.lengths)
            embedded = self._encoder.embed(batch.input_ids, batch.token_type_ids, mask, packing)
            return self._encoder.encode(embedded, mask, pooler.layers, packing=packing), mask

    def _all_states(self, pooler: Any, tokens: Tokens) -> dict[int, Tensor]:
        """Return the states [tokens, d] of all tokens by layer, in the order of ``ids``."""
        states: dict[int, Tensor] = {}
        for rows in _batches(tokens):
            hidden, mask = self._encoded(pooler, tokens, rows)
            places, inside = self._places(tokens, rows)
            for layer, state in hidden.items():
                if layer not in states:
                    states[layer] = state.new_empty(len(tokens.ids), state.shape[-1])
                states[layer][places[inside]] = state[mask != 0]
        return states

    def _places(self, tokens: Tokens, rows: np.ndarray) -> tuple[Tensor, Tensor]:
        """Return ``Tokens.places`` as tensors: int64 [S, T], and bool [S, T], False for pads."""
        places, inside = tokens.places(rows)
        return torch.from_numpy(places).to(self.device), torch.from_numpy(inside).to(self.device)
