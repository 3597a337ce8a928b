"""Data files that nobody would write: each is read as it is, or refused in one line.

``make faults`` tries 500; the default suite some dozens.
"""

import json
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.config import load_config
from multitask.config.yaml_reader import dump_yaml
from multitask.data.classes import label_readers
from multitask.data.splits import load_splits, tokenize_splits
from multitask.models.pretrained import load_tokenizer
from multitask.utils.errors import UserError

LIMITS = settings(suppress_health_check=list(HealthCheck))
HEADS = {
    "classification": {},
    "binary": {},
    "multi_label": {"padding_label": "0"},
    "regression": {"label_range": [0, 5]},
    "token_classification": {},
}
ODD = ["", " ", "NA", "nan", "1_1", "11", "5E2", "500", "1.0", "1", "True", "true", "٣", "007",
       "[2, 6]", "[2", "['a', \"b\"]", "O", "B-X", "I-X", "['O', 'B-X']", '"', '""', "'", ",", ";",
       "\t", "\r", "\n", "\\", "\0", "\ufeff", "\u2028", "\x85", "\x1a", "😀", "inf", "1e999",
       "-1", "{}", "null", "a b", "sentence", "label"]  # fmt: skip
CELLS = st.sampled_from(ODD) | st.text(max_size=6)
ROWS = st.lists(st.tuples(CELLS, CELLS), min_size=1, max_size=6)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | CELLS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(CELLS, inner, max_size=2),
    max_leaves=4,
)
# what makes up a table, so that pieces of it meet
RAW = st.lists(
    st.sampled_from(["sentence", "label", "O", "1", "2", *'",;\t|[]\n\r\\ \0']), max_size=30
)


@st.composite
def separated(draw: st.DrawFn) -> bytes:
    """A table that is written as it should be, or almost so."""
    separator = draw(st.sampled_from(",\t;|"))
    lines = [("sentence", "label"), *draw(ROWS)]
    quote = draw(st.booleans())

    def cell(text: str) -> str:
        return '"' + text.replace('"', '""') + '"' if quote else text

    end = draw(st.sampled_from(["\n", "\r\n", "\r"]))
    text = end.join(separator.join(map(cell, line)) for line in lines)
    return draw(st.sampled_from(["", "\ufeff"])).encode() + text.encode("utf-8", "surrogatepass")


@st.composite
def damaged(draw: st.DrawFn, made: st.SearchStrategy[bytes]) -> bytes:
    """A file with a few bytes put in, taken out or flipped, or cut off."""
    raw = draw(made)
    place = draw(st.integers(0, len(raw)))
    piece = draw(st.binary(max_size=4) | CELLS.map(lambda text: text.encode("utf-8", "replace")))
    return raw[:place] + piece + raw[place + draw(st.sampled_from([0, 0, 1, 3, 10**9])) :]


@st.composite
def json_lines(draw: st.DrawFn) -> bytes:
    records = draw(
        st.lists(st.fixed_dictionaries({"sentence": VALUES, "label": VALUES}), max_size=6)
    )
    return "\n".join(map(json.dumps, records)).encode()


def parquet(columns: dict[str, list]) -> bytes:
    sink = pyarrow.BufferOutputStream()
    pyarrow.parquet.write_table(pyarrow.table(columns), sink)
    return sink.getvalue().to_pybytes()


COLUMN = st.one_of(
    *(
        st.lists(values, min_size=3, max_size=3)
        for values in (
            CELLS.map(lambda text: text.encode("utf-8", "replace")),
            st.binary(max_size=4),
            st.none() | st.integers(-(2**63), 2**63 - 1),
            st.floats(),
            st.booleans(),
            st.lists(st.sampled_from(["O", "B-X", "0"])),
            st.datetimes(),
            st.decimals(allow_nan=False, allow_infinity=False, places=2, min_value=0, max_value=9),
        )
    )
)
RAW_TEXT = RAW.map(lambda pieces: "".join(pieces).encode())
FILES = {
    "csv": separated() | RAW_TEXT | damaged(separated()),
    "tsv": separated() | RAW_TEXT | damaged(separated()),
    "jsonl": json_lines() | damaged(json_lines()),
    "txt": separated() | RAW_TEXT,
    "conll": RAW_TEXT | damaged(st.just(b"a\tO\nb\tB-X\n\nc\tO\n")),
    "documents": RAW_TEXT,
    "parquet": (made := st.fixed_dictionaries({"sentence": COLUMN, "label": COLUMN}).map(parquet))
    | damaged(made),
}
CASES = st.sampled_from(sorted(FILES)).flatmap(lambda form: st.tuples(st.just(form), FILES[form]))
CHANGES = st.fixed_dictionaries(
    {},
    optional={
        "quoting": st.booleans(),
        "dev_share": st.just(0.5),
        "where": st.just({"label": "1"}),
        "id": st.just("label"),
        "header": st.just(["sentence", "label"]),
        "labels": st.just({"1": "a", "2": "b"}),
        "text2": st.just("label"),
    },
)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz")


