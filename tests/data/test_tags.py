"""Rows of tagged words: how they are read, and where their words stand among the tokens."""
# Long: how tags are read, refused, repaired and placed, on one fixture

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoTokenizer

from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.inputs.single import Single
from multitask.data.load_rows import load_rows
from multitask.data.tags import placed_tags, tags_of_output, words_from_file, words_rows
from multitask.data.tokenize import tokenize
from multitask.tasks import metrics
from multitask.tasks.label_reader import LabelReader
from multitask.tasks.token_classification import UNITS, breaks, repaired
from multitask.utils.errors import UserError
from tests.conftest import WORDS
from tests.support.token_run import TAGS, token_config, write_lines

ROWS = [
    {"tokens": ["the", "big", "cat"], "ner_tags": ["O", "B-ANIMAL", "I-ANIMAL"]},
    {"tokens": ["man"], "ner_tags": ["B-PER"]},
]


@pytest.fixture
def read(tmp_path, tiny_encoder):
    """Rows of a split made of these records, with changes of the config."""

    def made(records, *changes, split="train", write=write_lines, name="ner-train.jsonl"):
        write(tmp_path / name, records)
        file = token_config(tmp_path, tiny_encoder, tmp_path, tasks=("ner",))
        config = load_config(file, [f"tasks.ner.data.{split}={name}", *changes])
        reader = label_reader(config, "ner", task_type("tags"))
        return load_rows(config, "ner", split, reader), reader

    return made


def tags_of(rows, reader):
    return [[reader.names[tag] for tag in row if tag >= 0] for row in rows.gold]


def test_words_tags_and_text_of_json_lines(read):
    rows, reader = read(ROWS)
    assert rows.words == [("the", "big", "cat"), ("man",)]
    assert rows.texts == [("the big cat",), ("man",)]
    assert tags_of(rows, reader) == [row["ner_tags"] for row in ROWS]
    assert reader.names == ("B-ANIMAL", "B-PER", "I-ANIMAL", "O")
    assert rows.gold.tolist()[1][1:] == [-1, -1]
    taken = rows.take([1])
    assert (taken.words, taken.ids) == ([("man",)], ["1"])


def test_ids_with_names_in_the_config(read):
    numbers = [{**row, "ner_tags": [TAGS.index(t) for t in row["ner_tags"]]} for row in ROWS]
    names = "{" + ", ".join(f"{i}: {tag}" for i, tag in enumerate(TAGS)) + "}"
    rows, reader = read(numbers, f"tasks.ner.data.labels={names}")
    assert reader.names == tuple(TAGS)
    assert tags_of(rows, reader) == [row["ner_tags"] for row in ROWS]
    with pytest.raises(UserError, match=r"tasks\.ner\.data.*'0' is no tag of IOB2"):
        read(numbers)


def test_rows_without_tags_are_dropped_and_counted_and_a_test_set_is_left_unlabelled(read):
    records = [*ROWS, {"tokens": ["a"], "ner_tags": None}]
    rows, _ = read(records)
    assert (len(rows), rows.unlabelled_dropped) == (2, 1)
    rows, _ = read(ROWS)
    rows, _ = read(records, "tasks.ner.data.train=ner-test.jsonl", split="test",
                   name="ner-test.jsonl")  # fmt: skip
    assert len(rows) == 3 and rows.labels is None


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"ner_tags": ["O"]}, r"ner-train\.jsonl, line 3, row 3 \(id 2\): ner_tags has 1 tags"),
        ({"ner_tags": ["O", "B-DOG"]}, r"row 3 \(id 2\): ner_tags of 'cat' is 'B-DOG'"),
        ({"tokens": []}, r"ner-train\.jsonl, line 3, row 3: tokens is an empty list"),
        ({"tokens": "a cat"}, "row 3: tokens is 'a cat': expected a list of words"),
        ({"tokens": ["a", None]}, r"row 3: tokens is \['a', None\]: expected a list of words"),
        ({"ner_tags": "O O"}, r"row 3 \(id 2\): ner_tags is 'O O': expected a list of tags"),
    ],
)
def test_bad_rows_are_told_by_file_and_row(read, changes, message):
    records = [*ROWS, {"tokens": ["the", "cat"], "ner_tags": ["O", "O"], **changes}]
    with pytest.raises(UserError, match=message):
        read(records, f"tasks.ner.data.labels={json.dumps(TAGS)}")


