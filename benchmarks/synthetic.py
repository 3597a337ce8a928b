"""Random weights, and rows of random words that are as long as the course's texts: no data needed.

A word is a token here, so a text has exactly the tokens that were drawn for it.
"""

import csv
import os
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
import transformers
from tokenizers import Tokenizer, models, pre_tokenizers, processors

# tokens of a text, [CLS] and [SEP] included: the shortest, every 20th of the way, and the longest
# of the first 1,500 rows of each training file of the course under MiniLM's tokenizer
LENGTHS = {
    "sst": [4, 10, 12, 13, 16, 17, 19, 20, 22, 23, 25, 26, 28, 29, 31, 33, 35, 38, 42, 48, 80],
    "qqp": [6, 8, 9, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 16, 17, 18, 20, 21, 24, 31, 81],
    "sts": [5, 8, 8, 9, 9, 10, 10, 10, 11, 11, 12, 13, 13, 14, 16, 17, 20, 22, 26, 32, 55],
}
# how often the second text of a pair is as long as the first: the correlation in the same rows
ALIKE = {"qqp": 0.45, "sts": 0.86}
# name of the file, columns of the texts, column of the label, and how many labels there are
FILES = {
    "sst": ("ids-sst", ["sentence"], "sentiment", 5),
    "qqp": ("quora", ["sentence1", "sentence2"], "is_duplicate", 2),
    "sts": ("sts", ["sentence1", "sentence2"], "similarity", 6),
}
SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
WORDS = 30_522 - len(SPECIAL)  # the vocabulary of BERT and MiniLM
HELD_OUT = 32  # rows of dev and of test

ARCHITECTURES: dict[str, dict[str, int]] = {
    "base": {},
    "minilm": {"hidden_size": 384, "num_hidden_layers": 6, "intermediate_size": 1536},
    "deep": {"hidden_size": 96, "intermediate_size": 384},
    "toy": {"hidden_size": 48, "num_hidden_layers": 2, "intermediate_size": 96},
}


@contextmanager
def workplace() -> Iterator[Path]:
    """An empty directory for the block; the cache of tokens is in it."""
    with (
        tempfile.TemporaryDirectory() as made,
        patch.dict(os.environ, MULTITASK_CACHE=f"{made}/cache"),
    ):
        yield Path(made)


def write_rows(directory: Path, rows: int) -> Path:
    """Write train, dev and test files of the course's layout, with ``rows`` rows in train."""
    directory.mkdir()
    generator = np.random.default_rng(0)
    for split, size in (("train", rows), ("dev", HELD_OUT), ("test-student", HELD_OUT)):
        for task, (name, columns, label, labels) in FILES.items():
            texts = [
                [" ".join(f"w{word}" for word in generator.integers(WORDS, size=tokens - 2))
                 for tokens in row]
                for row in lengths(generator, task, size)
            ]  # fmt: skip
            with (directory / f"{name}-{split}.csv").open("w", newline="") as file:
                writer = csv.writer(file, delimiter="\t")
                writer.writerow(["", "id", *columns, label])
                for number, row in enumerate(texts):
                    writer.writerow([number, f"{task}{split}{number}", *row, number % labels])
    return directory


def lengths(generator: np.random.Generator, task: str, rows: int) -> np.ndarray:
    """Draw the tokens of each text: int64 [rows, texts of a row]."""
    places = generator.random((rows, len(FILES[task][1])))
    if task in ALIKE:
        alike = generator.random(rows) < ALIKE[task]
        places[alike, 1] = places[alike, 0]
    steps = np.linspace(0, 1, len(LENGTHS[task]))
    return np.interp(places, steps, LENGTHS[task]).round().astype(np.int64)


def write_encoder(directory: Path, size: str) -> Path:
    """Save a BERT of one of the ``ARCHITECTURES`` with random weights, and its tokenizer."""
    torch.manual_seed(0)
    architecture = transformers.BertConfig(**ARCHITECTURES[size])
    transformers.BertModel(architecture).save_pretrained(directory)
    vocabulary = [*SPECIAL, *(f"w{word}" for word in range(WORDS))]
    tokenizer = Tokenizer(
        models.WordLevel(dict(zip(vocabulary, range(len(vocabulary)), strict=True)), "[UNK]")
    )
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    names = ("pad", "unk", "cls", "sep", "mask")
    transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in zip(names, SPECIAL, strict=True)},
    ).save_pretrained(directory)
    return directory
