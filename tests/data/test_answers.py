"""Rows of questions and answers: how they are read, placed among the tokens and mapped back."""

import numpy as np
import pytest
from datasets import Dataset, DatasetDict
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.answers import (
    answers_of_output,
    characters_of,
    null_difference,
    placed_answers,
    threshold_of_output,
)
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.data.tokenize import tokenize
from multitask.tasks.rows import Rows
from multitask.utils.errors import UserError
from tests.conftest import WORDS
from tests.support.token_run import token_config, write_lines

CONTEXT = "the man, who sees a cat."
ROW = {"id": "a", "question": "who sees ?", "context": CONTEXT}
MAN = {"text": ["the man", "man", "man"], "answer_start": [0, 4, 4]}


@pytest.fixture
def read(tmp_path, tiny_encoder):
    """Rows of a split made of these records, with changes of the config."""

    def made(records, *changes, split="train", write=write_lines, name="qa.jsonl"):
        write(tmp_path / name, records)
        file = token_config(tmp_path, tiny_encoder, tmp_path, tasks=("qa",))
        config = load_config(file, [f"tasks.qa.data.{split}={name}", *changes])
        return load_rows(config, "qa", split, label_reader(config, "qa", task_type("span")))

    return made


def test_the_first_answer_trains_and_all_are_gold(read):
    rows = read([{**ROW, "answers": MAN}])
    assert rows.texts == [("who sees ?", CONTEXT)] and rows.ids == ["a"]
    assert rows.answers == [("the man", "man")]
    assert rows.gold.tolist() == [[0, 7]]


@pytest.mark.parametrize(
    "answers",
    [
        {"text": ["cat"], "answer_start": [20]},
        {"text": "cat", "answer_start": 20},
        [{"text": "cat", "answer_start": 20}],
    ],
)
def test_forms_of_an_answer(read, answers):
    rows = read([{**ROW, "answers": answers}])
    assert rows.gold.tolist() == [[20, 23]] and rows.answers == [("cat",)]


def test_parquet_and_a_saved_data_set(read, tmp_path):
    records = [{**ROW, "answers": MAN}]
    rows = read(records, write=lambda f, r: Dataset.from_list(r).to_parquet(f), name="qa.parquet")
    assert rows.gold.tolist() == [[0, 7]]
    DatasetDict({"train": Dataset.from_list(records)}).save_to_disk(tmp_path / "saved")
    disk = ["tasks.qa.data.format=disk", f"tasks.qa.data.path={tmp_path / 'saved'}"]
    assert read(records, *disk, "tasks.qa.data.train=train").answers == [("the man", "man")]


def test_rows_without_the_column_are_dropped_and_a_test_set_may_lack_answers(read):
    records = [{**ROW, "answers": MAN}, {**ROW, "answers": None}]
    rows = read(records)
    assert (len(rows), rows.unlabelled_dropped) == (1, 1)
    empty = {"text": [], "answer_start": []}
    for more in (ROW, {**ROW, "answers": empty}):
        rows = read([{**ROW, "answers": MAN}, more], split="test")
        assert len(rows) == 2 and rows.labels is None


@pytest.mark.parametrize(
    ("answers", "message"),
    [
        ({"text": ["man"], "answer_start": [5]}, "'man', which is not at character 5 of"),
        ({"text": ["man"], "answer_start": [-20]}, "'man', which is not at character -20"),
        ({"text": [" "], "answer_start": [3]}, "the answer ' ', which is not at"),
        ({"text": [], "answer_start": []}, "no answer: .*no_answer: true"),
        ({"text": ["man"]}, "answers is {'text': .'man'.}: expected {\"text\": "),
        ({"text": ["man"], "answer_start": [4, 5]}, "answers is .*: expected"),
        ("man", "answers is 'man': expected"),
        ({"text": ["man"], "answer_start": [4.0]}, "answers is .*: expected"),
    ],
)
def test_bad_answers_are_told_by_file_and_row(read, answers, message):
    with pytest.raises(UserError, match=r"qa\.jsonl, line 2, row 2 \(id b\): .*" + message):
        read([{**ROW, "answers": MAN}, {**ROW, "id": "b", "answers": answers}])