def sentences(*tags):
    """Rows with these tags, such as "O B-PER"."""
    every = [one.split(" ") for one in tags]
    return [{"tokens": ["the"] * len(one), "ner_tags": one} for one in every]


@pytest.mark.parametrize(
    ("train", "changes", "message"),
    [
        (
            ["O B-A", "O I-A I-A O I-A"],
            "",
            r"tag_scheme: \S+/ner-train\.jsonl: IOB2 cannot produce the tags of 1 of 2 rows, "
            r"such as row 2 \(id 1\): O I-A I-A\..* set `tag_scheme: repair`.*: rows 2$",
        ),
        (["O O I-A I-A B-A", "O B-A"], "IOB1", r"IOB1 .* row 2 \(id 1\): O B-A\..*: rows 2$"),
        (["O I-A B-A I-B"] * 20, "", r"20 of 20 rows.*: set `tag_scheme: IOB1`$"),
        (["O I-A", "I-B O"], "", r"set `tag_scheme: IOB1` or `tag_scheme: IOE1`$"),
        (["B-A I-A O", "O B-B"], "IOBES", "set `tag_scheme: IOB2`$"),
        (["B-A I-A O", "O B-B"], "BILOU", "set `tag_scheme: IOB2`$"),
        (["B-A E-A", "S-B O", "B-A I-B E-B"], "IOBES", "row 3 .*: B-A I-B.*: repair`"),
        (["I-A E-A", "E-B O"], "IOE1", "set `tag_scheme: IOE2`$"),
        (["I-A E-A I-A", "I-B O"], "IOE2", "set `tag_scheme: IOE1`$"),
    ],
)
def test_tags_that_the_scheme_cannot_produce_are_refused(read, train, changes, message):
    scheme = [f"tasks.ner.data.tag_scheme={changes}"] if changes else []
    with pytest.raises(UserError, match=message):
        read(sentences(*train), *scheme)


@pytest.mark.parametrize("split", ["dev", "test"])
def test_tags_of_dev_and_of_a_labelled_test_must_fit_too(read, split):
    rows = sentences("O B-A I-A B-A", "I-B O")
    labels = "tasks.ner.data.labels=[O, B-A, I-A, B-B, I-B]"
    with pytest.raises(
        UserError, match=rf"ner-{split}\.jsonl: IOB2 cannot .* row 2 \(id 1\): I-B O"
    ):
        read(rows, labels, split=split, name=f"ner-{split}.jsonl")


def test_rows_without_tags_and_padding_break_no_scheme(read, tmp_path):
    rows = sentences("O B-A I-A", "O", "B-A I-A I-B I-B")
    rows[1] |= {"ner_tags": None}
    rows[2]["tokens"] = ["the", "cat"]
    padded = "tasks.ner.data.padding_label=I-B"
    read_rows, reader = read(rows, padded)
    assert tags_of(read_rows, reader) == [["O", "B-A", "I-A"], ["B-A", "I-A"]]
    # a test set in which a row lacks its tags is one to predict
    rows[0] |= {"ner_tags": ["I-A", "I-A", "I-A"]}
    rest = {"split": "test", "name": "ner-test.jsonl"}
    assert read(rows, padded, "tasks.ner.data.labels=[O, B-A, I-A]", **rest)[0].labels is None


def test_a_few_broken_rows_of_many_are_a_warning(read, capsys):
    """A published file may have some; they count as before."""
    rows, _ = read(sentences(*["O B-A I-A"] * 250, "O I-A", *["O O"] * 100, "I-A O"))
    assert len(rows) == 352
    line = capsys.readouterr().err
    assert "warning: " in line and "rows 251, 352" in line and "2 of 352 rows" in line
    with pytest.raises(UserError, match=r"3 of 253 rows.* Mend the rows, .*: rows 251, "):
        read(sentences(*["O B-A I-A"] * 250, *["O I-A"] * 3))


