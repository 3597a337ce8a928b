"""CPU seconds and peak memory of everything around the steps, for more and more rows.

    python -m benchmarks.rows DIRECTORY-OF-THE-COURSE-FILES [--threads 1]

25,000, 100,000 and 400,000 pairs: the Quora pairs of the course, again and again with two other
words per text, so that all texts are distinct. Each part runs in a separate process with one
thread, also for the tokenizer. Seconds are of CPU time; with * since the start of the process.
Memory is the largest resident size of the process. Growth is what 300,000 more rows take, divided
by what 75,000 more take: 4 if linear. The peer reads the training file with `datasets` and maps
the same tokenizer in batches; its process has our imports, too (14 MiB).
"""

import csv
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.course_batches import FILES, parser, peak_mib, started
from benchmarks.our_trainer import CPU
from multitask.api.check_config import check_config
from multitask.config import Config, load_config
from multitask.data.classes import label_readers
from multitask.data.splits import load_splits
from multitask.models.packaged_weights import packaged_directory
from multitask.models.pretrained import pretrained_tokenizer
from multitask.reporting.table_formats import markdown_table
from multitask.training.callbacks import Callback
from multitask.training.setup import load_data, set_up
from multitask.training.step import Stepped
from multitask.training.train_run import train
from multitask.training.trainer import Trainer
from multitask.utils.terminal import silent
from multitask.utils.versions import git_revision

SIZES = (25_000, 100_000, 400_000)
TEXTS = FILES["qqp"][1]
CONFIG = """
encoder: {name: packaged-minilm, kernels: torch}
training: {frozen_baseline: false, epoch: 1, epochs: 2}
tasks:
  qqp:
    data: {text: sentence1, text2: sentence2, label: is_duplicate, id: id, format: tsv}
    input: cross
    head: binary
    max_dev_rows: 32
"""


class Stop(Exception):
    """Ends a training run."""


def write_pairs(directory: Path, file: Path, rows: int) -> None:
    """Write so many labelled pairs; the first ones are those of the course."""
    with (directory / FILES["qqp"][0]).open(encoding="utf-8", newline="") as opened:
        real = [row for row in csv.DictReader(opened, delimiter="\t") if row["is_duplicate"]]
    words = [word for row in real for word in row[TEXTS[0]].split(" ")]
    rng = random.Random(0)
    with file.open("w", encoding="utf-8", newline="") as opened:
        table = csv.writer(opened, delimiter="\t", lineterminator="\n")
        table.writerow(["id", *TEXTS, "is_duplicate"])
        for number in range(rows):
            copy, place = divmod(number, len(real))
            row = real[place]
            texts = [row[name].split(" ") for name in TEXTS]
            for text in texts * 2 if copy else ():
                text[rng.randrange(len(text))] = rng.choice(words)
            joined = map(" ".join, texts)
            table.writerow([f"{row['id']}-{copy}", *joined, row["is_duplicate"]])


def loaded(directory: Path, train: Path, scratch: Path) -> Config:
    """The config of the pairs; dev is the course's."""
    file = scratch / "rows.yaml"
    file.write_text(CONFIG, encoding="utf-8")
    data = [f"tasks.qqp.data.train={train}", f"tasks.qqp.data.dev={directory / 'quora-dev.csv'}"]
    return load_config(file, [*data, f"data_dir={directory}", f"output_dir={scratch / 'run'}"])


def read(config: Config) -> float:
    """Seconds until rows and labels are read and checked."""
    began = time.process_time()
    load_splits(config, label_readers(config), partial(pretrained_tokenizer, config))
    return time.process_time() - began


def load(config: Config) -> float:
    """Seconds of reading, tokenizing, and counting duplicates and rows that are in train."""
    began = time.process_time()
    load_data(config, silent)
    return time.process_time() - began


def check(config: Config) -> float:
    list(check_config(config, dry_run=True, say=silent))
    return time.process_time()


def first_step(config: Config, *, resume: bool) -> float:
    """Seconds until a step is taken. A run that is not resumed is stopped at the second one."""
    at: list[float] = []

    class Stops(Callback):
        def on_step(self, trainer: Trainer, tasks: Sequence[str], result: Stepped) -> None:
            at.append(time.process_time())
            if trainer.step == 2:
                raise Stop

    with suppress(Stop):
        train(config, callbacks=[Stops()], resume=resume, overwrite=not resume, say=silent)
    return at[0]


