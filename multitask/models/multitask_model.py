"""The multi-task model: a shared encoder, and per task an adapter, pooler, projection and head."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from multitask.config.registry import task_type
from multitask.data.collate import Batch, SharedBatch, by_task, joined, joined_lengths, separate
from multitask.models.encoders import Encoder
from multitask.models.encoders.packing import Packing
from multitask.models.task_module import HeadOnSharedPooling, TaskModule
from multitask.utils.device import autocast


def adapter_part(task: str) -> str:
    """Return the name of a task's adapter in `freeze:`, the log and the optimizer."""
    return f"{task}.adapter"


class Embedded(NamedTuple):
    """The input of an encoder pass, embedded.

    Attributes:
        vectors: the embeddings [S, T, d].
        mask: 1 for tokens, 0 for pads [S, T].
        packing: the packing of the mask; None for an encoder of `transformers`.
    """

    vectors: Tensor
    mask: Tensor
    packing: Packing | None


class MultiTaskModel(nn.Module):
    """One encoder shared by all tasks.

    Args:
        encoder: an encoder with the stages ``embed`` and ``encode``.
        tasks: the modules of each task.
        adapters: the adapter of each task that has one.
        owners: task -> the other task whose modules it uses (``share_head``).
        pools: task -> the task whose adapter, pooler and projection it uses (``share_pooling``).
        uncertain: tasks whose loss weight is learned.
        autocast: the dtype of encoder and pooler under autocast, None for fp32; heads and losses
            stay in fp32.
    """

    def __init__(
        self,
        encoder: Encoder,
        tasks: Mapping[str, TaskModule | HeadOnSharedPooling],
        *,
        adapters: Mapping[str, nn.Module] | None = None,
        owners: Mapping[str, str] | None = None,
        pools: Mapping[str, str] | None = None,
        uncertain: Collection[str] = (),
        autocast: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tasks: Any = nn.ModuleDict(tasks)
        self.adapters: Any = nn.ModuleDict(adapters)
        self.owners, self.pools = dict(owners or {}), dict(pools or {})
        self.log_variances = nn.ParameterDict({task: torch.zeros(()) for task in uncertain})
        self.autocast = autocast

    def freeze(self, parts: Collection[str]) -> None:
        """Freeze the named ``parts`` and make all others trainable.

        A completely frozen encoder runs without dropout.
        """
        for name, parameters in self.parts().items():
            for parameter in parameters:
                parameter.requires_grad_(name not in parts)
        self.train(self.training)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """Return all parameters by part: "embeddings", "layer_1" to "layer_L", each task's name,
        and ``adapter_part`` of each task with an adapter.
        """
        by_name = self.shared()
        by_name |= {name: list(module.parameters()) for name, module in self.tasks.items()}
        return by_name | {adapter_part(n): list(m.parameters()) for n, m in self.adapters.items()}

    def shared(self) -> dict[str, list[nn.Parameter]]:
        """Return the encoder's parameters, which all tasks share, by depth."""
        embeddings, *layers = self.encoder.layer_parameters()
        parts = {"embeddings": embeddings}
        return parts | {f"layer_{depth}": layer for depth, layer in enumerate(layers, 1)}

    def owner(self, task: str) -> str:
        """Return the task whose modules a task uses, usually the task itself."""
        return self.owners.get(task, task)

    def owners_of(self, task: str) -> list[str]:
        """Return the owner of a task's head, and the owner of its pooling if that is another."""
        owner = self.owner(task)
        return [owner, self.pools[owner]] if owner in self.pools else [owner]

    def owned(self, task: str) -> set[str]:
        """Return the ``parts`` that a task uses in addition to the encoder."""
        owners = self.owners_of(task)
        return {*owners, *(adapter_part(owner) for owner in owners if owner in self.adapters)}

    def module(self, task: str) -> Any:
        """Return the TaskModule that a task uses, its own or another task's."""
        return self.tasks[self.owner(task)]

    def adapter(self, task: str) -> Any:
        """Return the adapter that a task uses, its own or another task's, or None."""
        return dict(self.adapters.items()).get(self.owners_of(task)[-1])

    def train(self, mode: bool = True) -> "MultiTaskModel":
        super().train(mode)
        if not any(parameter.requires_grad for parameter in self.encoder.parameters()):
            self.encoder.eval()
        return self

    def passes(
        self, batches: Sequence[SharedBatch], apart: Collection[str] = ()
    ) -> list[list[SharedBatch]]:
        """Divide batches into encoder passes: tasks with the same adapter share one.

        Tasks in ``apart``, and tasks that are encoded in chunks, get a pass each.
        """
        passes: dict[Any, list[SharedBatch]] = {}
        for shared in batches:
            together: dict[Any, dict[str, Batch]] = {}
            for task, batch in shared.tasks.items():
                key = task if task in apart or self._chunk(task) else self.adapter(task)
                together.setdefault(key, {})[task] = batch
            for key, tasks in together.items():
                passes.setdefault(key, []).append(SharedBatch(shared.inputs, tasks))
        return list(passes.values())

    def embed(self, batches: Sequence[SharedBatch], packing: Packing | None = None) -> Embedded:
        """Run the first stage of a pass: embed all inputs.

        ``packing`` is that of another pass over the same inputs, if there was one.
        """
        inputs = [shared.inputs for shared in batches]
        ids, types, mask = joined(inputs)
        packing = packing or self.encoder.packing(mask, joined_lengths(inputs))
        with autocast(mask.device, self.autocast):
            return Embedded(self.encoder.embed(ids, types, mask, packing), mask, packing)

    def pool(
        self, batches: Sequence[SharedBatch], embedded: Embedded, in_fp32: bool = False
    ) -> dict[str, Tensor]:
        """Run the second stage on the output of ``embed``: pooled vectors by task, see ``pooled``.

        ``in_fp32`` computes it without autocast.
        """
        dtype = None if in_fp32 else self.autocast
        poolers = {task: self.module(task).pooler_in_use for task in by_task(batches)}
        adapter = self.adapter(next(iter(poolers)))
        layers = {layer for pooler in poolers.values() for layer in pooler.layers}
        tokens = "first" if all(p.tokens == "first" for p in poolers.values()) else "all"
        pooled = {}
        start = 0
        vectors, mask, packing = embedded
        with autocast(mask.device, dtype):
            hidden = self.encoder.encode(
                vectors, mask, layers, tokens, adapter=adapter, packing=packing
            )
            for shared in batches:
                rows, length = shared.inputs.input_ids.shape
                for task, batch in shared.tasks.items():
                    pooler = poolers[task]
                    width = 1 if pooler.tokens == "first" else length
                    states = {k: hidden[k][start : start + rows, :width] for k in pooler.layers}
                    output = pooler(states, batch.attention_mask)
                    if batch.places is not None:
                        output = output.flatten(0, 1)[batch.places]
                    pooled[task] = output if dtype is None else output.float()
                start += rows
        return pooled

    def encode(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Run both stages of a pass (see ``passes``): each task's pooled vectors.

        A task in chunks stores only its vectors. The backward pass encodes each chunk again, with
        the same dropout, when it has the gradient of the vectors (GradCache, Gao et al. 2021).
        """
        task, batch = next(iter(by_task(batches).items()))
        size = self._chunk(task)
        if not size:
            return self.pool(batches, self.embed(batches))

        def vectors(part: Batch, _: Tensor) -> Tensor:
            alone = separate({task: part})
            return self.pool(alone, self.embed(alone))[task]

        # the tensor tells `checkpoint` the device whose random state it restores
        chunks = [
            checkpoint(vectors, part, part.input_ids, use_reentrant=False)
            for part in batch.parts(size)
        ]
        return {task: torch.cat(chunks)}

    def _chunk(self, task: str) -> int | None:
        """Return the number of texts of a task that are encoded at a time, or None for all."""
        return self.head(task).chunk if torch.is_grad_enabled() else None

    def pooled(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Return each task's pooled vectors, in fp32 even under autocast: [S, d] of texts, [M, d]
        of the tokens to predict, or [S, T, d] of all tokens.

        There is one encoder pass over the inputs of all tasks without an adapter, and one per
        adapter.
        """
        vectors: dict[str, Tensor] = {}
        for encoded in self.passes(batches):
            vectors |= self.encode(encoded)
        return {task: vectors[task] for task in by_task(batches)}

    def vectors(self, task: str, batch: Batch) -> Tensor:
        """Return a task's sentence vectors [S, d]: the pooled vectors, or, for a contrastive task
        and those that share its pooling, the vectors that its head compares."""
        return self.compared(task, self.pooled(separate({task: batch}))[task])

    def compared(self, task: str, pooled: Tensor) -> Tensor:
        """Return the sentence vectors [S, d] of ``vectors`` for the output of ``pooled``."""
        return self.module(task).project(pooled) if self.compares_projected(task) else pooled

    def compares_projected(self, task: str) -> bool:
        """Return True if a task's sentence vectors are projected: it, or the owner of its pooling,
        is contrastive."""
        heads = (self.module(owner).head for owner in self.owners_of(task))
        return any(task_type(head.task_type).compares_rows for head in heads)

    def forward(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Return each head's scores: logits [B, C] or [B], numbers [B], logits [M, V] of masked
        tokens, [M, C] of tagged words, or [B, T, 2] of answers."""
        pooled = self.pooled(batches)
        return {t: self.scores(t, batch, pooled[t]) for t, batch in by_task(batches).items()}

    def scores(self, task: str, batch: Batch, pooled: Tensor) -> Tensor:
        """Return the scores of a task's head for the output of ``pooled``: rows with a label."""
        return self.module(task)(pooled, batch)

    def loss(self, task: str, batch: Batch, pooled: Tensor) -> tuple[Tensor, Tensor]:
        """Return the mean loss over the rows with a label, a scalar in fp32, and their scores."""
        return self.module(task).loss(pooled, batch)

    def head(self, task: str) -> Any:
        """Return the task's head, which has its loss and its predictions."""
        return self.module(task).head


def parameter_counts(model: MultiTaskModel) -> dict[str, int]:
    """Count the parameters of the encoder, of each task's modules and of each adapter."""
    parts: dict[str, nn.Module] = {"encoder": model.encoder}
    parts |= {f"tasks.{name}": module for name, module in model.tasks.items()}
    parts |= {f"adapters.{name}": module for name, module in model.adapters.items()}
    return {name: sum(p.numel() for p in part.parameters()) for name, part in parts.items()}