def test_a_question_may_have_no_answer_if_the_head_says_so(read):
    empty = {"text": [], "answer_start": []}
    records = [{**ROW, "answers": answers} for answers in (empty, MAN, None)]
    for split in ("train", "dev"):
        rows = read(records, "tasks.qa.head.no_answer=true", split=split)
        assert (len(rows), rows.unlabelled_dropped) == (2, 1)
        assert rows.gold.tolist() == [[0, 0], [0, 7]]
        assert rows.answers == [(), ("the man", "man")]
    rows = read(records[:2], "tasks.qa.head.no_answer=true", split="test")
    assert rows.gold.tolist() == [[0, 0], [0, 7]]
    for hidden in (records, records[:1], records[2:]):  # some null, all empty, all null
        assert read(hidden, "tasks.qa.head.no_answer=true", split="test").labels is None


def made_rows(question, context, start, end):
    return Rows("here", ["0"], [(question, context)], np.array([[start, end]]))


@given(st.data())
def test_an_answer_of_whole_words_goes_to_tokens_and_back(tiny_encoder, data):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    some = st.one_of(st.sampled_from(WORDS), st.sampled_from(["it's", "café", "U.S.", "(x)"]))
    words = data.draw(st.lists(some, min_size=1, max_size=9))
    space = data.draw(st.sampled_from([" ", "  ", "\n", "\u00a0"]))
    first = data.draw(st.integers(0, len(words) - 1))
    last = data.draw(st.integers(first, len(words) - 1))
    context = space.join(words)
    start = len(space.join([*words[:first], ""]))
    end = start + len(space.join(words[first : last + 1]))
    rows = made_rows("who ?", context, start, end)
    most = data.draw(st.integers(6, 40))
    tokens = tokenize(rows, tokenizer, max_length=most, characters=True)
    placed, cut = placed_answers(rows, tokens)
    room = most - 3 - len(tokenizer.tokenize("who ?"))  # tokens of the context
    needed = len(tokenizer.tokenize(context[:end]))
    assert cut == (needed > room)
    assert placed.count(np.array([0])) == 1 - cut
    if not cut:
        assert characters_of(rows, tokens, placed.answers, [0]).tolist() == [[start, end]]
        ids = tokens.ids[placed.answers[0, 0] : placed.answers[0, 1] + 1]
        expected = tokenizer(context[start:end], add_special_tokens=False)["input_ids"]
        assert ids.tolist() == expected


