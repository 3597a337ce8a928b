"""Write an export into a scratch directory, check it there, then rename the directory."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import torch

from multitask.inference.export import hugging_face, onnx, onnx_int8
from multitask.inference.export.export_parts import Parts, padded
from multitask.inference.export.onnx_int8 import Records
from multitask.models.encoders import BertEncoder
from multitask.models.encoders.ternary_file import load_ternary, save_ternary
from multitask.reporting.model_card import Exported, card
from multitask.store.files import entries, remove_scraps, replacing, write_text
from multitask.store.run_directory import RunDirectory, load_saved_config
from multitask.utils.errors import UserError, reading
from multitask.utils.versions import command_line, git_revision, versions

CHECKED, MEASURED = 64, 1000  # rows, evenly spread over dev
PACKAGES = {  # the packages that write and read each format
    "transformers": ("torch", "transformers"),
    "sentence-transformers": ("torch", "transformers", "sentence-transformers"),
    "peft": ("torch", "transformers", "peft"),
    "onnx": ("torch", "onnx", "onnxscript", "onnxruntime"),
    "ternary": ("torch", "safetensors"),
}
TEXTS = ("a quiet triumph.", "two men play chess in the park", "why is the sky blue?")


def check_ternary(parts: Parts) -> BertEncoder:
    """Return the encoder if its layers are ternary and the task has no adapter, else UserError."""
    encoder = parts.model.encoder
    if not isinstance(encoder, BertEncoder):
        raise UserError("encoder.name: an encoder of transformers has no ternary layers")
    if parts.adapter is not None:
        message = "the file has only the encoder, without the task's adapter: take `onnx`"
        raise UserError(f"tasks.{parts.base}.adapter: {message}")
    if parts.config.encoder.bitlinear is None:
        raise UserError("no layer is ternary: train with `encoder.bitlinear: {}`")
    return encoder


CHECKS = {
    "transformers": hugging_face.check_classifier,
    "transformers --encoder-only": lambda parts: parts.check_encoder("transformers"),
    "sentence-transformers": hugging_face.check_poolable,
    "peft": hugging_face.check_peft,
    "onnx": onnx.check_graph,
    "ternary": check_ternary,
}


def export_formats(parts: Parts) -> list[str]:
    """Return the values of `export --format` that fit the task.

    The export itself may still be refused, such as for a pooling that torch.onnx cannot trace.
    """
    fitting = []
    for form, check in CHECKS.items():
        with suppress(UserError):
            check(parts)
            fitting.append(form)
    if "transformers" in fitting:
        fitting.remove("transformers --encoder-only")
    return fitting


def dev_records(run_dir: Path, parts: Parts) -> Records:
    """Read the run's dev predictions to check an export on; without them a few texts."""
    run = RunDirectory(run_dir)
    predictions = run.predictions_of(parts.task, "dev")
    if not predictions.is_file():
        return [{"texts": (text, TEXTS[0])[: parts.form.texts], "label": None} for text in TEXTS]
    with reading(predictions):
        records = run.load_predictions(parts.task, "dev")
        return [{**r, "texts": tuple(r["texts"]), "label": r["label"]} for r in records]


def spread(records: Records, count: int) -> Records:
    """Choose at most ``count`` records, evenly spread."""
    return [records[i] for i in np.unique(np.linspace(0, len(records) - 1, count).astype(int))]


def checked(records: Records, max_length: int) -> list[tuple[str, ...]]:
    """Return rows to compare an export on: of these, and of two lengths that are padded and one
    that is cut, whatever these are.
    """
    texts = [record["texts"] for record in spread(records, CHECKED)]
    others = ("a", *TEXTS[:2], " ".join(TEXTS * max_length))
    return [*texts, *((text,) * len(texts[0]) for text in others)]


def check_target(directory: Path) -> None:
    """Raise UserError if ``directory`` has content that an export would overwrite."""
    if directory.is_file() or (directory.is_dir() and entries(directory)):
        raise UserError(f"{directory}: something is there already: choose another directory")


