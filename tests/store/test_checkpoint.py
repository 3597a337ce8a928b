"""The state of a checkpoint says which step and which run it belongs to."""

import pytest

from multitask.store.checkpoint import Damaged, read_sealed, read_state, write_sealed, write_state


@pytest.fixture
def checkpoint(tmp_path):
    place = tmp_path / "step-00000007"
    place.mkdir()
    write_state(place, {"run": "one", "step": 7})
    return place


def test_the_state_of_this_step_and_run_is_read(checkpoint):
    assert read_state(checkpoint, "one")["step"] == 7
    with pytest.raises(Damaged, match="of another run or step"):
        read_state(checkpoint, "another")
    with pytest.raises(Damaged, match="of another run or step"):
        read_state(checkpoint.rename(checkpoint.with_name("step-00000008")), "one")


@pytest.mark.parametrize("text", [None, "", "{}", "[]", "null", '{"checksum": 1}', "[" * 10**5])
def test_what_is_no_such_file_is_damaged(text, tmp_path):
    file = tmp_path / "state.json"
    if text is not None:
        file.write_text(text)
    with pytest.raises(Damaged, match=r"state\.json is damaged"):
        read_sealed(file)


def test_a_changed_value_is_damage(tmp_path):
    file = tmp_path / "x.json"
    write_sealed(file, {"step": 7, "rate": 0.1})
    assert read_sealed(file) == {"step": 7, "rate": 0.1}
    file.write_text(file.read_text().replace("7", "6"))
    with pytest.raises(Damaged, match="its checksum is another one"):
        read_sealed(file)
