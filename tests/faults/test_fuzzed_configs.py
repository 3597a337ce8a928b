"""Configs that nobody would write: each is read, or refused in one line; nothing hangs.

``make faults`` tries 2,000; the default suite some hundred.
"""

import copy
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.config import load_config
from multitask.utils.errors import UserError
from tests.conftest import ROOT

BASE = yaml.safe_load((ROOT / "configs" / "cs224n.yaml").read_text())
SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.floats(),
    st.text(max_size=8),
    st.sampled_from(
        ["~/x", "~nobody/x", "\0", "*", "../..", "1e400", "mean", "cls", "sst", "auto", "", "-1"]
    ),
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner),
    max_leaves=6,
)
# raw YAML, with the signs that its grammar gives a meaning
RAW = st.text(alphabet="abx01.-:,[]{}&*!|>%@`'\"#?~ \n\t<=\\\0\x85\u2028", max_size=40)
TAGS = st.sampled_from(["!!bool", "!!int", "!!float", "!!timestamp", "!!binary", "!!set", "!x"])


def paths(value: object, path: tuple = ()) -> list[tuple]:
    """The paths of all values inside nested dicts."""
    inside = value.items() if isinstance(value, dict) else ()
    return [path, *(result for key, item in inside for result in paths(item, (*path, key)))]


PATHS = [path for path in paths(BASE) if path and all(isinstance(key, str) for key in path)]
# keys that the base leaves to their defaults
MORE = [
    ("encoder", "dropout"),
    ("encoder", "freeze"),
    ("training", "stages"),
    ("training", "gradient_surgery"),
    ("stages",),
    ("init_from",),
    ("tasks", "sst", "smart"),
    ("tasks", "sst", "share_head"),
    ("tasks", "qqp", "data", "same_rows_as"),
    ("tasks", "sts", "data", "texts_of"),
    ("tasks", "sts", "data", "where"),
    ("tasks", "sst", "data", "labels"),
    ("defaults",),
]


@st.composite
def changed_configs(draw: st.DrawFn) -> str:
    """The base config with one to three values replaced, as YAML."""
    config = copy.deepcopy(BASE)
    for _ in range(draw(st.integers(1, 3))):
        *parents, key = draw(st.sampled_from([*PATHS, *MORE]))
        place = config
        for parent in parents:
            place = place.setdefault(parent, {}) if isinstance(place, dict) else {}
        if isinstance(place, dict):
            place[key] = draw(VALUES)
    return yaml.safe_dump(config, allow_unicode=True)


@st.composite
def broken_texts(draw: st.DrawFn) -> str:
    """The text of the base config with a piece of raw YAML, or a tag, put in somewhere."""
    text = yaml.safe_dump(BASE)
    place = draw(st.integers(0, len(text)))
    piece = draw(RAW | TAGS.map(lambda tag: f" {tag} "))
    return text[:place] + piece + text[place + draw(st.integers(0, 10)) :]


def check(file: Path, text: str, overrides: list[str]) -> None:
    """The config is read, or refused in one line that names the file or the command line."""
    file.write_text(text, encoding="utf-8", errors="surrogatepass")
    try:
        load_config(file, overrides)
    except UserError as error:
        message = " ".join(str(error).split())
        assert message.startswith((str(file), "command line")), message
        assert "cannot be read: " not in message, message  # no exception that nobody thought of


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("fuzz") / "c.yaml"


def everything(examples: int):
    """Run a test on so many texts and overrides."""
    limits = settings(max_examples=examples, suppress_health_check=list(HealthCheck))
    overrides = st.tuples(st.sampled_from([*PATHS, *MORE]).map(".".join), RAW | SCALARS.map(str))
    return lambda test: limits(
        given(
            text=changed_configs() | broken_texts(),
            overrides=st.lists(overrides.map("=".join), max_size=1),
        )(test)
    )


@everything(150)
def test_a_config_is_read_or_refused_in_one_line(file, count, text, overrides):
    count("fuzzed configs")
    check(file, text, overrides)


@pytest.mark.slow
@everything(2000)
def test_2000_configs_are_read_or_refused_in_one_line(file, count, text, overrides):
    count("fuzzed configs")
    check(file, text, overrides)
