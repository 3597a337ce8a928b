"""Text files: lines, cells as they are written, numbers of JSON, words, documents; bad files."""

import json
import math
import os
import re
import tracemalloc
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.config import Choice, DataConfig, TaskConfig
from multitask.config.registry import task_type
from multitask.data.classes import label_reader
from multitask.data.load_rows import load_rows
from multitask.data.readers.columns import read_table
from multitask.data.readers.text_files import each_line, lines_of, read_text
from multitask.data.texts import texts_from_file
from multitask.inference.search.text_index import read_corpus
from multitask.utils.limits import COLUMNS, DATA_BYTES
from tests.support.data_files import BINARY, csv_text, make, refusal, rows_of

ONCE = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
# characters at which `str.splitlines` ends a line, and we do not
NO_ENDS = "\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"
LINES = ["a film", f"b{NO_ENDS}b", "", "  ", "café ☕\ttab"]
DATA = DataConfig(text="a", text2="b", label="y")


def read(directory: Path, text: str | bytes, form: str, data: DataConfig = DATA) -> dict:
    file = directory / f"x.{form}"
    file.write_bytes(text if isinstance(text, bytes) else text.encode())
    return read_table(file, data, form)


# --- lines ---


@pytest.mark.parametrize("end", ["\n", "\r", "\r\n"])
@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("last", [0, 1, 3])
def test_lines_end_with_lf_cr_or_crlf(end, mark, last, tmp_path):
    file = tmp_path / "x.txt"
    file.write_bytes((mark + end.join(LINES) + last * end).encode())
    assert [*each_line(file)] == LINES + [""] * max(0, last - 1)


@ONCE
@given(st.lists(st.sampled_from(["a", "é ", " ", "\t", "\n", "\r", "\r\n", *NO_ENDS]), max_size=12))
def test_every_command_reads_the_same_texts_of_a_file_with_mixed_line_ends(tmp_path, parts):
    text = "".join(["first\r", *parts]).replace("\t", "-")
    lines = enumerate(re.split("\r\n|\r|\n", text), 1)
    expected = [(number, line) for number, line in lines if line.strip()]
    file = tmp_path / "x.txt"
    file.write_bytes(text.encode())
    task = TaskConfig(data={}, head=Choice(name="classification"))
    rows = texts_from_file(task, file)
    numbers, texts = map(int, rows.ids), (text for (text,) in rows.texts)
    assert read_corpus(file)[0] == expected
    assert [(number + 1, text) for number, text in zip(numbers, texts, strict=True)] == expected
    assert read_table(file, DataConfig())["sentence"] == [line for _, line in expected]


@given(st.text("a\n\r\x0c\u2028"))
def test_the_lines_of_a_text_end_at_line_feeds_alone(text):
    assert [*lines_of(text)] == text.split("\n")


@pytest.mark.parametrize("encoding", ["latin-1", "UTF-16", "UTF-32"])
def test_the_line_that_is_not_utf_8_is_named_with_how_to_save_it(encoding, tmp_path):
    (tmp_path / "x.csv").write_bytes("fine\n\ncafé\nfine\n".encode(encoding))
    line = 3 if encoding == "latin-1" else 1
    message = f"{tmp_path}/x.csv, line {line}: not UTF-8: save it as UTF-8 ("
    for reader in (read_text, lambda file: [*each_line(file)]):
        assert refusal(reader, tmp_path / "x.csv").startswith(message)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.conll"])
def test_a_file_that_would_fill_the_memory_is_refused(name, tmp_path):
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, DATA_BYTES + 1)  # takes no space
    result = refusal(read_table, tmp_path / name, DataConfig())
    assert f"{name}: larger than 1,073,741,824 bytes" in result


# --- every format ---

