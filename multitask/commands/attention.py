"""Draw how much [CLS] attends to each token of a text, layer by layer, mean over heads.

Writes NAME.png, NAME.svg and the numbers as NAME.json (docs/bert-from-scratch.md).
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

    from multitask.config.checks import check_task
    from multitask.store.prepare_run import check_encoder
    from multitask.store.run_directory import load_run_config, open_run
    from multitask.utils.errors import UserError, check_text

    name, texts, task = Path(arguments.run), arguments.text, arguments.task
    if len(texts) > 2:
        raise UserError(f"--text: one text, or two for a pair, not {len(texts)}")
    for text in texts:
        check_text(text, "--text: the text")
    config, run = None, open_run(name)
    if run.holds_run:
        # one text needs no GPU, and its weights are wanted in fp32
        fixed = ["device=cpu", "training.precision=fp32"]
        config = load_run_config(name, [*fixed, *arguments.overrides])
        task = task or next(iter(config.tasks))
        check_task(name, config, task)
    else:
        check_encoder(arguments.run, task, arguments.overrides)

    from multitask.inference.analysis.attention_weights import cls_attention
    from multitask.inference.load_run import TrainedRun
    from multitask.models.pretrained import load_encoder_and_tokenizer
    from multitask.reporting.figures.maps import draw_heads, draw_mean
    from multitask.reporting.figures.style import write_pictures

    if config is None:
        (encoder, tokenizer), adapter = load_encoder_and_tokenizer(arguments.run), None
    else:
        trained = TrainedRun(name, config)
        (encoder, adapter), tokenizer = trained.encoder(task), trained.tokenizer
    attention = cls_attention(encoder.eval(), tokenizer, texts, adapter)
    source = arguments.run if task is None else f"{arguments.run}, task {task}"
    pictures = {"": draw_mean(attention, source)}
    if arguments.heads:
        pictures["-heads"] = draw_heads(attention, source)
    output = arguments.output or (
        Path("attention") if config is None else run.pictures("attention")
    )
    if config is not None:
        trained.check_unchanged()
    head = {"source": arguments.run, "task": task, "texts": texts}
    numbers = json.dumps(head | attention.to_json(arguments.heads))
    write_pictures(output, "attention", pictures, numbers)