def test_an_answer_inside_a_word_is_the_whole_piece(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = made_rows("who ?", "the cats see", 4, 7)
    tokens = tokenize(rows, tokenizer, max_length=20, characters=True)
    placed, cut = placed_answers(rows, tokens)
    assert cut == 0
    assert characters_of(rows, tokens, placed.answers, [0]).tolist() == [[4, 8]]
    assert characters_of(rows, tokens, np.array([[-1, -1]]), [0]).tolist() == [[0, 0]]


def test_a_question_that_fills_the_input_is_refused(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = made_rows("the big cat", "the dog", 0, 3)
    tokens = tokenize(rows, tokenizer, max_length=7, characters=True)
    assert (tokens.spans[:, 0] >= 0).sum() == 1
    with pytest.raises(UserError, match=r"here, row 1 \(id .*\): its first .* has 3 tok.*\(6\)"):
        tokenize(rows, tokenizer, max_length=6, characters=True)


@given(st.data())
def test_windows_share_stride_tokens_and_hold_the_answer_where_it_fits(tiny_encoder, data):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    count = data.draw(st.integers(1, 14))
    words = data.draw(st.lists(st.sampled_from(WORDS), min_size=count, max_size=count))
    first = data.draw(st.integers(0, count - 1))
    last = data.draw(st.integers(first, min(count - 1, first + 3)))
    begins = [len(" ".join([*words[:i], ""])) for i in range(count)]
    start, end = begins[first], begins[last] + len(words[last])
    rows = made_rows("who ?", " ".join(words), start, end)
    room, stride = data.draw(st.integers(2, 8)), data.draw(st.integers(1, 7))
    options = {"max_length": room + 5, "characters": True, "stride": stride}
    if stride >= room:
        with pytest.raises(UserError, match=r"row 1 \(id \w+\): its first .* or lower `stride`"):
            tokenize(rows, tokenizer, **options)
        return
    tokens = tokenize(rows, tokenizer, **options)
    placed, cut = placed_answers(rows, tokens)
    windows, begin = [], 0  # of words, each one token
    while True:
        windows.append(range(begin, min(begin + room, count)))
        if begin + room >= count:
            break
        begin += room - stride
    assert tokens.owners.tolist() == [0] * len(windows) and not tokens.truncated.any()
    for i, window in enumerate(windows):
        spans = tokens.spans[tokens.offsets[i] : tokens.offsets[i + 1]]
        assert spans[spans[:, 0] >= 0, 0].tolist() == [begins[word] for word in window]
    holding = [first in window and last in window for window in windows]
    assert cut == (not any(holding))
    for i, (window, holds) in enumerate(zip(windows, holding, strict=True)):
        if holds:
            expected = [4 + first - window[0], 4 + last - window[0]]  # behind [CLS] who ? [SEP]
            actual = characters_of(rows, tokens, placed.answers[i : i + 1], [i])
            assert actual.tolist() == [[start, end]]
        else:
            expected = [-1, -1] if cut else [0, 0]
        assert placed.answers[i].tolist() == expected


def test_an_answer_that_is_cut_off_never_counts_as_none(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    texts = [("who ?", "a cat sees the big dog")] * 3
    rows = Rows("here", [*"abc"], texts, np.array([[0, 0], [2, 5], [19, 22]]))
    cut = tokenize(rows, tokenizer, max_length=7, characters=True)
    placed, count = placed_answers(rows, cut)
    assert placed.answers.tolist() == [[0, 0], [5, 5], [-1, -1]] and count == 1
    windows = tokenize(rows, tokenizer, max_length=7, characters=True, stride=1)
    placed, count = placed_answers(rows, windows)
    marked = [placed.answers[placed.owners == row].tolist() for row in range(3)]
    assert marked[0] == [[0, 0]] * 5 and count == 0
    assert marked[1] == [[5, 5], [4, 4], *[[0, 0]] * 3]
    assert marked[2] == [*[[0, 0]] * 4, [5, 5]]
    rows.labels[2] = 2, 22  # longer than a window
    placed, count = placed_answers(rows, windows)
    assert placed.answers[placed.owners == 2].tolist() == [[-1, -1]] * 5 and count == 1


def test_no_answer_is_given_above_the_threshold(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    texts = [("who ?", "the man"), ("who ?", "a cat sees dog")]
    rows = Rows("here", ["0", "1"], texts, np.array([[0, 0], [2, 5]]), answers=[(), ("cat",)])
    tokens = tokenize(rows, tokenizer, max_length=7, characters=True, stride=1)
    # start, end, probability, loss, logits; logits and probability of the first token
    output = np.array(
        [
            [4, 5, 0.2, 0.0, -9.0, -8.5, 0.6],
            [5, 5, 0.9, 0.0, 1.0, 9.0, 0.1],  # "cat"
            [4, 5, 0.3, 0.0, 3.0, 4.0, 0.7],  # of "cat sees": the highest and the lowest
            [-1, -1, 0.0, 0.0, 0.0, 5.0, 0.8],
        ]
    )
    difference, windows = null_difference(output, tokens)
    assert difference.tolist() == [0.5, 1.0] and windows.tolist() == [0, 2]
    for threshold, expected, chances in (
        (0.4, [[0, 0], [0, 0]], [0.6, 0.7]),
        (0.5, [[0, 7], [0, 0]], [0.2, 0.7]),
        (1.0, [[0, 7], [2, 10]], [0.2, 0.3]),
    ):
        predictions, scores, _ = answers_of_output(output, rows, tokens, threshold)
        assert predictions.tolist() == expected
        assert scores[:, 0].tolist() == pytest.approx(chances)
    # the first has no answer, the second one in part: without both is best, and 0 does it
    assert threshold_of_output(output, rows, tokens) == 0.0
    output[0, 5] = -5.0  # now a threshold between the two differences is best
    assert 1.0 < threshold_of_output(output, rows, tokens) < 4.0
    output[:, 0] = -1  # no input has a span
    assert threshold_of_output(output, rows, tokens) == 0.0
    assert answers_of_output(output, rows, tokens, 9.0)[0].tolist() == [[0, 0], [0, 0]]


def test_the_window_with_the_highest_logits_answers(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = Rows("here", ["0", "1"], [("who ?", "the man"), ("who ?", "a cat sees dog")], None)
    options = {"max_length": 7, "characters": True, "stride": 1}
    tokens = tokenize(rows, tokenizer, **options)
    assert tokens.owners.tolist() == [0, 1, 1, 1]
    # start, end, probability, loss, logits
    output = np.array(
        [
            [4, 5, 0.2, 0.0, -9.0],
            [5, 5, 0.9, 0.0, 1.0],  # "cat"
            [4, 5, 0.3, 0.0, 3.0],  # of "cat sees": both
            [-1, -1, 0.0, 0.0, 0.0],
        ]
    )
    predictions, scores, loss = answers_of_output(output, rows, tokens)
    assert predictions.tolist() == [[0, 7], [2, 10]]
    assert scores[:, 0].tolist() == pytest.approx([0.2, 0.3]) and np.isnan(loss)