def write_export(
    tasks: Sequence[Parts],
    run_dir: Path,
    directory: Path,
    *,
    form: str,
    records: Sequence[Records],
    encoder_only: bool = False,
    with_int8: bool = False,
) -> list[str]:
    """Export a task, check it by loading it back, and write its model card.

    Args:
        tasks: the task; or, for onnx, several in one file.
        run_dir: the run, for the card.
        directory: the target, which does not exist or is empty.
        form: `transformers`, `sentence-transformers`, `peft`, `onnx` or `ternary`.
        records: per task, dev rows to check and measure on, see ``dev_records``.
        encoder_only: transformers: the encoder without the task's head.
        with_int8: onnx: also a quantised file.

    Returns:
        One line per check and measurement.

    Raises:
        UserError: the format cannot represent the task, or gives other scores; nothing is written.
    """
    parts = tasks[0]
    make: dict[str, Callable[..., Exported]] = {
        "transformers": partial(_transformers, parts, records[0], encoder_only=encoder_only),
        "sentence-transformers": partial(_sentences, parts, records[0]),
        "peft": partial(_peft, parts, records[0]),
        "onnx": partial(_onnx, tasks, records, with_int8=with_int8),
        "ternary": partial(_ternary, parts, records[0]),
    }
    # its scores are of another model if overrides changed what the tasks compute
    names = [name for each in tasks for name in (each.task, each.base)]
    saved, now = (
        [config.tasks[name].model_dump(exclude={"data"}) for name in names]
        for config in (load_saved_config(run_dir), parts.config)
    )
    directory.parent.mkdir(parents=True, exist_ok=True)
    place = directory.resolve()  # if it is a link, keep the link
    remove_scraps(place.parent)
    with replacing(place, fresh=True) as scratch:
        scratch.mkdir()
        exported = replace(
            make[form](scratch, directory),
            config=parts.config.dump() if saved != now else "",
            command=command_line(),
            versions={**versions(*PACKAGES[form]), "git revision": str(git_revision())},
        )
        write_text(scratch / "README.md", card(run_dir, exported))
        check_target(directory)  # again: an export takes minutes
    return list(exported.notes)


def _transformers(
    parts: Parts, records: Records, scratch: Path, directory: Path, *, encoder_only: bool
) -> Exported:
    import transformers

    if encoder_only:
        hugging_face.export_encoder(parts, scratch)
        loader, what = "AutoModel", "The encoder alone, with the weights that serve the task."
        what += " No pooler: AutoModel adds one with random weights, which nothing here uses."
        pipeline, output = "feature-extraction", "last_hidden_state"
    else:
        hugging_face.export_classifier(parts, scratch)
        loader = "AutoModelForSequenceClassification"
        what = "The encoder with the task's projection and head. " + parts.reading("transformers")
        pipeline, output = "text-classification", "logits"
    texts = checked(records, parts.max_length)
    model = getattr(transformers, loader).from_pretrained(str(scratch), use_safetensors=True)
    most = hugging_face.check_model(parts, model, scratch, texts, classifies=not encoder_only)
    usage = [
        f"from transformers import AutoTokenizer, {loader}",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{directory}")',
        f'model = {loader}.from_pretrained("{directory}")',
        f"ready = tokenizer({parts.form.example}, truncation=True, return_tensors='pt')",
        f"model(**ready).{output}",
    ]
    note = f"loaded by transformers, {len(texts)} texts: {output} differ by {most:.1e} at most"
    return Exported([parts.task], "transformers", pipeline, what, "\n".join(usage), [note])


def _sentences(parts: Parts, records: Records, scratch: Path, directory: Path) -> Exported:
    hugging_face.export_sentences(parts, scratch)
    texts = [text for row in checked(records, parts.max_length) for text in row]
    lowest = hugging_face.check_sentences(parts, scratch, texts)
    usage = [
        "from sentence_transformers import SentenceTransformer",
        "",
        f'model = SentenceTransformer("{directory}")',
        'model.encode(["A man is running.", "Someone runs."])',
    ]
    what = f"Sentence vectors under the task's pooling ({parts.pooling_name}), without its head"
    what += "." if parts.projection is parts.vector_projection else " and before its projection."
    note = f"loaded by sentence-transformers, {len(texts)} texts: lowest cosine {lowest:.6f}"
    return Exported(
        [parts.task], "sentence-transformers", "sentence-similarity", what, "\n".join(usage), [note]
    )


