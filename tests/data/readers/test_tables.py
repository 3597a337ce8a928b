"""Every file format gives the same rows; a file that does not fit is refused in one line."""

import json
import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from multitask.config import DataConfig
from multitask.data.load_rows import load_rows
from multitask.data.readers.tables import read_table
from multitask.utils.limits import DATA_BYTES
from tests.support.data_files import BINARY, csv_text, make, refusal, rows_of

TABLE = [
    {"id": "a1", "sentence": "good film", "label": "1"},
    {"id": "a2", "sentence": " bad film", "label": "0.0"},
    {"id": "a3", "sentence": "None", "label": ""},
    {"id": "a4", "sentence": 'say ""', "label": "1.0"},
]


def write_text(name: str, text: str, **data: object):  # type: ignore[no-untyped-def]
    def write(directory: Path) -> dict:
        (directory / name).write_text(text, encoding="utf-8")
        return {"train": name, **data}

    return write


def write_parquet(directory: Path) -> dict:
    import pyarrow
    import pyarrow.parquet

    values = [{**row, "label": float(row["label"] or "nan")} for row in TABLE]
    pyarrow.parquet.write_table(pyarrow.Table.from_pylist(values), directory / "x.parquet")
    return {"train": "x.parquet"}


def write_disk(directory: Path) -> dict:
    import datasets

    split = datasets.Dataset.from_list(TABLE)
    datasets.DatasetDict({"training": split}).save_to_disk(directory / "saved")
    return {"format": "disk", "path": "saved", "train": "training"}


def write_hub(directory: Path) -> dict:
    (directory / "local").mkdir()
    lines = [json.dumps(row) for row in TABLE]
    (directory / "local" / "train.jsonl").write_text("\n".join(lines))
    return {"format": "hub", "path": "local", "train": "train"}


AS_JSON = "\n".join(json.dumps(row) for row in TABLE)


FORMATS = {
    "csv": write_text("x.csv", csv_text(TABLE)),
    "csv, capital ending": write_text("X.CSV", csv_text(TABLE)),
    "csv with a byte order mark": write_text("x.csv", "\ufeff" + csv_text(TABLE)),
    "csv with blank lines": write_text("x.csv", csv_text(TABLE).replace("\n", "\n\n")),
    "tsv": write_text("x.tsv", csv_text(TABLE, "\t")),
    "tsv in .csv": write_text("x.csv", csv_text(TABLE, "\t"), format="tsv"),
    "tsv of no known ending": write_text("x.data", csv_text(TABLE, "\t"), format="tsv"),
    "jsonl": write_text("x.jsonl", AS_JSON),
    "json": write_text("x.json", AS_JSON + "\n\n"),
    "parquet": write_parquet,
    "disk": write_disk,
    "hub": write_hub,
}


@pytest.mark.parametrize("name", FORMATS)
def test_every_format_gives_the_same_rows(name, tmp_path, monkeypatch):
    if name == "hub":
        import datasets

        monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    config = make(tmp_path, FORMATS[name](tmp_path))
    rows = load_rows(config, "t", "train", BINARY)
    assert rows.texts == [("good film",), (" bad film",), ('say ""',)]
    assert rows.ids == ["a1", "a2", "a4"]
    assert rows.labels.tolist() == [1, 0, 1]
    assert rows.labels.dtype == np.int64
    assert rows.unlabelled_dropped == 1
    assert len(rows) == 3


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


def test_quoting_off_takes_quotes_as_they_are(tmp_path):
    text = 'sentence\tlabel\n"Well" , he said\t1\n"open\t0\nit is ""so""\t1\n'
    rows = rows_of(tmp_path, text, "x.tsv", quoting=False, id=None)
    assert rows.texts == [('"Well" , he said',), ('"open',), ('it is ""so""',)]
    assert rows.ids == ["0", "1", "2"]


def test_columns_are_selected_by_name_behind_two_index_columns(tmp_path):
    text = "0\t\tid\tsentence\tlabel\n1\t0.0\tx\t one\t1\n2\t1.0\ty\ttwo\t0\n"
    rows = rows_of(tmp_path, text, format="tsv")
    assert (rows.ids, rows.texts) == (["x", "y"], [(" one",), ("two",)])


def test_of_two_columns_with_one_name_the_first_counts(tmp_path, capsys):
    text = "id,sentence,sentence,label,x,x\n1,first,second,1,2,3\n"
    assert rows_of(tmp_path, text).texts == [("first",)]
    said = (
        f"{tmp_path}/train.csv: several columns have the name 'sentence': the first one is used\n"
    )
    assert capsys.readouterr().err == f"warning: {said}"


