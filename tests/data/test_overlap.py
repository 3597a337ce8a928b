"""Rows that are also in training data, as the encoder sees them."""

import json

import numpy as np
import pytest
from transformers import AutoTokenizer

from multitask.config import load_config
from multitask.data import overlap
from multitask.data.inputs.base import together
from multitask.data.inputs.siamese import Siamese
from multitask.data.overlap import encoded_keys, pair_finder, row_key, separators
from multitask.data.tokenize import Split, tokenize
from multitask.tasks.rows import Rows
from multitask.training.setup import load_data
from tests.support.token_run import write_lines

apart = Siamese().arrange

SINGLE = ["a big dog", "A  BIG dog", "the cat", "a big", "", "[SEP] cat", "the cat [SEP]"]
PAIRS = [("a dog", "the cat"), ("The CAT", "a dog"), ("a", "dog the cat"), ("a dog", ""), ("", "")]


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder):
    return AutoTokenizer.from_pretrained(tiny_encoder)


def keys(tokenizer, texts: list[tuple[str, ...]], twice: bool = False, **how):
    rows = Rows("file", [str(i) for i in range(len(texts))], texts, None)
    tokens = tokenize(rows, tokenizer, **{"max_length": 12, **how})
    tokens = tokens.twice() if twice else tokens
    return [*encoded_keys(Split(rows, tokens), separators(tokenizer))]


def naive(tokenizer, texts: tuple[str, ...]) -> tuple[bytes, ...]:
    """The ids of each text alone, without special tokens."""
    every = (tokenizer(text, add_special_tokens=False)["input_ids"] for text in texts)
    return tuple(sorted(np.array(ids, dtype=np.int32).tobytes() for ids in every))


@pytest.mark.parametrize("arrange", [apart, together])
def test_a_key_has_the_ids_of_each_text_in_any_order(tokenizer, arrange):
    made = keys(tokenizer, PAIRS, arrange=arrange)
    assert made == [naive(tokenizer, texts) for texts in PAIRS]
    assert made[0] == made[1] != made[2]


def test_single_texts_and_their_two_views_have_one_key(tokenizer):
    texts = [(text,) for text in SINGLE]
    made = keys(tokenizer, texts)
    assert made[:5] == [naive(tokenizer, row) for row in texts[:5]]
    assert made[0] == made[1] and len(set(made)) == 5
    assert keys(tokenizer, texts, twice=True) == made


@pytest.mark.parametrize("arrange", [apart, together])
def test_keys_that_are_made_in_parts_are_the_same(tokenizer, arrange, monkeypatch):
    every = keys(tokenizer, PAIRS, arrange=arrange)
    monkeypatch.setattr(overlap, "AT_ONCE", 2)
    assert keys(tokenizer, PAIRS, arrange=arrange) == every


def test_only_what_is_not_cut_counts(tokenizer):
    made = keys(
        tokenizer, [("a dog the cat",), ("a dog the man",), ("a cat the cat",)], max_length=5
    )
    assert made[0] == made[1] != made[2]


def test_a_text_in_windows_has_all_of_them(tokenizer, monkeypatch):
    context = "a big dog and the small cat not here"
    rows = [("who ?", context), ("Who ?", context.upper()), ("who ?", f"{context} today")]
    made = keys(tokenizer, rows, characters=True, stride=1)
    assert made[0] == made[1] != made[2]
    monkeypatch.setattr(overlap, "AT_ONCE", 1)
    assert keys(tokenizer, rows, characters=True, stride=1) == made


@pytest.mark.parametrize(
    ("row", "train", "same"),
    [
        (("a b",), ("a b",), True),
        (("  a\tb ",), ("a b",), True),
        (("a",), ("A",), False),
        (("a", "b"), ("b", "a"), True),
        (("a", "b"), (" b ", "a"), True),
        (("a", "b"), ("a", "c"), False),
        (("a", "a"), ("a", "b"), False),
        (("a b", "c"), ("a", "b c"), False),
    ],
)
def test_rows_with_equal_texts(row, train, same):
    assert (row_key(row) == row_key(train)) == same


TASK = {"pooling": "mean", "head": "classification"}


@pytest.fixture
def data(tmp_path, tiny_encoder):
    """Return a function that loads the data of tasks given as {name: {split: texts}}."""

    def made(tasks, changes=None, **settings):
        config = {"data_dir": str(tmp_path), "encoder": {"name": str(tiny_encoder)}, **settings}
        config["tasks"] = {}
        for name, splits in tasks.items():
            pair = isinstance(splits["train"][0], tuple)
            for split, texts in splits.items():
                rows = (
                    {"one": t[0], "two": t[-1], "label": i % 2}
                    for i, t in enumerate((t,) if isinstance(t, str) else t for t in texts)
                )
                write_lines(tmp_path / f"{name}-{split}.jsonl", list(rows))
            data = {split: f"{name}-{split}.jsonl" for split in splits} | {"text": "one"}
            data |= {"text2": "two"} if pair else {}
            entry = {**TASK, "data": data, "max_length": 32, "input": "cross" if pair else "single"}
            config["tasks"][name] = {**entry, **(changes or {}).get(name, {})}
        file = tmp_path / "c.yaml"
        file.write_text(json.dumps(config))
        return load_data(load_config(file))

    return made


