"""How the rows of each task type are read."""

import pytest

from multitask.config.registry import TASK_TYPES, task_type
from multitask.data.by_type import READINGS, reading_of, shares_rows
from multitask.data.load_rows import split_rows
from multitask.tasks.base import NoLabels, RowLabels, WordLabels
from tests.support.data_files import BINARY, make


def test_every_reading_is_of_a_type():
    assert set(READINGS) <= set(TASK_TYPES)


@pytest.mark.parametrize("name", TASK_TYPES)
def test_labels_inside_of_texts_are_marked_and_read_back(name):
    kind = task_type(name)
    how = reading_of(kind)
    assert isinstance(kind, RowLabels | WordLabels | NoLabels)
    assert (how.mark_tokens is not None) == (how.read_output is not None)
    assert (how.mark_tokens is not None) == isinstance(kind, WordLabels)
    assert not shares_rows(kind) or isinstance(kind, RowLabels)


def test_max_dev_rows_leaves_a_test_split_to_hand_in_whole(tmp_path):
    header, rows = "id,sentence,label", [f"{i},text {i},{i % 2}" for i in range(9)]
    for split in ("train", "dev", "labelled"):
        (tmp_path / f"{split}.csv").write_text("\n".join([header, *rows]))
    texts = [f"{i},text {i}" for i in range(9)]
    (tmp_path / "test.csv").write_text("\n".join(["id,sentence", *texts]))

    def sizes(test, **changes):
        config = make(tmp_path, {"test": test}, max_dev_rows=4)
        config = config.model_copy(update=changes)
        splits = ("train", "dev", "test")
        return [len(split_rows(config, "t", split, {"t": BINARY})) for split in splits]

    assert sizes("test.csv") == [9, 4, 9]
    assert sizes("labelled.csv") == [9, 4, 4]
    assert sizes("test.csv", trial=True) == [9, 4, 4]
