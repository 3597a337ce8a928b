"""Parquet cells: bytes are text or refused, never shown as ``b'...'``."""

import math

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from multitask.config.registry import task_type
from multitask.data.load_rows import label_reader, load_rows
from multitask.data.readers.parquet import read_parquet
from tests.support.data_files import make, refusal

ODD = b"caf\xe9"


def write(directory, **columns):
    pyarrow.parquet.write_table(pyarrow.table(columns), directory / "x.parquet")
    return directory / "x.parquet"


def not_utf8():
    """A column of text whose second cell is not UTF-8."""
    return pyarrow.array([b"fine", ODD, None]).view(pyarrow.string())


@pytest.mark.parametrize("kind", [pyarrow.binary(), pyarrow.large_binary(), pyarrow.string()])
def test_bytes_are_text(kind, tmp_path):
    texts = ["café ☕", "", None]
    cells = [text and text.encode() for text in texts]
    file = write(tmp_path, a=pyarrow.array(cells, kind), b=pyarrow.array([cells] * 3))
    assert read_parquet(file) == {"a": texts, "b": [texts] * 3}


def test_bytes_in_a_dictionary_are_text(tmp_path):
    file = write(tmp_path, a=pyarrow.array([b"x", b"y", b"x"]).dictionary_encode())
    assert read_parquet(file) == {"a": ["x", "y", "x"]}


@pytest.mark.parametrize("key", ["sentence", "label", "id"])
@pytest.mark.parametrize("cells", [pyarrow.array([b"fine", ODD, None]), not_utf8()])
def test_cells_that_are_not_utf8_are_refused_by_row(key, cells, tmp_path):
    columns = {name: pyarrow.array(["0", "1", "0"]) for name in ("sentence", "label", "id")}
    file = write(tmp_path, **{**columns, key: cells})
    config = make(tmp_path, {"train": "x.parquet"}, "classification")
    result = refusal(lambda: load_rows(config, "t", "train", reader(config)))
    assert result.startswith(f"{file}, row 2: {key} holds bytes that are not UTF-8: ")


def reader(config):
    return label_reader(config, "t", task_type("class"))


def test_a_column_that_nobody_asks_for_may_be_bytes(tmp_path):
    columns = {name: pyarrow.array(["0", "1", "0"]) for name in ("sentence", "label", "id")}
    write(tmp_path, **columns, picture=pyarrow.array([ODD] * 3), broken=not_utf8())
    config = make(tmp_path, {"train": "x.parquet"}, "classification")
    assert load_rows(config, "t", "train", reader(config)).labels.tolist() == [0, 1, 0]


@pytest.mark.parametrize("missing", [None, float("nan")])
def test_a_missing_text_is_empty_with_a_warning(missing, tmp_path, capsys):
    texts = ["0", None, "1"] if missing is None else [0.5, missing, 1.5]
    file = write(tmp_path, sentence=pyarrow.array(texts), label=["0", "1", "0"], id=["a", "b", "c"])
    config = make(tmp_path, {"train": "x.parquet"}, "classification")
    assert load_rows(config, "t", "train", reader(config)).texts[1] == ("",)
    said = f"{file}: 1 without sentence (null), the first one is row 2: an empty text is used\n"
    assert capsys.readouterr().err == f"warning: {said}"


def test_a_time_that_python_cannot_hold_is_text(tmp_path):
    far, near = read_parquet(write(tmp_path, a=pyarrow.array([2**62, 1], pyarrow.timestamp("us"))))[
        "a"
    ]
    assert isinstance(far, str) and str(near) == "1970-01-01 00:00:00.000001"


def test_a_file_that_is_not_parquet(tmp_path):
    (tmp_path / "x.parquet").write_bytes(b"PAR1" + b"\0" * 20 + b"PAR1")
    assert "x.parquet: not a readable Parquet file: " in refusal(
        read_parquet, tmp_path / "x.parquet"
    )


def test_times_of_nanoseconds_are_not_merged(tmp_path):
    times = pyarrow.array([1, 2, None], pyarrow.time64("ns"))
    ones = read_parquet(write(tmp_path, a=times))["a"]
    assert ones == ["00:00:00.000000001", "00:00:00.000000002", None]