def epoch(config: Config) -> float:
    """Seconds of drawing and collating all batches of an epoch."""
    loader = set_up(config, CPU, silent).loader
    began = time.process_time()
    for _ in range(loader.loaders["qqp"].stream.steps_per_pass):
        loader.next(["qqp"])
    return time.process_time() - began


def peer(config: Config, *, tokenize: bool) -> float:
    import datasets
    from transformers import AutoTokenizer

    data, length = config.tasks["qqp"].data, config.tasks["qqp"].max_length
    with tempfile.TemporaryDirectory() as cache:
        rows = datasets.load_dataset("csv", data_files=data.train, sep="\t", cache_dir=cache)
        if tokenize:
            tokenizer = AutoTokenizer.from_pretrained(packaged_directory())

            def tokens(batch: dict[str, list[str]]) -> Any:
                sides = (batch[name] for name in TEXTS)
                return tokenizer(*sides, truncation=True, max_length=length)

            rows.map(tokens, batched=True)
    return time.process_time()


PEER, TRAIN = "`datasets`: read, map the tokenizer *", "`train`: to the first step *"
PARTS: dict[str, Callable[[Config], float]] = {
    "`datasets`: read *": partial(peer, tokenize=False),
    PEER: partial(peer, tokenize=True),
    "read, check labels and texts": read,
    "the same, tokenize, count duplicates": load,
    "`check` *": check,
    TRAIN: partial(first_step, resume=False),
    "`train --resume`: to the next step, cached tokens *": partial(first_step, resume=True),
    "the batches of an epoch": epoch,
}
COLD = [*PARTS][: [*PARTS].index(TRAIN) + 1]  # the others find the tokens that `train` cached


def alone(part: str, directory: Path, train: Path, scratch: Path) -> tuple[float, float]:
    """CPU seconds and MiB of a part in a separate process."""
    cache = scratch / f"cache-{part if part in COLD else TRAIN}".replace(" ", "-")
    one = {"RAYON_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false", "OMP_NUM_THREADS": "1"}
    variables = {**os.environ, **one, "MULTITASK_CACHE": str(cache)}
    command = [sys.executable, "-m", "benchmarks.rows", str(directory)]
    command += ["--one", part, str(train), str(scratch)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=variables)
    seconds, mib = map(float, done.stdout.split()[-2:])
    return seconds, mib


def table(measured: dict[str, list[tuple[float, float]]]) -> str:
    """CPU seconds and MiB by part and number of rows."""
    lines = []
    for part, values in measured.items():
        times, sizes = zip(*values, strict=True)
        peers = measured[PEER][-1]
        growth = (times[2] - times[1]) / (times[1] - times[0])
        lines.append([
            part,
            *(f"{seconds:.1f}" for seconds in times),
            f"{growth:.1f}",
            f"{times[-1] / peers[0]:.2f}",
            *(f"{mib:.0f}" for mib in sizes),
            f"{sizes[-1] / peers[1]:.2f}",
        ])  # fmt: skip
    seconds, mib = ([f"{unit}, {rows:,}" for rows in SIZES] for unit in ("seconds", "MiB"))
    names = ("part", *seconds, "growth", "x `datasets`", *mib, "x its memory")
    return markdown_table(names, lines)


def main() -> None:
    options = parser(__doc__, threads=1)
    options.add_argument("--one", nargs=3, metavar=("PART", "TRAIN", "SCRATCH"), help="internal")
    arguments = started(options)
    if arguments.one:
        part, file, place = arguments.one
        seconds = PARTS[part](loaded(arguments.directory, Path(file), Path(place)))
        print(seconds, peak_mib())
        return
    measured: dict[str, list[tuple[float, float]]] = {part: [] for part in PARTS}
    for rows in SIZES:
        with tempfile.TemporaryDirectory() as scratch:
            file = Path(scratch) / "pairs.tsv"
            write_pairs(arguments.directory, file, rows)
            for part, values in measured.items():
                values.append(alone(part, arguments.directory, file, Path(scratch)))
    print(f"{arguments.threads} thread, one round, commit {git_revision()}\n")
    print(table(measured))


if __name__ == "__main__":
    main()
