"""Draw how much [CLS] attends to each token of a text, layer by layer.

The weights are means over heads. Writes NAME.png, NAME.svg and the numbers as NAME.json
(docs/bert-from-scratch.md).
"""

import argparse
from pathlib import Path

from multitask.commands import arguments as shared


def add_arguments(parser: argparse.ArgumentParser) -> None:
    shared.add_source(parser)
    shared.add_overrides(parser)
    text = "the text; given twice: a pair in one input"
    parser.add_argument("--text", metavar="T", action="append", required=True, help=text)
    parser.add_argument("--heads", action="store_true", help="also a panel for each head")
    text = "take the run's weights and adapter that serve this task (default: the first)"
    shared.add_task(parser, text)
    place = "name of the files, or a directory for them (default: attention, in the run or here)"
    shared.add_output(parser, "NAME", place)


def run(arguments: argparse.Namespace) -> None:
    import json

    from multitask.store.run_directory import load_run_config, open_run
    from multitask.utils.errors import UserError, check_text

    texts, task = arguments.text, arguments.task
    if len(texts) > 2:
        raise UserError(f"--text: one text, or two for a pair, not {len(texts)}")
    for text in texts:
        check_text(text, "--text: the text")
    run, overrides = open_run(arguments.run), arguments.overrides
    if run.holds_run:
        overrides = ["device=cpu", *overrides]  # one text needs no GPU
        task = task or next(iter(load_run_config(run.path, overrides).tasks))

    from multitask.inference.analysis.attention_weights import cls_attention
    from multitask.inference.embeddings import open_vectors
    from multitask.reporting.figures.maps import draw_heads, draw_mean
    from multitask.reporting.figures.style import write_pictures

    vectors = open_vectors(arguments.run, task=task, pooling="mean", overrides=overrides)
    model = vectors.scorer.model.cpu()
    adapter = model.adapter(vectors.part)
    attention = cls_attention(model.encoder, vectors.scorer.tokenizer, texts, adapter)
    pictures = {"": draw_mean(attention, vectors.weights())}
    if arguments.heads:
        pictures["-heads"] = draw_heads(attention, vectors.weights())
    place = Path("attention")
    if vectors.run is not None:
        vectors.run.check_unchanged()
        place = run.pictures("attention")
    head = {"source": arguments.run, "task": task, "texts": texts}
    numbers = json.dumps(head | attention.to_json(arguments.heads))
    write_pictures(arguments.output or place, "attention", pictures, numbers)