def counts(loaded, task: str, split: str = "dev") -> tuple:
    part = loaded.summary[task][split]
    return part.in_train, part.in_other_train or 0, part.other_train


DOG, CAT, MAN = "the dog runs", "the cat sleeps", "the man sees a tree"


def test_case_accents_and_unknown_words_hide_no_row_of_train(data):
    train = ["a very caf\u00e9", DOG, "qwertz", CAT]
    dev = ["A VERY CAFE\u0301", "The DOG runs", "the  dog runs", "asdf", MAN]
    assert counts(data({"mood": {"train": train, "dev": dev}}), "mood") == (4, 0, [])


@pytest.mark.parametrize("how", [{}, {"input": "siamese", "head": "siamese_paraphrase"}])
def test_rows_of_any_task_that_trains_are_counted_by_task(data, how):
    tasks = {
        "one": {"train": [DOG, CAT], "dev": ["THE man sees a tree", CAT, "a house"]},
        "two": {"train": [MAN, "a river"], "dev": [DOG, "a child"]},
        "pair": {
            "train": [(MAN, DOG), (CAT, "a bird")],
            "dev": [("the DOG runs", MAN), (DOG, CAT)],
        },
    }
    loaded = data(tasks, {"pair": how})
    assert counts(loaded, "one") == (1, 2, ["two", "pair"])
    assert counts(loaded, "two") == (0, 1, ["one", "pair"])
    # a pair counts if one row of train has both of its texts
    assert counts(loaded, "pair") == (1, 0, [])


def test_a_task_on_the_same_rows_is_no_other_task(data):
    train, dev = [DOG, CAT, MAN, "a river"], ["the DOG runs", "a house"]
    mlm = {"data": {"texts_of": ["mood"]}, "pooling": "tokens", "head": "masked_lm"}
    tasks = {"mood": {"train": train, "dev": dev}, "words": {"train": train, "dev": dev}}
    loaded = data(tasks, {"words": mlm})
    assert counts(loaded, "mood") == counts(loaded, "words") == (1, 0, [])


def test_a_text_that_two_tasks_cut_at_other_lengths_is_counted(data):
    long = "the dog and the cat and the man and the bird and the child"
    tasks = {
        "one": {"train": [DOG, CAT], "dev": [long]},
        "two": {"train": [long, MAN], "dev": [DOG]},
    }
    loaded = data(tasks, {"one": {"max_length": 8}})
    assert counts(loaded, "one") == (0, 1, ["two"])


def test_no_row_of_the_holdout_is_in_train_for_the_encoder(data):
    words = "cat dog bird man woman child house tree river film story".split()
    train = [f"the {one} {how}" for one in words for how in ("runs", "RUNS", "sleeps", "Sleeps")]
    loaded = data({"mood": {"train": train, "dev": [DOG]}}, training={"holdout": 0.3})
    parts = loaded.splits["mood"]
    held, rest = (
        {text.casefold() for (text,) in parts[name].rows.texts} for name in ("holdout", "train")
    )
    assert held and rest and not held & rest
    assert len(parts["holdout"].rows) == 2 * len(held)


def test_pairs_are_found_under_the_keys_of_the_report(tokenizer):
    def split(texts, **how):
        rows = Rows("file", [str(i) for i in range(len(texts))], texts, None)
        return Split(rows, tokenize(rows, tokenizer, **{"max_length": 12, **how}))

    known = [
        split([("a dog", "the cat"), ("a man", "a  big dog")], arrange=apart),
        split([("a house", "a river", "the film")], arrange=apart),  # a triplet holds three pairs
        split([("a big man", "the dog")], arrange=together),
        split([("the man",), ("a river",)]),  # single texts are no pair
        split([("the cat " * 20, "a cat")], arrange=apart),  # cut
    ]
    pairs = {
        ("THE CAT", "A Dog"): True,
        ("a BIG dog ", " a man"): True,
        ("the film", "a house"): True,
        ("The dog", "a  big man"): True,
        ("the man", "a river"): False,
        ("a dog", "a man"): False,
        ("THE cat " * 30, "a cat"): True,
    }
    rows = split([*pairs]).rows
    assert pair_finder(known, tokenizer, 12)(rows).tolist() == [*pairs.values()]
    assert not pair_finder([], tokenizer, 12)(rows).any()
    assert pair_finder(known, tokenizer, 12)(rows.take(np.arange(0))).shape == (0,)
