"""YAML text to values: scalars, comments, what is dumped, what is malformed or too much."""

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from multitask.config.yaml_merge import load_tree, read_override
from multitask.config.yaml_reader import dump_override, dump_yaml, node_of
from multitask.utils.errors import UserError
from tests.support.messages import tree_refusal


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("2e-5", 2e-5),
        ("1E3", 1000.0),
        ("-1.5", -1.5),
        (".5", 0.5),
        ("1.", 1.0),
        (".inf", math.inf),
        ("5", 5),
        ("-3", -3),
        ("010", 10),
        ("09", 9),
        ("true", True),
        ("False", False),
        ("", None),
        ("~", None),
        ("null", None),
        ("no", "no"),
        ("yes", "yes"),
        ("on", "on"),
        ("'5'", "5"),
        ("1_000", "1_000"),
        ("12:30", "12:30"),
        ("2020-01-01", "2020-01-01"),
        ("0x1F", "0x1F"),
    ],
)
def test_scalars_are_read_as_in_yaml_1_2(text, value, files):
    files(a=f"key: {text}\n")
    for result in (
        load_tree("a.yaml").value["key"],
        load_tree("a.yaml", [f"key={text}"]).value["key"],
    ):
        assert result == value
        assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("# a comment", "# a comment"),
        ("runs/try #2", "runs/try #2"),
        ("#1 String", "#1 String"),
        ("a#b", "a#b"),
        ("*.csv", "*.csv"),
        ("a: b", "a: b"),
        ("!!str 5", "!!str 5"),
        ("&runs try", "&runs try"),
        ("--- runs", "--- runs"),
        ("a\nb", "a\nb"),
        ("'&x'", "&x"),
        # a separator alone
        *((sign, sign) for sign in "|>-:?,%@`\t"),
        (" | ", "|"),
        ('"a\\nb"', "a\nb"),
        ("[a,\n b]", ["a", "b"]),
    ],
)
def test_an_override_without_brackets_and_quotes_is_one_value(text, value, files):
    files(a="key: 0\n")
    assert load_tree("a.yaml", [f"key={text}"]).value["key"] == value


LABELS = {
    "labels: [007, 7, 1e2]": ["007", "7", "1e2"],
    "labels: {007: 1.50, 7: 2}": {"007": "1.50", "7": "2"},
    "where: {code: 007, no: 1_0}": {"code": "007", "no": "1_0"},
    "unlabelled: [-1, 1e2]": ["-1", "1e2"],
    "padding_label: 00": "00",
}


@pytest.mark.parametrize("text", LABELS)
def test_a_label_is_the_text_as_written(text, files):
    key, _, value = text.partition(": ")
    files(a=f"tasks: {{t: {{data: {{{text}, max: 007}}}}}}\ndefaults: {{max_length: 010}}\n")
    override = load_tree("a.yaml", [f"tasks.t.data.{key}={value}"])
    for tree in (load_tree("a.yaml"), override):
        assert tree.value["tasks"]["t"]["data"] == {key: LABELS[text], "max": 7}
        assert tree.value["tasks"]["t"]["max_length"] == 10


def test_a_comment_of_a_file_is_one(files):
    files(a="key: # a comment\nother: x # more\n")
    assert load_tree("a.yaml").value == {"key": None, "other": "x"}