@pytest.fixture(scope="module")
def tokenizer(tiny_encoder: Path):
    return load_tokenizer(str(tiny_encoder))


def check(place: Path, tokenizer, case: tuple[str, bytes], head: str, changes: dict) -> None:
    """The file is read, or refused in one line that names the file or the config."""
    form, raw = case
    (place / "data").write_bytes(raw)
    data = {"train": "data", "dev": "data", "format": form, **HEADS[head], **changes}
    if "dev_share" in data:
        del data["dev"]
    entry = {"data": data, "head": head, "input": "cross" if "text2" in data else "single"}
    entry["pooling"] = "tokens" if head == "token_classification" else "mean"
    config = {"data_dir": str(place), "tasks": {"t": entry}}
    (place / "c.yaml").write_text(dump_yaml(config), encoding="utf-8")
    try:
        config = load_config(place / "c.yaml")
        readers = label_readers(config)
        rows, shared = load_splits(config, readers, lambda: tokenizer)
        tokenize_splits(config, rows, shared, readers=readers, tokenizer=tokenizer)
    except UserError as error:
        message = " ".join(str(error).split())
        assert str(place) in message, message
        assert "cannot be read: " not in message, message  # no exception that nobody thought of


def everything(examples: int):
    """Run a test on so many files; always the same, so that CI fails for a change alone."""
    limits = settings(LIMITS, max_examples=examples, derandomize=True)
    made = {"case": CASES, "head": st.sampled_from(sorted(HEADS)), "changes": CHANGES}
    return lambda test: limits(given(**made)(test))


@everything(60)
def test_a_file_is_read_or_refused_in_one_line(place, tokenizer, count, case, head, changes):
    count("fuzzed data files")
    check(place, tokenizer, case, head, changes)


@pytest.mark.slow
@everything(500)
def test_500_files_are_read_or_refused_in_one_line(place, tokenizer, count, case, head, changes):
    count("fuzzed data files")
    check(place, tokenizer, case, head, changes)


TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)


def texts_and_labels(place: Path, form: str) -> list[tuple[str, str]]:
    """The texts of a file with classes, and the name of each one's class."""
    data = {"train": "data", "dev": "data", "format": form}
    entry = {"data": data, "head": "classification", "pooling": "mean"}
    (place / "c.yaml").write_text(dump_yaml({"data_dir": str(place), "tasks": {"t": entry}}))
    config = load_config(place / "c.yaml")
    readers = label_readers(config)
    train = load_splits(config, readers, lambda: None)[0]["t"]["train"]
    labels = [readers["t"].names[number] for number in train.gold]
    return [(text, label) for (text,), label in zip(train.texts, labels, strict=True)]


@settings(LIMITS, max_examples=60, derandomize=True)
@given(
    rows=st.lists(
        st.tuples(TEXTS, TEXTS.filter(str.strip) | st.sampled_from(ODD[4:14])), max_size=8
    ),
    separator=st.sampled_from(",\t;|"),
    form=st.sampled_from(["csv", "tsv"]),
)
def test_texts_and_classes_are_those_of_the_file(place, rows, separator, form):
    """Of a table that is written as it should be; two different labels are two classes."""
    rows = [*rows, ("a", "x"), ("b", "y")]
    quoted = (['"' + cell.replace('"', '""') + '"' for cell in row] for row in rows)
    lines = [separator.join(["sentence", "label"]), *map(separator.join, quoted)]
    (place / "data").write_text("\n".join(lines), encoding="utf-8", newline="")
    assert texts_and_labels(place, form) == rows


# a number as JSON writes it
NUMBERS = st.from_regex(
    r"-?(0|[1-9][0-9]{0,19})(\.[0-9]{1,3})?([eE][+-]?[0-9]{1,3})?", fullmatch=True
)


@settings(LIMITS, max_examples=60, derandomize=True)
@given(rows=st.lists(st.tuples(TEXTS, NUMBERS | st.sampled_from(["true", "false"])), max_size=8))
def test_values_of_json_are_those_of_the_file(place, rows):
    """Labels without quotes are not rounded; two different ones are two classes."""
    rows = [*rows, ("a", "1"), ("b", "1.0")]
    lines = [f'{{"sentence": {json.dumps(text)}, "label": {label}}}' for text, label in rows]
    (place / "data").write_text("\n".join(lines), encoding="utf-8")
    assert texts_and_labels(place, "jsonl") == rows