TABLE = [
    {"id": "a1", "sentence": "good film", "label": "1"},
    {"id": "a2", "sentence": " bad film", "label": "0.0"},
    {"id": "a3", "sentence": "None", "label": ""},
    {"id": "a4", "sentence": 'say ""', "label": "1.0"},
]
AS_JSON = "\n".join(map(json.dumps, TABLE))
FORMATS = {
    "x.csv": csv_text(TABLE),
    "X.CSV": csv_text(TABLE),
    "mark.csv": "\ufeff" + csv_text(TABLE),
    "blank.csv": csv_text(TABLE).replace("\n", "\n\n"),
    "tabs.csv": csv_text(TABLE, "\t"),
    "x.tsv": csv_text(TABLE, "\t"),
    "x.jsonl": AS_JSON,
    "x.json": f"\n[{AS_JSON}]\n\n".replace("}\n{", "},\n{"),
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name, tmp_path):
    rows = rows_of(tmp_path, FORMATS[name], name, id="id")
    assert rows.texts == [("good film",), (" bad film",), ('say ""',)]
    assert rows.ids == ["a1", "a2", "a4"]
    assert (rows.gold.tolist(), rows.gold.dtype) == ([1, 0, 1], np.int64)
    assert rows.unlabelled_dropped == 1


@pytest.mark.parametrize(
    "cell",
    ["None", "NA", "nan", "null", "", " ", "  lead", "tail ", "a, b", "a\tb", 'the "x"', '"',
     "two\nlines", "café ☕", "x\u2028y\x85z", "'tis", "#1", "1.0", "\\"],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["csv", "tsv", "jsonl"])
def test_a_text_is_read_as_it_was_written(cell, kind, tmp_path):
    row = {"id": "1", "sentence": cell, "label": "1"}
    text = json.dumps(row, ensure_ascii=False) if kind == "jsonl" else None
    text = text or csv_text([row, row], "," if kind == "csv" else "\t")
    assert rows_of(tmp_path, text, f"x.{kind}").texts[0] == (cell,)


@pytest.mark.parametrize(
    ("name", "text", "line"),
    [("a.csv", 'sentence,label\n"two\nlines",1\n\nx,1\n', 5),
     ("a.tsv", "sentence\tlabel\nb\t1\n\nx\t1\n", 4),
     ("a.jsonl", '{"sentence": "b"}\n\n{"sentence": "x"}\n', 3),
     ("a.txt", "b\n\nx\n", 3),
     ("a.conll", "b O\nc O\n\nx O\n", 4)],
)  # fmt: skip
def test_a_row_has_its_first_line(name, text, line, tmp_path):
    (tmp_path / name).write_text(text)
    table = read_table(tmp_path / name, DataConfig())
    assert table.place(1) == f"{tmp_path / name}, line {line}, row 2"


@pytest.mark.parametrize(("name", "most"), [("x.tsv", 2), ("x.jsonl", 3)])
def test_a_large_table_is_not_in_memory_several_times(name, most, tmp_path):
    texts = [(f"{i:06}", f"is row {i} about a river?", f"or {i}?") for i in range(20_000)]
    table = [dict(zip(("id", "text", "text2"), row, strict=True)) for row in texts]
    lines = [json.dumps(row) for row in table]
    if name == "x.tsv":
        lines = ["\t".join(table[0]), *("\t".join(row.values()) for row in table)]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    tracemalloc.start()
    try:
        columns = read_table(tmp_path / name, DataConfig())
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns["id"]) == len(table)
    assert peak < most * held, (peak, held)