@pytest.fixture(scope="module")
def scratch(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("yaml") / "dumped.yaml"


# what YAML gives a meaning, changes, drops or refuses when it is written as it is
SPECIAL = [*map(chr, range(0x21)), *map(chr, range(0x7F, 0xA1)), *"\u2028\u2029\ufeff\ufffe\uffff"]
SIGNS = ["---", "...", "- ", "? ", ": ", " #", "&a", "*a", "!t", "%Y", *"|>@`'\"{}[],\\~=#", "<<"]
ODD = ["no", "on", "True", "null", ".inf", "1_000", "0x1f", "12:30", "2020-01-01", "\ue000", "😀"]
LONG = ["x" * 2_000, "x y " * 500]  # a line is folded; a long key has another form
PIECES = st.one_of(st.sampled_from(SPECIAL), st.sampled_from([*SIGNS, *ODD, *LONG]), st.text())
WORDS = st.one_of(
    st.lists(PIECES, max_size=6).map("".join),
    st.from_regex(r"\A[-+0-9.eE_:~]{1,6}\Z"),  # text that looks like a number
)
NUMBERS = st.integers() | st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.one_of(WORDS, NUMBERS, st.booleans(), st.none())


@pytest.mark.parametrize("sign", [*SPECIAL, *SIGNS, *ODD, *LONG], ids=lambda sign: ascii(sign)[:9])
def test_each_special_text_is_read_back(sign, scratch):
    for text in (sign, f"a{sign}b", f" {sign}", f"{sign} ", f"a\n{sign}\n", f"{sign}: #{sign}"):
        value = {"key": {text: text, f"{text}2": [text, {text: None}]}}
        scratch.write_text(dump_yaml(value), encoding="utf-8", newline="")
        assert load_tree(scratch).value == value
        assert read_override(dump_override("key", value["key"]))[1].value == value["key"]


@given(value=st.dictionaries(WORDS, SCALARS | st.lists(SCALARS), max_size=3))
def test_what_is_dumped_is_read_back(value, scratch):
    value.pop("extends", None), value.pop("defaults", None)
    scratch.write_text(dump_yaml(value), encoding="utf-8", newline="")
    assert load_tree(scratch).value == value


@given(value=SCALARS | st.lists(SCALARS) | st.dictionaries(WORDS, SCALARS | st.lists(SCALARS)))
def test_an_override_that_is_dumped_is_read_back(value):
    key, tree = read_override(dump_override("tasks.sst.head", value))
    assert (key, tree.value) == ("tasks.sst.head", value)


@pytest.mark.parametrize(
    ("text", "start", "part"),
    [
        ("x: 1\ny: [1, 2\nz: 3\n", "a.yaml:3: ", "malformed YAML"),
        ("x: 1\ny: z: 3\n", "a.yaml:2: ", "malformed YAML"),
        ("x:\n\ty: 1\n", "a.yaml:2: ", "a tab"),
        ("x:\n  y: 1\n\tz: 1\n", "a.yaml:3: ", "a tab"),
        ("ü: é\nx:\n  y: 1\n  \tz: 1\n", "a.yaml:4: ", "a tab"),
        ("x:\n\t- 1\n", "a.yaml:2: ", "a tab"),
        ("x: 1\n---\nx: 2\n", "a.yaml:2: ", "malformed YAML"),
        ("x: 1\ny: \0\n", "a.yaml: ", "malformed YAML"),
        ("x: !!int seven\n", "a.yaml:1: ", "malformed YAML"),
        ("x: 1\ny: !!python/object:os.system z\n", "a.yaml:2: ", "malformed YAML"),
        ("x: &loop {y: *loop}\n", "a.yaml: ", "contains itself"),
        ("x: 1\nm:\n  k: 1\n  j: 2\n  k: 3\n", "a.yaml:5: m.k: ", "is given twice"),
        ("x: 1\n[y]: 2\n", "a.yaml:2: ", "a key must be a word"),
        ("- x\n- y\n", "a.yaml:1: ", "expected keys and values"),
        ("just words\n", "a.yaml:1: ", "expected keys and values"),
        ("defaults: 5\ntasks: {t: {}}\n", "a.yaml:1: defaults: ", "expected the keys of a task"),
    ],
)
def test_malformed_file_names_file_and_line(text, start, part, files):
    files(a=text)
    message = tree_refusal()
    assert message.startswith(start)
    assert part in message


def test_aliases_are_counted_as_often_as_they_are_used(files):
    levels = "\n".join(f"l{i}: &l{i} [{', '.join([f'*l{i - 1}'] * 10)}]" for i in range(1, 10))
    files(a=f"l0: &l0 [x]\n{levels}\n")
    assert "more than 50,000 values, aliases included" in tree_refusal()


@pytest.mark.parametrize(
    "text", ["!!bool x", "!!timestamp x", "!!float x", "!!int ''", '"\\ud83d"', "[" * 5000]
)
def test_a_value_that_yaml_itself_cannot_build_is_one_line(text, files):
    files(a=f"x: 1\ny: {text}\n")
    assert tree_refusal().startswith("a.yaml:2: malformed YAML: ")


def test_a_key_is_the_text_as_written(tmp_path):
    file = tmp_path / "a.yaml"
    file.write_text("007: a\n5E2: b\n1.50: c\ntrue: d\n+1: e\n")
    assert list(load_tree(file).value) == ["007", "5E2", "1.50", "true", "+1"]


def test_values_of_python_are_those_of_yaml():
    values = {"a": {1: (1, 2.5)}, "b": Path("x/y"), "c": [True, None, "1e5"], "d": np.float64(0.5)}
    plain = node_of(values, "config").plain()
    assert plain == {"a": {"1": [1, 2.5]}, "b": "x/y", "c": [True, None, "1e5"], "d": 0.5}
    assert type(plain["d"]) is float and type(plain["c"][0]) is bool


LOOP: dict = {}
LOOP["a"] = LOOP
DEEP: list = []
for _ in range(10_000):
    DEEP = [DEEP]


@pytest.mark.parametrize(
    "values",
    [{"a": {"b": [1, np.arange(2)]}}, {(1, 2): 1}, {"a": "\udcff"}, {"\udcff": 1}, LOOP, DEEP],
)
def test_values_that_yaml_has_not(values):
    with pytest.raises(UserError, match=r"^config: "):
        node_of(values, "config")