@pytest.mark.parametrize(
    ("scheme", "tags", "wanted"),
    [
        ("IOB2", "O I-A I-A O", "O B-A I-A O"),
        ("IOB2", "B-A I-B I-A", "B-A B-B B-A"),
        ("IOB2", "B-A I-A B-A I-B", "B-A I-A B-A B-B"),
        ("IOE2", "I-A O E-A I-A", "E-A O E-A E-A"),
        ("IOBES", "B-A O I-A E-A E-B", "S-A O B-A E-A S-B"),
        ("IOBES", "S-A I-A B-B I-B", "S-A S-A B-B E-B"),
        ("BILOU", "B-A B-A I-A O L-B", "U-A B-A L-A O U-B"),
        ("BILOU", "I-A I-A I-A I-A", "B-A I-A I-A L-A"),
    ],
)
def test_broken_tags_are_repaired_as_the_scheme_of_all_tags_demands(
    scheme, tags, wanted, read, capsys
):
    sound = {
        "IOB2": "B-A I-A B-B I-B O",
        "IOE2": "I-A E-A I-B E-B O",
        "IOBES": "B-A I-A E-A S-A B-B I-B E-B S-B O",
        "BILOU": "B-A I-A L-A U-A B-B I-B L-B U-B O",
    }[scheme]
    rows, reader = read(sentences(sound, tags, sound), "tasks.ner.data.tag_scheme=repair")
    assert tags_of(rows, reader) == [sound.split(), wanted.split(), sound.split()]
    assert reader.scheme == scheme
    changed = sum(map(str.__ne__, tags.split(), wanted.split()))
    said = capsys.readouterr().err
    assert f"{changed} tags in 1 of 3 rows" in said and said.count("warning") == 1


tag = st.sampled_from(["O", "B-A", "I-A", "E-A", "S-A", "B-B", "I-B", "E-B", "S-B"])


@given(st.lists(tag, min_size=1, max_size=9))
def test_repaired_tags_fit_and_keep_the_words_of_each_type(tags):
    for scheme in UNITS:
        made = repaired(tags, scheme)
        assert [one.partition("-")[2] for one in made] == [t.partition("-")[2] for t in tags]
        names = sorted({"O", *made})
        labels = np.array([[names.index(one) for one in made]])
        assert not breaks(labels, names, scheme).any()
        assert repaired(made, scheme) == made


def test_a_tag_that_only_a_repair_writes_is_a_class(read, tmp_path):
    rows, reader = read(sentences("O I-A I-A", "B-B I-B O"), "tasks.ner.data.tag_scheme=repair")
    assert tags_of(rows, reader) == [["O", "B-A", "I-A"], ["B-B", "I-B", "O"]]
    assert sorted(reader.names) == ["B-A", "B-B", "I-A", "I-B", "O"]
    with pytest.raises(UserError, match=r"data\.labels.*B-A"):
        read(
            sentences("O I-A I-A", "B-B I-B O"),
            "tasks.ner.data.tag_scheme=repair",
            "tasks.ner.data.labels=[O, I-A, B-B, I-B]",
        )


def test_sound_tags_are_not_repaired(read, capsys):
    rows, reader = read(sentences("O B-A I-A B-A", "O"), "tasks.ner.data.tag_scheme=repair")
    assert tags_of(rows, reader) == [["O", "B-A", "I-A", "B-A"], ["O"]]
    assert "repair" not in capsys.readouterr().err


def naive_places(words, pieces, most):
    """(place, word) of each word's first piece, [CLS] at 0; words without one are left out."""
    result, place = [], 1
    for number, word in enumerate(words):
        size = len(pieces(word))
        if size and place < most - 1:  # the last place is [SEP]'s
            result.append((place, number))
        place += size
    return result


words = st.one_of(
    st.sampled_from(WORDS),
    st.sampled_from(["cat.dog", "it's", "", " ", "New York", "\u200b", "café", "漢字", "x\u00a0y"]),
    st.text(max_size=4),
).filter(lambda word: not any("\ud800" <= letter <= "\udfff" for letter in word))


