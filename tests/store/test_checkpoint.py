"""The state of a checkpoint says which step and which run it belongs to."""

import json

import pytest

from multitask.store.checkpoint import Damaged, checksum, is_foreign, read_state


def write(file, **values):
    saved = {"format": 5, "run": "one", "parts": {"progress": {"step": 7}}} | values
    file.write_text(json.dumps(saved | {"checksum": checksum(saved)}))
    return file


@pytest.fixture
def file(tmp_path):
    return tmp_path / "state.json"


def test_the_state_of_this_step_and_run_is_its_own(file):
    assert read_state(write(file))["run"] == "one"
    assert not is_foreign(file, 7, "one")


@pytest.mark.parametrize(("step", "run"), [(8, "one"), (7, "another"), (8, None)])
def test_another_step_or_run_is_foreign(step, run, file):
    assert is_foreign(write(file), step, run)


@pytest.mark.parametrize(("saved", "run"), [(None, "one"), ("one", None), (None, None)])
def test_a_run_that_is_not_known_is_any(saved, run, file):
    assert not is_foreign(write(file, run=saved), 7, run)


@pytest.mark.parametrize("text", ["", "{}", "[]", '{"format": 5, "parts": {}}'])
def test_damage_is_not_foreign(text, file):
    """The run sets it aside, as it may be its own."""
    file.write_text(text)
    assert not is_foreign(file, 7, "one")
    with pytest.raises(Damaged):
        read_state(file)


def test_a_flipped_step_is_damage_and_not_foreign(file):
    write(file)
    file.write_text(file.read_text().replace('"step": 7', '"step": 6'))
    assert not is_foreign(file, 7, "one")
