"""Write the runs in this directory. It works only at commit 5c0042d.

These files are a fixture: later versions of the program must still read what 5c0042d wrote
(`tests/runs/test_old_run.py`). So never run this script with newer code. To repeat it, check out
5c0042d, copy this directory into its `tests/`, and call, on one thread:

    OMP_NUM_THREADS=1 python -m tests.old_run.make

It starts from `finished.yaml`, `joint.yaml` and `turns.yaml`, and writes:

- `encoder/`: a random BERT of one layer and width 8, the start of all runs.
- `data/`: made-up rows for all tasks.
- `finished/`: a run that trained to its end, with one task of every label type.
- `joint/`, `turns/`: runs that were killed between two checkpoints of their second stage.
- `expected/joint/`, `expected/turns/`: `report.json` and `metrics.jsonl` of the same runs when they
  are not killed.
- `expected/texts.jsonl`: what `predict --file data/texts.txt` printed for `finished/`.

Some large files are left out: the pictures in `figures/` and inside `report.html`, which no command
reads, and the older one of the two checkpoints that a killed run has.
"""

import csv
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from tests.kill import KILLER
from tests.tiny_bert import random_checkpoint
from tests.token_run import asked, tagged, write_lines

from tests.conftest import ROOT, WORDS

HERE = Path(__file__).parent
COMMIT = "5c0042d"
MOODS = {"bad": "awful", "fair": "dull", "good": "great"}
MARKS = {"animal": "cat", "size": "big", "place": "house"}
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": str(ROOT),
    "OMP_NUM_THREADS": "1",
    "HF_HUB_OFFLINE": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "MULTITASK_CACHE": "/tmp/old-run-cache",
}


def write_csv(file: Path, header: list[str], rows: list[list[object]]) -> None:
    """Write a comma-separated file."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        csv.writer(opened, lineterminator="\n").writerows([header, *rows])


def write_data(data: Path) -> None:
    """Write small files from which every task can be learned by single words."""
    rng = random.Random(0)

    def sentence() -> str:
        return " ".join(rng.choices(WORDS[:36], k=rng.randint(3, 8)))

    for seed, (split, size) in enumerate((("train", 64), ("dev", 24), ("test", 6))):
        moods, pairs, about = [], [], []
        for i in range(size):
            word = list(MOODS.values())[i % 3]
            moods.append([f"m{i}", f"{sentence()} {word} .", i % 3])
            first = sentence()
            second = first if i % 2 else sentence()
            score = round(rng.uniform(3, 5) if i % 2 else rng.uniform(0, 3), 1)
            pairs.append([f"p{i}", f"{first} ?", f"{second} ?", i % 2, score])
            classes = [name for name in MARKS if rng.random() < 0.4]
            words = [*(MARKS[name] for name in classes), *rng.choices(WORDS[26:34], k=4)]
            about.append({"text": " ".join(words), "classes": classes})
        end = None if split != "test" else 2
        header = ["id", "sentence", "mood"]
        write_csv(data / f"mood-{split}.csv", header[:end], [row[:end] for row in moods])
        end = None if split != "test" else 3
        header = ["id", "first", "second", "same", "score"]
        write_csv(data / f"pairs-{split}.csv", header[:end], [row[:end] for row in pairs])
        if split == "test":
            continue
        write_lines(data / f"about-{split}.jsonl", about)
        write_lines(data / f"qa-{split}.jsonl", asked(size, seed + 10))
        blocks = [
            "".join(f"{w} {t}\n" for w, t in zip(row["tokens"], row["ner_tags"], strict=True))
            for row in tagged(size, seed)
        ]
        (data / f"ner-{split}.conll").write_text("\n".join(blocks))
    (data / "texts.txt").write_text("a good film , not dull\nthe dog runs and was awful .\n")


def call(place: Path, *arguments: str) -> str:
    """Run a command in directory ``place`` and return what it printed."""
    command = [sys.executable, str(ROOT / "run_multitask.py"), *arguments]
    result = subprocess.run(
        command, cwd=place, env=ENVIRONMENT, stdout=subprocess.PIPE, text=True, check=True
    )
    return result.stdout


def kill(place: Path, name: str, step: int) -> None:
    """Train ``name``.yaml and kill it with SIGKILL after training step ``step``."""
    inside = ["multitask.trainer", "train_step", "after", str(step)]
    result = subprocess.run(
        [sys.executable, "-c", KILLER, *inside, f"{name}.yaml"], cwd=place, env=ENVIRONMENT
    )
    assert result.returncode == -9
    older, _ = sorted((place / name / "checkpoints").iterdir())
    shutil.rmtree(older)


def drop_pictures(run: Path) -> None:
    """Delete a run's pictures, which are large and which nothing reads."""
    shutil.rmtree(run / "figures")
    page = run / "report.html"
    text = page.read_text(encoding="utf-8")
    page.write_text(re.sub(r"(data:image/[^,\"]*,)[^\"]*", r"\1", text), encoding="utf-8")


def main() -> None:
    """Write everything."""
    described = ["git", "-C", str(ROOT), "describe", "--always", "--dirty"]
    revision = subprocess.run(described, capture_output=True, text=True, check=True).stdout.strip()
    if revision != COMMIT:
        sys.exit(f"this is {revision}: the fixture is to be written by {COMMIT}")
    with tempfile.TemporaryDirectory() as scratch:  # the paths in the runs are then of no use
        place = Path(scratch)
        for file in HERE.glob("*.yaml"):
            shutil.copy(file, place)
        write_all(place)
        for made in (path for path in place.iterdir() if path.is_dir()):
            shutil.rmtree(HERE / made.name, ignore_errors=True)
            shutil.copytree(made, HERE / made.name)


def write_all(place: Path) -> None:
    """Write the encoder, the data, the runs and what is expected of them."""
    (place / "data").mkdir()
    write_data(place / "data")
    sizes = {"hidden_size": 8, "intermediate_size": 16, "num_attention_heads": 2}
    sizes |= {"num_hidden_layers": 1, "max_position_embeddings": 40}
    random_checkpoint(place / "encoder", "bert", **sizes)
    call(place, "finished.yaml")
    drop_pictures(place / "finished")
    for name, step in (("joint", 22), ("turns", 45)):
        call(place, f"{name}.yaml")
        expected = place / "expected" / name
        expected.mkdir(parents=True)
        for file in ("report.json", "metrics.jsonl"):
            shutil.copy(place / name / file, expected)
        shutil.rmtree(place / name)
        kill(place, name, step)
    own = ["--task", "mood", "--file", "data/texts.txt"]
    found = call(place, "predict", "finished", *own)
    (place / "expected" / "texts.jsonl").write_text(found)


if __name__ == "__main__":
    main()