def _peft(parts: Parts, records: Records, scratch: Path, directory: Path) -> Exported:
    hugging_face.export_peft(parts, scratch)
    texts = checked(records, parts.max_length)
    model = hugging_face.load_peft(scratch)
    most = hugging_face.check_model(parts, model, scratch, texts, classifies=False)
    usage = [
        "from peft import PeftModel",
        "from transformers import AutoModel, AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{directory}")',
        f'base = AutoModel.from_pretrained("{directory / hugging_face.BASE}")',
        f'model = PeftModel.from_pretrained(base, "{directory}")',
        "ready = tokenizer('A man is running.', truncation=True, return_tensors='pt')",
        "model(**ready).last_hidden_state",
    ]
    what = f"The task's LoRA; `{hugging_face.BASE}` has the encoder below it, without a head."
    note = f"loaded by peft, {len(texts)} texts: last_hidden_state differs by {most:.1e} at most"
    return Exported([parts.task], "peft", "feature-extraction", what, "\n".join(usage), [note])


def _onnx(
    tasks: Sequence[Parts],
    records: Sequence[Records],
    scratch: Path,
    directory: Path,
    *,
    with_int8: bool,
) -> Exported:
    onnx.export_onnx(tasks, scratch)
    parts, outputs, notes = tasks[0], onnx.output_names(tasks), []
    for place, (each, name) in enumerate(zip(tasks, outputs, strict=True)):
        texts = checked(records[place], each.max_length)
        most = onnx.check_onnx(each, scratch, texts, place)
        notes.append(f"in onnxruntime, {len(texts)} rows: {name} differ by {most:.1e} at most")
    if with_int8:
        onnx_int8.quantise(scratch)
        for place, each in enumerate(tasks):
            measured = spread(records[place], MEASURED)
            told = onnx_int8.compare_int8(each, scratch, measured, place)
            notes += told if len(tasks) == 1 else [f"{each.task}: {line}" for line in told]
    shown = "ids[None]" if parts.chooses else "ids"  # one row with its endings
    usage = [
        "import onnxruntime",
        "from transformers import AutoTokenizer",
        "",
        f'tokenizer = AutoTokenizer.from_pretrained("{directory}")',
        f'session = onnxruntime.InferenceSession("{directory / onnx.FILE}")',
        "wanted = {given.name for given in session.get_inputs()}",
        f"ready = tokenizer({parts.form.example}, truncation=True, return_tensors='np')",
        f"inputs = {{name: {shown} for name, ids in ready.items() if name in wanted}}",
    ]
    for side in range(2, parts.sides + 1):
        name = f"f'{{name}}_{side}'"
        usage += [
            "other = tokenizer('Someone runs.', truncation=True, return_tensors='np')",
            f"inputs |= {{{name}: ids for name, ids in other.items() if {name} in wanted}}",
        ]
    usage.append(f"session.run({outputs}, inputs)")
    what = "The model from token ids to the scores, for any batch size and length. "
    several = [f"`{each.task}`: {each.reading('onnx')}" for each in tasks]
    what = (what + " ".join(several if len(tasks) > 1 else [parts.reading("onnx")])).rstrip()
    return Exported(
        [each.task for each in tasks],
        "onnx",
        parts.reader.task_type.pipeline,
        what,
        "\n".join(usage),
        notes,
    )


def _ternary(parts: Parts, records: Records, scratch: Path, directory: Path) -> Exported:
    encoder = check_ternary(parts)
    size = save_ternary(encoder, scratch)
    tokenizer = parts.task_tokenizer()
    tokenizer.save_pretrained(scratch)
    texts = [text for record in spread(records, CHECKED) for text in record["texts"]]
    loaded = load_ternary(scratch)
    ready = padded(tokenizer, [(text,) for text in texts], "pt")
    ids, mask = ready["input_ids"], ready["attention_mask"]
    with torch.no_grad():
        before, after = (
            model.encode(
                model.embed(ids, torch.zeros_like(ids), mask), mask, range(model.num_layers + 1)
            )
            for model in (encoder, loaded)
        )
    if not all(torch.equal(before[layer], after[layer]) for layer in before):
        raise UserError("loaded back, the encoder gives other hidden states: please report this")
    usage = [
        "from pathlib import Path",
        "from multitask.models.encoders.ternary_file import load_ternary",
        "",
        f'encoder = load_ternary(Path("{directory}"))',
    ]
    notes = [
        f"loaded back, {len(texts)} texts: every hidden state is the same to the last bit",
        f"{size.file:,} bytes, where the encoder's parameters in fp32 take {size.fp32:,}",
    ]
    what = "The encoder with its ternary weights at two bits each, for use: no master weights."
    return Exported([parts.task], "multitask", "feature-extraction", what, "\n".join(usage), notes)