@pytest.mark.parametrize(
    ("text", "data", "message"),
    [
        ("", {}, "{file}: the file is empty"),
        ("\n\n", {}, "{file}: the file is empty"),
        ("id,sentence,label\n", {}, "{file}: no rows"),
        ("id,sentence,label\n1,a,\n2,b,\n", {}, "{file}: no labelled rows (2 without a label)"),
        ("id,sentense,label\n1,a,1\n", {}, "no column 'sentence' (did you mean 'sentense'?)"),
        ("id,x,y\n1,a,1\n", {}, "{file}: no column 'sentence' (known: id, x, y)"),
        ("id,sentence,gold\n1,a,1\n", {}, "{file}: no column 'label' (known: id, sentence, gold)"),
        ("no,sentence,label\n1,a,1\n", {}, "{file}: no column 'id' (known: no, sentence, label)"),
        # no separator gives the columns: the one that splits the header is taken
        ("id\tsentense\tlabel\n1\ta, b\t1\n", {}, "no column 'sentence' (did you mean 'sentense'"),
        # an unquoted separator never shifts or drops cells, in the first row or later
        ("id,sentence,label\n1,oh, no,1\n", {}, "line 2: 4 cells, but the header has 3: quote"),
        ("id,sentence,label\n1,a,1\n\n2,b,c,1\n", {}, "line 4: 4 cells, but the header has 3"),
        ("id,sentence,label\n1,a\n", {}, "line 2: 2 cells, but the header has 3: write an empty"),
        ("id,sentence,label\n1,a\n", {"quoting": False}, "line 2: 2 cells, but the header has 3"),
        ("id,sentence,label\n1,a\rb,1\n", {}, "line 2: a carriage return is inside a cell: quote"),
        # quotes
        ('id,sentence,label\n1,a,1\n2,"open,0\n3,c,1\n', {},
         "{file}, line 3: a quote is opened and never closed; where a quote is an ordinary "
         "character, set `data.quoting: false`"),
        ('id,sentence,label\n1,"a,1\n2,b" c,0,1\n', {},
         "{file}, line 2: a cell goes on after its closing quote: double the quotes inside a text; "
         "where a quote is an ordinary character, set `data.quoting: false`"),
        ('id,sentence,label\n1,"a,1\n2,b",c,0,1\n', {},
         "{file}, line 2: 5 cells, but the header has 3: where a quote is an ordinary character, "
         "set `data.quoting: false`"),
        # GLUE's RTE: the quoted beginning of a text that goes on
        ('id\tsentence\tlabel\n1\t"That film" was good\t1\n2\t"b\t1\n', {"format": "tsv"},
         "{file}, line 2: a cell goes on after its closing quote"),
        ("id,sentence,label\n", {}, "{file}: no rows"),
        (b"id,sentence,label\n1,caf\xe9,1\n", {}, "{file}: not UTF-8 at byte 23: save it as UTF-8"),
    ],
)  # fmt: skip
def test_table_that_cannot_be_used(text, data, message, tmp_path):
    result = refusal(rows_of, tmp_path, text, **data)
    assert message.format(file=tmp_path / "train.csv") in result
    assert str(tmp_path / "train.csv") in result


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("x.jsonl", '{"sentence": "a"}\n{broken\n', "x.jsonl, line 2: not JSON"),
        ("x.jsonl", '{"sentence": "a"}\n[1]\n', "x.jsonl, line 2: expected an object a line"),
        ("x.jsonl", "\n", "x.jsonl: the file is empty"),
        ("x.parquet", "no parquet", "x.parquet: not a readable Parquet file"),
        ("x.xlsx", "x", "tasks.t.data.train: cannot tell the format of x.xlsx: set `data.format`"),
    ],
)
def test_other_files_that_cannot_be_used(name, text, message, tmp_path):
    assert message in refusal(rows_of, tmp_path, text, name)


@pytest.mark.parametrize("name", ["x.csv", "x.tsv", "x.jsonl", "x.txt", "x.conll"])
def test_a_file_that_would_fill_the_memory_is_refused(name, tmp_path):
    (tmp_path / name).touch()
    os.truncate(tmp_path / name, DATA_BYTES + 1)  # takes no space
    result = refusal(read_table, tmp_path / name, name.split(".")[1], DataConfig())
    assert f"{name}: larger than 1,073,741,824 bytes" in result


@pytest.mark.parametrize(("name", "most"), [("x.tsv", 2), ("x.jsonl", 3)])
def test_a_large_table_is_not_in_memory_several_times(name, most, tmp_path):
    table = [
        {
            "id": f"{i:06}",
            "text": f"is row {i} about a river?",
            "text2": f"or {i}?",
            "y": str(i % 2),
        }
        for i in range(20_000)
    ]
    lines = [json.dumps(row) for row in table]
    if name == "x.tsv":
        lines = ["\t".join(table[0]), *("\t".join(row.values()) for row in table)]
    (tmp_path / name).write_text("\n".join(lines), encoding="utf-8")
    data = DataConfig(text="text", text2="text2", label="y")
    tracemalloc.start()
    try:
        columns = read_table(tmp_path / name, name[2:], data)
        read, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert len(columns["y"]) == len(table)
    assert peak < most * read, (peak, read)