@given(st.lists(st.lists(words, min_size=1, max_size=7), min_size=1, max_size=4), st.data())
def test_tags_stand_at_the_first_piece_of_each_word(tiny_encoder, sentences, data):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = words_rows(sentences, Single(), "here")
    tags = [[data.draw(st.integers(0, 6)) for _ in one] for one in sentences]
    longest = max(map(len, sentences))
    rows.labels = np.array([one + [-1] * (longest - len(one)) for one in tags])
    most = data.draw(st.integers(4, 20))
    tokens = tokenize(rows, tokenizer, max_length=most, characters=True)
    placed, unseen = placed_tags(rows, tokens)
    expected = [
        (tokens.offsets[i] + place, i, number)
        for i, one in enumerate(sentences)
        for place, number in naive_places(one, tokenizer.tokenize, most)
    ]
    marked = np.flatnonzero(placed.targets >= 0)
    assert marked.tolist() == [place for place, _, _ in expected]
    assert placed.targets[marked].tolist() == [tags[i][number] for _, i, number in expected]
    assert placed.words[marked].tolist() == [number for _, _, number in expected]
    assert unseen == sum(map(len, sentences)) - len(expected)
    assert placed.count(np.arange(len(rows))) == len(expected)


def test_pieces_of_sub_word_and_byte_level_tokenizers():
    """Two pieces a word; a space counted to the word behind it; a word cut in two by a byte."""
    from tokenizers import Tokenizer, models, pre_tokenizers, processors
    from transformers import PreTrainedTokenizerFast

    vocabulary = {"<s>": 0, "</s>": 1, "<pad>": 2, "<unk>": 3}
    for piece in ("▁big", "▁un", "der", "▁", "▁cats"):
        vocabulary[piece] = len(vocabulary)
    scores = [(piece, -float(i)) for piece, i in vocabulary.items()]
    made = Tokenizer(models.Unigram(scores, unk_id=3))
    made.pre_tokenizer = pre_tokenizers.Metaspace()
    made.post_processor = processors.TemplateProcessing(
        single="<s> $A </s>", special_tokens=[("<s>", 0), ("</s>", 1)]
    )
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", cls_token="<s>")
    rows = words_rows([["big", "under", "cats"]], Single(), "here")
    tokens = tokenize(rows, tokenizer, max_length=16, characters=True)
    placed, unseen = placed_tags(rows, tokens)
    assert [made.id_to_token(i) for i in tokens.ids] == [
        "<s>", "▁big", "▁un", "der", "▁cats", "</s>",
    ]  # fmt: skip
    assert np.flatnonzero(placed.targets >= 0).tolist() == [1, 2, 4] and unseen == 0
    assert placed.words.tolist() == [-1, 0, 1, 1, 2, -1]


def test_words_of_the_user(read, tmp_path, tiny_encoder):
    config = load_config(token_config(tmp_path, tiny_encoder, tmp_path, tasks=("ner",)))
    ner = config.tasks["ner"]
    plain = tmp_path / "own.txt"
    plain.write_text("the big cat\n\nman  sees\n")
    assert words_from_file(ner, plain).words == [("the", "big", "cat"), ("man", "sees")]
    write_lines(tmp_path / "own.jsonl", [{"tokens": ["New York", "."]}])
    assert words_from_file(ner, tmp_path / "own.jsonl").words == [("New York", ".")]
    (tmp_path / "own.conll").write_text("the\ncat\n\nman\n")
    assert words_from_file(ner, tmp_path / "own.conll").words == [("the", "cat"), ("man",)]
    with pytest.raises(UserError, match="expected a list of sentences"):
        words_rows("the cat", Single(), "here")
    with pytest.raises(UserError, match="here, row 2: words is an empty list"):
        words_rows(["a b", " "], Single(), "here")


NAMES = ("B-X", "I-X", "O")
READER = LabelReader(
    task_type("tags"), {name: i for i, name in enumerate(NAMES)}, NAMES, scheme="IOB2"
)