OPEN = 'id,sentence,label\n1,a,1\n2,"open,0\n3,c,1\n'


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("x.csv", "", ": the file is empty"),
        ("x.csv", "\n\n", ": the file is empty"),
        ("x.csv", "id,sentence,label\n", ": no rows"),
        ("x.csv", "id,sentence,label\n1,a,\n2,b,\n", ": no labelled rows (2"),
        ("x.csv", "id,sentense,label\n1,a,1\n", ": no column 'sentence' (did you mean 'sent"),
        ("x.csv", "id,x,y\n1,a,1\n", ": no column 'sentence' (known: id, x, y)"),
        ("x.csv", "id,sentence,gold\n1,a,1\n", ": no column 'label'"),
        ("x.csv", "no,sentence,label\n1,a,1\n", ": no column 'id'"),
        # an unquoted separator never shifts or drops cells, in the first row or later
        ("x.csv", "id,sentence,label\n1,oh, no,1\n", ", line 2: 4 cells"),
        ("x.csv", "id,sentence,label\n1,a,1\n\n2,b,c,1\n", ", line 4: 4 cells"),
        ("x.csv", "id,sentence,label\n1,a\n", ", line 2: 2 cells"),
        ("x.csv", "id,sentence,label\n1,a\rb,1\n", ", line 2: not CSV (new-line"),
        ("x.csv", "id,sentence,label\n1,a,1\nid,sentence,label\n", ", line 3: the header again"),
        ("x.csv", OPEN, ", line 3: not CSV"),
        ("x.csv", 'id,sentence,label\n1,"a,1\n2,b" c,0,1\n', ", line 2: not CSV"),
        ("x.csv", 'id,sentence,label\n1,"a,1\n2,b",c,0,1\n', ", line 2: 5 cells"),
        ("x.csv", b"id,sentence,label\n1,caf\xe9,1\n", ", line 2: not UTF-8"),
        ("x.jsonl", '{"sentence": "a"}\n{broken\n', ", line 2: not JSON"),
        ("x.jsonl", '{"sentence": "a"}\n[1]\n', ", line 2: expected an object"),
        ("x.jsonl", "\n", ": the file is empty"),
        ("x.json", "[]", ": the file is empty"),
        ("x.json", '[{"sentence": "a"},\n {"sentence": }]', ", line 2: not JSON"),
        ("x.json", '[{"sentence": "a"}, 1]', ", row 2: expected an object"),
        ("x.jsonl", '{"sentence": "\\ud800"}', ", line 1: half a letter"),
        ("x.jsonl", '{"id": 2, "label": 1}', ": no column 'sentence'"),
        ("x.jsonl", '{"id": 1, "sentence": [1]}', ", line 1, row 1: sentence is no text"),
        ("x.jsonl", '{"id": 1, "sentence": "a", "label": [1]}', ", line 1, row 1 (id 1): label is"),
        ("x.conll", "a O\nb\n", ", line 2: 1 columns"),
        ("x.conll", "\n-DOCSTART- O\n\n", ": the file is empty"),
    ],
)  # fmt: skip
def test_what_is_refused_is_named_by_file_and_line(name, text, place, tmp_path):
    result = refusal(rows_of, tmp_path, text, name)
    assert result.startswith(f"{tmp_path / name}{place}"), result
    if text == OPEN:
        assert "`data.quoting: false`" in result


# --- CSV and TSV ---


@pytest.mark.parametrize("declared", ["csv", "tsv"])
@pytest.mark.parametrize("separator", [",", "\t", ";", "|"])
def test_the_header_line_decides(separator, declared, tmp_path):
    lines = [["y", "a", "b"], ["1", 'say "x"', "one, two\tthree; four | five"]]
    quoted = [['"' + cell.replace('"', '""') + '"' for cell in line] for line in lines]
    columns = read(tmp_path, "\n".join(separator.join(line) for line in quoted), declared)
    assert columns == {name: [cell] for name, cell in zip(*lines, strict=True)}


def test_without_a_header_line_the_number_of_columns_decides(tmp_path):
    data = DataConfig(text="a", label="y", header=["id", "y", "mark", "a"])
    text = "gj04\t1\t\tOur friends, all, every, one, of, them\n"
    assert read(tmp_path, text, "csv", data) == {
        "id": ["gj04"], "y": ["1"], "mark": [""], "a": ["Our friends, all, every, one, of, them"]
    }  # fmt: skip