@pytest.mark.parametrize(
    "label",
    [
        pyarrow.array([[b"a"], [ODD], [b"c"]]),
        pyarrow.array(
            [[("a", 1)], [("b", 2)], []], pyarrow.map_(pyarrow.string(), pyarrow.int64())
        ),
    ],
)
def test_items_of_a_list_that_are_no_labels_are_refused(label, tmp_path):
    columns = {name: pyarrow.array(["0", "1", "0"]) for name in ("sentence", "id")}
    write(tmp_path, **columns, label=label)
    config = make(tmp_path, {"train": "x.parquet"}, "multi_label")
    found = refusal(label_reader, config, "t", task_type("labels"))
    assert ": label is [" in found and found.endswith("expected a list of labels")


NARROW = [0.1, None, 5.2, 3.0, 1e-9, 16777216.0, float("inf")]


@pytest.mark.parametrize(
    "kind",
    [
        pyarrow.float32(),
        pyarrow.list_(pyarrow.float32()),
        pyarrow.large_list(pyarrow.list_(pyarrow.float32())),
        pyarrow.list_(pyarrow.float32(), 1),
    ],
)
def test_a_narrow_number_is_the_shortest_one(kind, tmp_path):
    """As `str(numpy.float32(0.1))`; its digits in float64 would be another class name."""

    def nested(number, kind):
        return [nested(number, kind.value_type)] if hasattr(kind, "value_type") else number

    cells = [nested(number, kind) for number in NARROW]
    assert read_parquet(write(tmp_path, a=pyarrow.array(cells, kind)))["a"] == cells


def test_other_narrow_numbers(tmp_path):
    half = pyarrow.array(np.array([0.1, 2.5], np.float16))
    repeated = pyarrow.array([0.1, 0.1], pyarrow.float32()).dictionary_encode()
    wide = pyarrow.array([np.float64(np.float32(0.1)), 0.1])
    tensor = pyarrow.fixed_shape_tensor(pyarrow.float32(), [2])  # a picture: it is not changed
    vectors = pyarrow.array([[0.5, 1.0]] * 2, pyarrow.list_(pyarrow.float32(), 2))
    columns = {"half": half, "repeated": repeated, "wide": wide}
    picture = pyarrow.ExtensionArray.from_storage(tensor, vectors)
    result = read_parquet(write(tmp_path, **columns, picture=picture))
    assert list(map(list, result.pop("picture"))) == [[0.5, 1.0]] * 2
    assert result == {
        "half": [0.1, 2.5], "repeated": [0.1, 0.1], "wide": [0.10000000149011612, 0.1],
    }  # fmt: skip


@pytest.mark.parametrize("head", ["classification", "regression"])
def test_a_narrow_label_is_named_as_it_was_written(head, tmp_path):
    label = pyarrow.array([0.1, 0.9, 0.1], pyarrow.float32())
    columns = {name: pyarrow.array(["0", "1", "2"]) for name in ("sentence", "id")}
    write(tmp_path, **columns, label=label)
    data = {"train": "x.parquet"} | ({"label_range": [0.1, 0.9]} if head == "regression" else {})
    config = make(tmp_path, data, head)
    made = label_reader(config, "t", task_type("number" if head == "regression" else "class"))
    labels = load_rows(config, "t", "train", made).labels.tolist()
    assert (made.names, labels) in [(("0.1", "0.9"), [0, 1, 0]), ((), [0.1, 0.9, 0.1])]


@pytest.mark.parametrize("value", [None, math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("unlabelled", [[""], [], [-1]])
def test_a_missing_number_is_a_missing_label(value, unlabelled, tmp_path):
    columns = {"sentence": ["a", "b", "c"], "label": [1.0, value, 0.0], "id": ["0", "1", "2"]}
    write(tmp_path, **columns)
    data = {"train": "x.parquet", "unlabelled": unlabelled}
    for head, classes in (("class", [1, 0]), ("labels", [[0, 1], [1, 0]])):
        config = make(tmp_path, data, "classification")
        result = label_reader(config, "t", task_type(head))
        rows = load_rows(config, "t", "train", result)
        assert (result.names, rows.gold.tolist(), rows.unlabelled_dropped) == (
            ("0", "1"),
            classes,
            1,
        )