def test_a_word_without_a_piece_keeps_its_place_and_is_outside(tiny_encoder):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = words_rows([["the", "", "cat"], ["man"]], Single(), "here")
    rows.labels = np.array([[0, 1, 1], [2, -1, -1]])
    tokens = tokenize(rows, tokenizer, max_length=16, characters=True)
    tokens, unseen = placed_tags(rows, tokens)
    assert unseen == 1 and tokens.without_piece.tolist() == [1, 0]
    # tag, probability, loss of each word that has a piece
    output = np.array([[[0, 0.5, 0.7], [1, 0.25, 1.4]], [[2, 1.0, 0.0], [0, 0, 0]]])
    predictions, scores, loss = tags_of_output(output, rows, tokens)
    assert predictions.tolist() == [[0, -1, 1], [2, -1, -1]]
    assert loss == pytest.approx(2.1 / 3)
    first, second = READER.task_type.records(rows, READER, predictions, scores)
    assert first["label"] == ["B-X", "I-X", "I-X"]
    assert first["prediction"] == ["B-X", "O", "I-X"]
    assert first["scores"] == [0.5, None, 0.25]
    assert first["measured"] == {
        "entities": 1, "predicted": 1, "right": 0, "words": 3, "right_words": 2,
    }  # fmt: skip
    assert second["measured"]["right_words"] == second["measured"]["words"] == 1
    columns = READER.task_type.columns(rows, READER, predictions, scores)
    result = metrics.compute(READER.task_type, columns)
    assert result == {"f1": 0, "precision": 0, "recall": 0, "accuracy": 0.75}
    gold, guessed = READER.task_type.confusion_columns(rows, READER, predictions)
    assert (gold.tolist(), guessed.tolist()) == ([0, 1, 1, 2], [0, 2, 1, 2])


@pytest.mark.parametrize(
    ("words", "most", "cut", "dropped"),
    [
        (["the", "cat"], 16, 0, 0),
        (["", "\u200b", "\x1f"], 16, 0, 3),
        (["the", "\u200b", "cat", "\x1f"], 16, 0, 2),
        (["the", "\u200b", "cat", "man", "dog"], 4, 2, 1),
        (["the", "cat", "man", "\u200b"], 3, 3, 0),  # of the rest it is not known
    ],
)
def test_words_that_are_cut_off_and_words_without_a_piece_are_two_things(
    words, most, cut, dropped, tiny_encoder
):
    tokenizer = AutoTokenizer.from_pretrained(tiny_encoder)
    rows = words_rows([words], Single(), "here")
    tokens = tokenize(rows, tokenizer, max_length=most, characters=True)
    placed, unseen = placed_tags(rows, tokens)
    assert placed.without_piece.tolist() == [dropped] and unseen == cut + dropped


def test_padding_may_be_a_tag_of_words(read):
    padded = [{**row, "ner_tags": [*row["ner_tags"], "O", "O"]} for row in ROWS]
    padded.append({"tokens": ["the", "man"], "ner_tags": ["O", "B-PER", "O"]})
    rows, reader = read(padded, "tasks.ner.data.padding_label=O")
    assert reader.names == ("B-ANIMAL", "B-PER", "I-ANIMAL", "O")
    assert tags_of(rows, reader)[0] == ROWS[0]["ner_tags"]


def test_padding_beyond_the_last_word_is_no_tag(read):
    padded = [{**ROWS[0], "ner_tags": [0, 1, 2, 0, 0]}, {**ROWS[1], "ner_tags": [3, 0, 0, 0, 0]}]
    names = "tasks.ner.data.labels={0: O, 1: B-ANIMAL, 2: I-ANIMAL, 3: B-PER}"
    rows, reader = read(padded, names, "tasks.ner.data.padding_label=0")
    assert tags_of(rows, reader) == [row["ner_tags"] for row in ROWS]
    with pytest.raises(UserError, match="5 tags for 3 words"):
        read(padded, names)
    with pytest.raises(UserError, match=r"row 1 .*ner_tags is '\[O': expected a list such as"):
        read([{**ROWS[0], "ner_tags": "[O"}], names)
