"""The multi-task model: a shared encoder; an adapter, a pooler, a projection, a head per task."""

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

from multitask.data.collate import Batch, SharedBatch, by_task, joined, separate
from multitask.models.encoders import Encoder
from multitask.models.task_module import HeadOfItsOwn, TaskModule


def adapter_part(task: str) -> str:
    """What `freeze:`, the log and the optimizer call a task's adapter."""
    return f"{task}.adapter"


class MultiTaskModel(nn.Module):
    """One encoder shared by all tasks.

    Args:
        encoder: two-stage encoder.
        tasks: each task's own modules.
        adapters: each task's own part in the encoder's layers, for those that have one.
        owners: for a task that uses another task's modules, that task.
        pools: for a task that uses another task's adapter, pooler and projection, that task.
        uncertain: tasks whose loss weight is learned (``objective.weighted``).
        autocast: run encoder and pooler under bf16 autocast; heads and losses stay in fp32.
    """

    def __init__(
        self,
        encoder: Encoder,
        tasks: Mapping[str, TaskModule | HeadOfItsOwn],
        *,
        adapters: Mapping[str, nn.Module] | None = None,
        owners: Mapping[str, str] | None = None,
        pools: Mapping[str, str] | None = None,
        uncertain: Collection[str] = (),
        autocast: bool = False,
    ) -> None:
        super().__init__()
        self.encoder = encoder
        self.tasks: Any = nn.ModuleDict(tasks)
        self.adapters: Any = nn.ModuleDict(adapters)
        self.owners, self.pools = dict(owners or {}), dict(pools or {})
        self.log_variances = nn.ParameterDict({task: torch.zeros(()) for task in uncertain})
        self.autocast = autocast

    def freeze(self, parts: Collection[str]) -> None:
        """Freeze the named ``parts`` and release all others.

        A wholly frozen encoder runs without dropout.
        """
        for name, parameters in self.parts().items():
            for parameter in parameters:
                parameter.requires_grad_(name not in parts)
        self.train(self.training)

    def parts(self) -> dict[str, list[nn.Parameter]]:
        """All parameters: "embeddings", "layer_1" to "layer_L"; each task's under its name, and
        those of its adapter under ``adapter_part``.
        """
        found = self.shared()
        found |= {name: list(module.parameters()) for name, module in self.tasks.items()}
        return found | {adapter_part(n): list(m.parameters()) for n, m in self.adapters.items()}

    def shared(self) -> dict[str, list[nn.Parameter]]:
        """The parameters that all tasks share: the encoder's, by depth."""
        embeddings, *layers = self.encoder.layer_parameters()
        found = {"embeddings": embeddings}
        return found | {f"layer_{depth}": layer for depth, layer in enumerate(layers, 1)}

    def owner(self, task: str) -> str:
        """The task whose modules a task uses, most often itself."""
        return self.owners.get(task, task)

    def owners_of(self, task: str) -> list[str]:
        """The tasks that own what a task uses: of its head, and of its pooling where it differs."""
        owner = self.owner(task)
        return [owner, self.pools[owner]] if owner in self.pools else [owner]

    def owned(self, task: str) -> set[str]:
        """The ``parts`` that a task uses beside the encoder."""
        owners = self.owners_of(task)
        return {*owners, *(adapter_part(owner) for owner in owners if owner in self.adapters)}

    def module(self, task: str) -> Any:
        """The TaskModule that a task uses, its own or another's."""
        return self.tasks[self.owner(task)]

    def adapter(self, task: str) -> Any:
        """The adapter that a task uses, its own or another's; None where it has none."""
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

    def embed(self, batches: Sequence[SharedBatch]) -> tuple[Tensor, Tensor]:
        """The first stage of one pass: embeddings [S, T, d] and mask [S, T] of all its inputs."""
        ids, types, mask = joined([shared.inputs for shared in batches])
        with torch.autocast(mask.device.type, torch.bfloat16, enabled=self.autocast):
            return self.encoder.embed(ids, types, mask), mask

    def pool(
        self,
        batches: Sequence[SharedBatch],
        embedded: Tensor,
        mask: Tensor,
        autocast: bool | None = None,
    ) -> dict[str, Tensor]:
        """The second stage: what ``embed`` gave -> each task's pooled vectors, see ``pooled``.

        ``autocast`` overrides the model's setting.
        """
        autocast = self.autocast if autocast is None else autocast
        poolers = {task: self.module(task).pooler_in_use for task in by_task(batches)}
        adapter = self.adapter(next(iter(poolers)))
        layers = {layer for pooler in poolers.values() for layer in pooler.layers}
        tokens = "first" if all(p.tokens == "first" for p in poolers.values()) else "all"
        found = {}
        start = 0
        with torch.autocast(mask.device.type, torch.bfloat16, enabled=autocast):
            hidden = self.encoder.encode(embedded, mask, layers, tokens, adapter=adapter)
            for shared in batches:
                rows, length = shared.inputs.input_ids.shape
                for task, batch in shared.tasks.items():
                    pooler = poolers[task]
                    width = 1 if pooler.tokens == "first" else length
                    states = {k: hidden[k][start : start + rows, :width] for k in pooler.layers}
                    vectors = pooler(states, batch.attention_mask)
                    if batch.places is not None:
                        vectors = vectors.flatten(0, 1)[batch.places]
                    found[task] = vectors.float() if autocast else vectors
                start += rows
        return found

    def encode(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Both stages of one pass, see ``passes``: each task's pooled vectors.

        A task in chunks keeps only its vectors: the backward pass encodes every chunk again, with
        the same dropout, when it has the gradient of its vectors (GradCache, Gao et al. 2021).
        """
        task, batch = next(iter(by_task(batches).items()))
        size = self._chunk(task)
        if not size:
            return self.pool(batches, *self.embed(batches))

        def vectors(part: Batch) -> Tensor:
            alone = separate({task: part})
            return self.pool(alone, *self.embed(alone))[task]

        chunks = [checkpoint(vectors, part, use_reentrant=False) for part in batch.parts(size)]
        return {task: torch.cat(chunks)}

    def _chunk(self, task: str) -> int | None:
        """How many texts of a task are encoded at a time where gradients are wanted."""
        return getattr(self.head(task), "chunk", None) if torch.is_grad_enabled() else None

    def pooled(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Each task's pooled vectors [S, d], or of tokens to predict [M, d], or of all [S, T, d];
        fp32 under autocast too.

        One encoder pass over the inputs of all tasks without an adapter, and one for each adapter.
        """
        found: dict[str, Tensor] = {}
        for one in self.passes(batches):
            found |= self.encode(one)
        return {task: found[task] for task in by_task(batches)}

    def vectors(self, task: str, batch: Batch) -> Tensor:
        """A task's sentence vectors [S, d]: pooled; those of a contrastive task, and of one that
        shares its pooling, as its head compares them."""
        pooled = self.pooled(separate({task: batch}))[task]
        return self.module(task).project(pooled) if self.compares_projected(task) else pooled

    def compares_projected(self, task: str) -> bool:
        """Whether a task's sentence vectors are projected: it or the owner of its pooling is
        contrastive."""
        return any(self.module(owner).head.takes == "views" for owner in self.owners_of(task))

    def forward(self, batches: Sequence[SharedBatch]) -> dict[str, Tensor]:
        """Each head's scores: logits [B, C], logits [B], numbers [B], logits [M, V], [M, C] of
        tagged words or [B, T, 2] of answers."""
        pooled = self.pooled(batches)
        return {t: self.scores(t, batch, pooled[t]) for t, batch in by_task(batches).items()}

    def scores(self, task: str, batch: Batch, pooled: Tensor) -> Tensor:
        """The scores of a task's head, of its vectors as ``pooled`` gives them."""
        module = self.module(task)
        if module.head.takes == "sequence":
            return module(pooled, batch.attention_mask)
        return module(pooled)

    def detection_loss(self, task: str, views: Tensor, batch: Batch) -> Tensor:
        """What a DiffCSE head adds to the loss of its views [B, V, d]: a scalar in fp32."""
        with torch.autocast(views.device.type, torch.bfloat16, enabled=self.autocast):
            return self.head(task).detection_loss(
                torch.cat(views.unbind(1)),
                batch.labels,
                ids=batch.input_ids,
                masked=batch.masked_ids,
                types=batch.token_type_ids,
                mask=batch.attention_mask,
            )

    def head(self, task: str) -> Any:
        """The task's head: its loss, its predictions and its label type."""
        return self.module(task).head


def parameter_counts(model: MultiTaskModel) -> dict[str, int]:
    """Parameters by part: the encoder, and each task's own modules and adapter."""
    parts: dict[str, nn.Module] = {"encoder": model.encoder}
    parts |= {f"tasks.{name}": module for name, module in model.tasks.items()}
    parts |= {f"adapters.{name}": module for name, module in model.adapters.items()}
    return {
        name: sum(parameter.numel() for parameter in part.parameters())
        for name, part in parts.items()
    }
