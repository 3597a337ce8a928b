"""A frozen masked language model that fills in masked texts: the generator of DiffCSE."""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from heads.masked_lm import MaskedLMHead
from multitask.config import Config
from multitask.config.registry import resolve
from multitask.models.encoders import Encoder, bert_weights
from multitask.models.encoders.mlm_weights import mlm_weights
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.packaged_weights import place
from multitask.models.pretrained import (
    check_vocabulary,
    load_encoder_and_tokenizer,
    saved_encoder,
    saved_tokenizer,
)
from multitask.models.weights import below, build_fitting, intact_weights, read_checked
from multitask.store.run_directory import RunDirectory, load_run_config, open_run
from multitask.store.saved import selected_steps
from multitask.utils.errors import UserError

TOKENS = 1024  # tokens whose logits over the vocabulary are in memory at once


class MaskedLM(nn.Module):
    """Encoder and masked-LM head, frozen and without dropout."""

    def __init__(self, encoder: Encoder, head: nn.Module) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.requires_grad_(False).eval()

    @torch.no_grad()
    def forward(self, masked: Tensor, types: Tensor, mask: Tensor) -> Tensor:
        """int64 [S, T] each -> the most probable token at each position, int64 [S, T]."""
        last = self.encoder.num_layers
        packing = self.encoder.packing(mask)
        embedded = self.encoder.embed(masked, types, mask, packing)
        hidden = self.encoder.encode(embedded, mask, (last,), packing=packing)[last].float()
        with torch.autocast(mask.device.type, enabled=False):
            best = [self.head(part).argmax(-1) for part in hidden.flatten(0, 1).split(TOKENS)]
        return torch.cat(best).view_as(masked)


def load_generators(
    config: Config, model: MultiTaskModel, tokenizer: Any, device: torch.device
) -> None:
    """Load the generator of each head that needs one."""
    for task in model.tasks:
        head = model.head(task)
        if head.generator_name:
            with config.errors_at(("tasks", task, "head", "generator")):
                head.use_generator(load_generator(head.generator_name, tokenizer, device))


def load_generator(name: str, tokenizer: Any, device: torch.device) -> MaskedLM:
    """Load the masked language model of a directory, a hub id, or a run with a `masked_lm` task.

    Raises UserError: there is none, or it has another vocabulary than ``tokenizer``.
    """
    run = open_run(name)
    generator, its_tokenizer = _of_run(run) if run.holds_run else _of_model(name)
    if its_tokenizer.get_vocab() != tokenizer.get_vocab():
        raise UserError(f"{name!r} has another vocabulary than the encoder: take one with the same")
    return generator.to(device)


def _of_model(name: str) -> tuple[MaskedLM, Any]:
    encoder, tokenizer = load_encoder_and_tokenizer(name)
    tensors = bert_weights.read_weights(place(name), encoder.config)
    weights = mlm_weights(tensors, encoder.config)
    if weights is None:
        raise UserError(f"{name!r} has no masked-LM head: take a masked language model, or a run")
    return MaskedLM(encoder, _head(encoder, weights)), tokenizer


def _of_run(run: RunDirectory) -> tuple[MaskedLM, Any]:
    config: Config = load_run_config(run.path)
    tasks = [
        name
        for name, task in config.tasks.items()
        if resolve("head", task.head.name) is MaskedLMHead and not task.share_head
    ]
    if not tasks:
        raise UserError(f"{run.path}: the run has no `masked_lm` task")
    for key in ("adapter", "projection"):
        if getattr(config.tasks[tasks[0]], key) is not None:
            message = f"its task {tasks[0]} has a `{key}`, which a generator goes without"
            raise UserError(f"{run.path}: {message}: take another run")
    step = selected_steps(run.best_steps(), config.selecting_tasks(), "per_task")[tasks[0]]
    file = intact_weights(run, step)
    encoder = build_fitting(partial(saved_encoder, run.encoder, config), [file], "encoder.")
    tokenizer = saved_tokenizer(run.encoder)
    check_vocabulary(encoder, tokenizer, str(run.encoder))
    weights = read_checked(file)
    encoder.load_state_dict(below(weights, "encoder."))
    head = _head(encoder, below(weights, f"tasks.{tasks[0]}.head."))
    return MaskedLM(encoder, head), tokenizer


def _head(encoder: Encoder, weights: dict[str, Tensor]) -> MaskedLMHead:
    return MaskedLMHead(encoder.dim, encoder.word_embedding, encoder.norm_eps, weights)
