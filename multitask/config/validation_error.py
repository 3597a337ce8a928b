"""Turn a validation error of pydantic into one line about the YAML file."""

import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from multitask.config.base import Choice, describe, fields_of, model_in
from multitask.config.config import Config
from multitask.config.task_config import TaskConfig
from multitask.config.yaml_merge import Tree
from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError, suggest

T = TypeVar("T", bound=BaseModel)
# a key, or a key with the value that is meant, and the names that other trainers, and the skeleton
# of CS224N, have for it
SYNONYMS = {
    "training.lr": "learning_rate base_lr encoder_lr max_lr",
    "training.head_lr": "classifier_lr head_learning_rate",
    "training.epochs": "num_epochs num_train_epochs max_epochs n_epochs nb_epochs",
    "training.max_steps": "num_steps num_train_steps total_steps training_steps",
    "training.warmup": "warmup_ratio warmup_steps warmup_proportion num_warmup_steps",
    "training.weight_decay": "wd l2 l2_regularization",
    "training.schedule": "scheduler lr_scheduler lr_scheduler_type lr_schedule",
    "training.clip_norm": "max_grad_norm grad_clip gradient_clip_val clip_grad_norm grad_norm",
    "training.eps": "adam_epsilon adam_eps",
    "training.betas": "adam_beta1 adam_beta2",
    "training.precision": "fp16 bf16 amp use_amp mixed_precision dtype",
    "training.eval_steps": "eval_every evaluation_strategy eval_strategy logging_steps",
    "training.eval_batch_size": "per_device_eval_batch_size dev_batch_size test_batch_size",
    "training.checkpoint_steps": "save_steps save_every save_strategy",
    "training.keep_checkpoints": "save_total_limit",
    "training.trackers": "report_to use_wandb wandb logger",
    "training.select": "metric_for_best_model load_best_model_at_end",
    "training.sampler": "sampling task_sampling",
    "defaults.early_stopping.patience": "patience early_stopping_patience",
    "defaults.batch_size": "train_batch_size per_device_train_batch_size per_gpu_train_batch_size",
    "defaults.accumulation": "gradient_accumulation_steps accumulate_grad_batches",
    "defaults.max_length": "max_seq_length max_seq_len max_len seq_len maxlen",
    "defaults.pooling": "pooler pooling_mode",
    "defaults.max_rows": "max_train_samples",
    "defaults.max_dev_rows": "max_eval_samples",
    "encoder.name": "model model_name model_name_or_path pretrained_model_name_or_path bert_model "
    "backbone pretrained_model base_model model_type",
    "encoder.dropout": "hidden_dropout_prob dropout_prob dropout_rate attention_probs_dropout_prob",
    "defaults.dropout": "hidden_dropout_prob dropout_prob dropout_rate classifier_dropout",
    "encoder.freeze=true (heads alone; else leave it out)": "option fine_tune_mode freeze_bert "
    "freeze_encoder finetune_mode",
    "encoder.gradient_checkpointing": "use_gradient_checkpointing checkpointing",
    "device=cuda (auto, the default, takes a GPU if there is one)": "use_gpu gpu cuda use_cuda",
    "device=cpu": "no_cuda no_gpu use_cpu",
    "seed": "random_seed random_state manual_seed",
    "data_dir": "dataset dataset_dir data_path dataset_path",
    "output_dir": "out_dir save_dir save_path log_dir logging_dir run_name filepath",
    "init_from": "resume_from_checkpoint checkpoint load_from ckpt_path pretrained_path",
}
# such as the skeleton's `--para_train FILE`
FILE = re.compile(r"(?P<task>[a-z0-9]+)_(?P<split>train|dev|test)(_file|_path)?")


def parsed(tree: Tree, model: type[T]) -> T:
    """Return the content of a YAML file as a model. Raises UserError for the first mistake."""
    try:
        return model.model_validate(tree.value)
    except ValidationError as error:
        raise _explained(error, tree, model) from error


def _explained(error: ValidationError, tree: Tree, model: type[BaseModel]) -> UserError:
    """Return the first mistake as one line: file, line, key path and what was expected."""
    path, message, kind = describe(error)
    if kind == "missing":
        path, key = path[:-1], path[-1]
        message = f"the key {key!r} is missing"
        if path[:1] == ("tasks",) and tree.where(path[:2]) in tree.overridden:
            others = [name for name in tree.value["tasks"] if name != path[1]]
            message += f"; to change a task, name one of {', '.join(others)}" if others else ""
    elif kind == "extra_forbidden":
        above = path[:-1]
        inside: type[BaseModel] | None = model
        if model is Config and above[:1] == ("tasks",):
            inside, above = TaskConfig, above[2:]
        for part in above:
            if isinstance(part, str) and inside is not None:  # a list has the model of its items
                field = fields_of(inside).get(part)
                inside = field and model_in(field.annotation)
        known = () if inside is None else tuple(fields_of(inside))
        if len(path) == 1:
            known = (*known, *(("defaults",) if model is Config else ()), "extends")
        message = f"unknown key{_meant(path, known)}"
    elif kind != "at_key":
        path = tree.without_type(path)
    return tree.error(path, message)


def _meant(path: KeyPath, known: Sequence[str]) -> str:
    """Return ' (did you mean ...?)' for an unknown key, where the keys ``known`` may be."""
    places = [place.partition("=")[0] for place in full_keys(str(path[-1]))]
    # a key of this mapping, such as `max_length` of a task, before that of all
    here = [last for place in places if (last := place.rpartition(".")[2]) in known]
    if here:
        places = [".".join(map(str, (*path[:-1], here[0])))]
    if places:
        return f" (did you mean {' or '.join(places)}?)"
    return suggest(str(path[-1]), tuple(known))


def full_keys(word: str) -> list[str]:
    """Return the full keys that end with a word, else those that other programs call so.

    Those of a task are below ``defaults``. The name may say a value: ``use_gpu`` is
    ``device=cuda``.
    """
    sections: dict[tuple[str, ...], type[BaseModel]] = {(): Config, ("defaults",): TaskConfig}
    for above, model in list(sections.items()):
        for name, field in fields_of(model).items():
            inner = model_in(field.annotation)
            if inner not in (None, Choice) and name not in ("tasks", "stages"):
                sections[*above, name] = inner
    exact = [
        ".".join((*above, word)) for above, model in sections.items() if word in fields_of(model)
    ]
    word = word.lower().replace("-", "_")
    keys = exact or [key for key, words in SYNONYMS.items() if word in words.split()]
    if not keys and (named := FILE.fullmatch(word)):
        task = "qqp" if named["task"] == "para" else named["task"]
        keys = [f"tasks.{task}.data.{named['split']}"]
    return keys