@pytest.mark.parametrize(
    ("raw", "quoting", "cells"),
    [
        ("a\ty\r\nx\rz\t1\r\n", False, ["x\rz"]),
        ("a\ty\nx\x0bz\u2028\x85\t1\n", False, ["x\x0bz\u2028\x85"]),
        ('a\ty\n"Well" , he\t1\n"open\t0\n', False, ['"Well" , he', '"open']),
        ('a\ty\r\n"x\r\nz\r"\t1\r\n', True, ["x\r\nz\r"]),
        ("a\ty\rx\t1\rz\t0\r", True, ["x", "z"]),
        ("a\ty\n  \nx\t1\n\n\r\n", True, ["x"]),
        ("a\n \nx\n", True, [" ", "x"]),
        ("a\na\nx\n", True, ["a", "x"]),
    ],
)
def test_line_ends_quotes_and_carriage_returns(raw, quoting, cells, tmp_path):
    assert read(tmp_path, raw, "tsv", DataConfig(text="a", quoting=quoting))["a"] == cells


def test_of_two_columns_with_one_name_the_first_counts(tmp_path, capsys):
    text = "id,sentence,sentence,label,,\n1,first,second,1,2,3\n"
    assert rows_of(tmp_path, text).texts == [("first",)]
    (line,) = capsys.readouterr().err.splitlines()
    assert "several columns have the name 'sentence'" in line


# --- JSON ---

# each is one value of a CSV cell, and one of JSON
VALUES = ["1", "1.0", "1.00", "01", "1e5", "1E5", "100000", "-0", "0", "1E400", "true", "false",
          "12345678901234567890", "12345678901234567891", "0.1", "0.10", "9" * 5000]  # fmt: skip


def as_json(value: str) -> str:
    """The value without quotes, or a text where JSON has no such value."""
    try:
        json.loads(value, parse_int=str)
    except ValueError:
        return json.dumps(value)
    return value


def rows_and_names(directory, name, **data):
    config = make(directory, {"train": name, "dev": name, "id": None, **data})
    reader = label_reader(config, "t", task_type("class"))
    rows = load_rows(config, "t", "train", reader)
    return rows.texts, [reader.names[number] for number in rows.gold]


def test_values_without_quotes_are_texts_and_classes_as_in_csv(tmp_path):
    lines = [f'{{"sentence": {as_json(v)}, "label": {as_json(v)}}}' for v in VALUES]
    (tmp_path / "x.jsonl").write_text("\n".join(lines))
    (tmp_path / "x.csv").write_text("sentence,label\n" + "".join(f"{v},{v}\n" for v in VALUES))
    texts, labels = rows_and_names(tmp_path, "x.jsonl")
    assert (texts, labels) == ([(value,) for value in VALUES], VALUES)
    assert rows_and_names(tmp_path, "x.csv") == (texts, labels)


def test_escapes_are_decoded(tmp_path):
    line = r'{"id": "1", "sentence": "\u00e9\t\"\\\/\ud83d\ude00", "label": "\u0031"}'
    rows = rows_of(tmp_path, line, "x.jsonl")
    assert (rows.texts, rows.gold.tolist()) == ([('é\t"\\/😀',)], [1])


def test_a_text_that_is_missing_is_empty_with_a_warning(tmp_path, capsys):
    text = '{"id": 1, "sentence": "a", "label": 1}\n{"id": 2, "sentence": NaN, "label": 0}\n'
    assert rows_of(tmp_path, text, "x.jsonl").texts == [("a",), ("",)]
    assert "1 without sentence (null), the first one is row 2" in capsys.readouterr().err


def test_json_lines_have_only_so_many_keys(tmp_path):
    lines = "\n".join(f'{{"k{i}": 1}}' for i in range(COLUMNS + 1))
    assert "x.jsonl: 1,001 different keys" in refusal(rows_of, tmp_path, lines, "x.jsonl")


