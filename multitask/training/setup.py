"""Everything a run needs, loaded and checked: config -> data -> encoder -> model -> sampler."""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch

from multitask.config import Config
from multitask.data.batch_sampler import WINDOW, TaskStream
from multitask.data.dataloader import TrainRows
from multitask.data.load import label_reader
from multitask.data.masking import Masking, masking_of
from multitask.data.splits import _tokenized, load_splits, streams
from multitask.data.summary import data_warnings, describe_splits, glue_remarks
from multitask.data.tokenize import Split, Tokens
from multitask.inference.scoring import Scores, masked_split, over_texts, score_split, task_maskings
from multitask.inference.sts import looked_up, space
from multitask.models.build import build_model
from multitask.models.encoders import Encoder
from multitask.models.head_checks import (
    _check_evaluate_only,
    _check_glue_labels,
    _check_shared_heads,
    head_class,
)
from multitask.models.init_from import read_start, start_encoder, start_tasks
from multitask.models.mlm_generator import MaskedLM, load_generator
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import load_pretrained, use_kernels
from multitask.tasks.examples import LabelReader, Rows
from multitask.tasks.metric_names import SELECTABLE
from multitask.training.gradient_surgery import Surgery, _surgery
from multitask.training.loss import _loss_weights
from multitask.training.stages import Stage, plan_stages
from multitask.training.tensorboard import check_installed
from multitask.utils import distributed
from multitask.utils.device import use_autocast
from multitask.utils.names import EMBEDDED


@dataclass
class Prepared:
    """A validated run: everything is loaded, nothing is trained or written yet."""

    config: Config
    device: torch.device
    model: MultiTaskModel
    tokenizer: Any
    readers: dict[str, LabelReader]
    splits: dict[str, dict[str, Split]]
    data: dict[str, dict[str, dict[str, Any]]]
    metrics: dict[str, str]
    feeds: dict[str, TrainRows]
    stages: list[Stage]
    loss_weights: dict[str, float]
    surgery: Surgery | None
    maskings: dict[str, Masking]
    warnings: list[str] = field(default_factory=list)
    init_from: dict[str, Any] | None = None

    @property
    def total_steps(self) -> int:
        """Planned optimizer steps of all stages."""
        return sum(stage.steps for stage in self.stages)

    def fingerprint(self) -> dict[str, str]:
        """A hash of the rows that each task trains on and is scored by: a run resumes on these."""
        found = {}
        for task, parts in self.splits.items():
            entry = self.config.tasks[task]
            if entry.only_scored and not entry.evaluate_only:
                continue
            digest = hashlib.sha256()
            read = ("dev",) if entry.evaluate_only else ("train", "holdout", "dev")
            for name in [name for name in read if name in parts]:
                digest.update(parts[name].tokens.ids.tobytes())
                digest.update(parts[name].tokens.offsets.tobytes())
                digest.update(parts[name].rows.gold.tobytes())
            found[task] = digest.hexdigest()
        return found

    @property
    def selection_split(self) -> str:
        return "holdout" if self.config.training.holdout else "dev"

    def score(
        self, task: str, split: str, between_batches: Callable[[], None] = lambda: None
    ) -> Scores:
        """The model's scores on a split, with the weights it has now."""
        return score_split(
            self.model,
            task,
            self.splits[task][split],
            batch_size=self.config.training.eval_batch_size,
            pad_id=self.tokenizer.pad_token_id,
            device=self.device,
            between_batches=between_batches,
        )

    def space(self, task: str, rows: Rows) -> dict[str, float]:
        """How the vectors of a task's pairs lie in space now: ``multitask.inference.sts.space``."""

        def encode(texts: Sequence[str]) -> np.ndarray:
            return over_texts(
                self.model,
                self.tokenizer,
                texts,
                partial(self.model.vectors, task),
                max_length=self.config.tasks[task].max_length,
                batch_size=self.config.training.eval_batch_size,
                device=self.device,
            )

        above = 0.8 * self.readers[task].high  # 4 of 5, as for the suites
        return space([rows], looked_up([rows], encode), above)


