"""A command writes to a directory that is empty or has a result of an earlier command."""

import json

import pytest

from multitask.store.outputs import MARKERS, SWEEPS, check_output
from multitask.utils.errors import UserError


@pytest.mark.parametrize("name", [*MARKERS, *SWEEPS])
def test_an_empty_directory_is_free_and_a_result_of_ours_is_replaced(name, tmp_path):
    check_output(tmp_path)
    check_output(tmp_path / "new")
    (tmp_path / name).write_text(json.dumps({"format": 1}))
    (tmp_path / "table.md").write_text("old")
    check_output(tmp_path)
    check_output(tmp_path, name)


@pytest.mark.parametrize("text", ["mine", "[]", '{"groups": []}', "\udcff"])
def test_a_file_that_only_has_the_name_is_not_ours(text, tmp_path):
    (tmp_path / "comparison.json").write_bytes(text.encode(errors="surrogateescape"))
    with pytest.raises(UserError, match="is not empty"):
        check_output(tmp_path)


def test_another_kind_of_result_and_a_file_are_refused(tmp_path):
    (tmp_path / "paper.json").write_text(json.dumps({"format": 1}))
    with pytest.raises(UserError, match=r"has no grid\.yaml"):
        check_output(tmp_path, "grid.yaml")
    with pytest.raises(UserError, match="is a file"):
        check_output(tmp_path / "paper.json")