@ONCE
@given(st.recursive(
    st.sampled_from([math.nan, math.inf, -math.inf, None, "NaN", "Infinity", 1.5, True]),
    lambda inner: st.lists(inner) | st.dictionaries(st.sampled_from("abc"), inner),
))  # fmt: skip
def test_nan_is_null_wherever_it_is(tmp_path, value):
    def expected(one):
        if isinstance(one, list):
            return [*map(expected, one)]
        if isinstance(one, dict):
            return {key: expected(item) for key, item in one.items()}
        if isinstance(one, float):
            return str(one) if math.isfinite(one) else None
        return one

    columns = read(tmp_path, json.dumps({"text": "t", "x": value}), "jsonl")
    assert columns == {"text": ["t"], "x": [expected(value)]}


# --- CoNLL ---


@pytest.mark.parametrize(
    ("text", "words", "tags"),
    [
        (
            "-DOCSTART- -X- O O\n\nEU NNP I-NP B-ORG\nrejects VBZ I-VP O\n\n\n# CD I-NP O\r\n",
            [["EU", "rejects"], ["#"]],
            [["B-ORG", "O"], ["O"]],
        ),
        ("New\u00a0York\tB-LOC\n", [["New\u00a0York"]], [["B-LOC"]]),
        ("a\nb\n\nc", [["a", "b"], ["c"]], None),
    ],
)
def test_first_and_last_column_by_sentence(text, words, tags, tmp_path):
    assert read(tmp_path, text, "conll") == {"a": words} | ({"y": tags} if tags else {})


# --- documents ---


def pairs(directory, documents):
    text = "\n\n".join("\n".join(document) for document in documents)
    columns = read(directory, text, "documents")
    return list(zip(*(columns[name] for name in "aby"), strict=True))


@ONCE
@given(st.lists(st.integers(1, 6), min_size=2, max_size=8).filter(lambda counts: max(counts) > 1))
def test_every_sentence_but_a_documents_last_begins_one_pair(tmp_path, counts):
    documents = [[f"{d}.{i}" for i in range(size)] for d, size in enumerate(counts)]
    made = pairs(tmp_path, documents)
    firsts = [first for first, _, _ in made]
    assert firsts == [sentence for document in documents for sentence in document[:-1]]
    for first, second, label in made:
        document, place = map(int, first.split("."))
        if label == "1":
            assert second == f"{document}.{place + 1}"
        else:
            assert label == "0" and int(second.split(".")[0]) != document


def test_half_of_the_pairs_follow_and_others_come_from_everywhere(tmp_path):
    documents = [[f"{d}.{i}" for i in range(41)] for d in range(50)]
    made = pairs(tmp_path, documents)
    assert made == pairs(tmp_path, documents), "drawn once"
    counts = Counter(label for _, _, label in made)
    assert 0.46 < counts["1"] / 2000 < 0.54
    sources = Counter(second.split(".")[0] for _, second, label in made if label == "0")
    assert len(sources) == 50 and max(sources.values()) < 60  # 20 each


@pytest.mark.parametrize("text", ["\n \n", "one\ntwo", "one\n\ntwo\n"])
def test_documents_without_pairs_are_refused(text, tmp_path):
    assert "x.documents: no pairs" in refusal(read, tmp_path, text, "documents")
    assert "`data.text2`" in refusal(read, tmp_path, text, "documents", DataConfig())


@pytest.mark.parametrize("end", ["\r", "\r\n"])
def test_other_formats_have_the_same_line_ends(end, tmp_path):
    for form, text in {
        "jsonl": '{"a": "x\u2028\x85", "b": 1}\n{"a": "y", "b": 2}\n',
        "conll": "the O\ncat B-X\n\nman O\n",
        "documents": "one\ntwo\n\nthree\nfour\n",
    }.items():
        assert read(tmp_path, text.replace("\n", end), form) == read(tmp_path, text, form)


def test_columns_are_selected_by_name_behind_two_index_columns(tmp_path):
    text = "0\t\tid\tsentence\tlabel\n1\t0.0\tx\t one\t1\n2\t1.0\ty\ttwo\t0\n"
    (tmp_path / "train.csv").write_text(text)
    rows = load_rows(make(tmp_path, {}), "t", "train", BINARY)
    assert (rows.ids, rows.texts) == (["x", "y"], [(" one",), ("two",)])