def prepare(config: Config, device: torch.device, say: Callable[[str], None] = print) -> Prepared:
    """Load and check everything that a run on ``device`` needs.

    Raises UserError for whatever does not fit: device, head, data, encoder, lengths.
    """
    check_installed(config)
    heads = {task: head_class(config, task) for task in config.tasks}
    own = [task.data for task in config.tasks.values() if not task.data.texts_of]
    local = any(data.format != "hub" for data in own)
    if local and config.data_dir != EMBEDDED and not Path(config.data_dir).is_dir():
        raise config.error(("data_dir",), f"no such directory: {config.data_dir}")
    _check_processes(config)
    readers = {task: label_reader(config, task, head.label_type) for task, head in heads.items()}
    _check_shared_heads(config, readers)
    _check_glue_labels(config, readers)
    rows, together = load_splits(config, readers)
    for task, reader in readers.items():  # the saved config keeps what was inferred
        if reader.names and config.tasks[task].data.labels is None:
            config.tasks[task].data.labels = {v: reader.names[i] for v, i in reader.ids.items()}

    say(f"encoder: {config.encoder.name}")
    encoder, tokenizer = load_pretrained(config, say)
    use_kernels(config, encoder, device, say)
    start = read_start(config)
    if start is not None:
        start_encoder(config, start, encoder, tokenizer)
        say("started from: {run}, {task}, step {step} ({take})".format(**start.described))
    for name, entry in config.tasks.items():
        if entry.max_length > encoder.max_positions:
            message = (
                f"{entry.max_length} tokens, but the encoder has {encoder.max_positions} positions"
            )
            raise config.error(("tasks", name, "max_length"), message)
    splits = {
        task: {
            name: _tokenized(config, task, part, tokenizer, readers[task], name == "train")
            for name, part in parts.items()
        }
        for task, parts in rows.items()
    }
    model = initial_model(config, encoder, readers, splits, device)
    if start is not None:
        start_tasks(config, start, model)
    _check_evaluate_only(config, model)
    maskings = task_maskings(model, tokenizer, readers)
    for task, masking in maskings.items():  # those of the training rows change in every pass
        for name in set(splits[task]) - {"train"}:
            splits[task][name] = masked_split(splits[task][name], masking)

    fillings = {}
    for task, head in heads.items():
        if hasattr(head, "use_generator"):
            own = model.head(task)
            own.use_generator(_generator(config, task, own.generator_name, tokenizer, device))
            fillings[task] = masking_of(tokenizer, own.mask_share, whole_words=False)

    feeds = {}
    for name, members in streams(config).items():
        tokens, labels = splits[name]["train"].tokens, {name: splits[name]["train"].rows.gold}
        if name in together:
            shared = next(iter(together[name].values()))
            tokens = _tokenized(config, name, shared, tokenizer, readers[name], True).tokens
            labels = {task: together[name][task].gold for task in members}
        # a contrastive batch is a random one: texts of one length are harder negatives than chance
        window = 1 if readers[name].label_type == "views" else WINDOW
        stream, masks = _stream(config, name, tokens, window), (maskings | fillings).get(name)
        feeds[name] = TrainRows(tokens, labels, stream, masks, keep_text=name in fillings)
    stages = plan_stages(config, model, feeds)
    trained = {task for stage in stages for task in stage.tasks}
    data = {task: describe_splits(config, task, splits, readers[task]) for task in splits}
    chosen = {
        name: task.metric or SELECTABLE[readers[name].label_type][0]
        for name, task in config.tasks.items()
    }
    return Prepared(
        config,
        device,
        model,
        tokenizer,
        readers,
        splits,
        data,
        chosen,
        feeds,
        stages,
        _loss_weights(config, model, splits, readers, maskings, device),
        _surgery(config),
        maskings,
        [*data_warnings(config, data, trained), *glue_remarks(config, splits)],
        start.described if start else None,
    )


def initial_model(
    config: Config,
    encoder: Encoder,
    readers: Mapping[str, LabelReader],
    splits: Mapping[str, Mapping[str, Split]],
    device: torch.device,
) -> MultiTaskModel:
    """The model round a loaded encoder, before any training: ``config.seed`` makes the heads."""
    torch.manual_seed(config.seed)
    train = {task: own["train"].rows.gold for task, own in splits.items() if "train" in own}
    context = {task: reader.head_context(train.get(task)) for task, reader in readers.items()}
    autocast = use_autocast(config.training.precision, device)
    return build_model(config, encoder, context, autocast=autocast).to(device)


def _generator(
    config: Config, task: str, name: str, tokenizer: Any, device: torch.device
) -> MaskedLM:
    with config.errors_at(("tasks", task, "head", "generator")):
        return load_generator(name, tokenizer, device)


def _stream(config: Config, name: str, tokens: Tokens, window: int) -> TaskStream:
    task = config.tasks[name]
    budget = None if task.batch_tokens is None else task.batch_tokens // tokens.sides
    return TaskStream(
        name, tokens.lengths, task.batch_size, task.accumulation, config.seed, budget, window
    )


def _check_processes(config: Config) -> None:
    count = distributed.planned_world()
    for name, task in config.tasks.items():
        if task.batch_size < count:
            message = f"{task.batch_size} rows cannot be shared out to {count} processes"
            raise config.error(("tasks", name, "batch_size"), message)
        if count > 1 and task.projection is not None and task.projection.name == "mlp_batchnorm":
            message = "its statistics are those of one process's rows: take `mlp`"
            raise config.error(("tasks", name, "projection"), message)
