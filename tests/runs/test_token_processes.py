"""Tasks of words, of answers and of several choices on two processes."""

import pytest

from tests.conftest import save_tiny_encoder
from tests.support.choices_run import write_choices
from tests.support.processes import check_two_processes
from tests.support.token_run import token_config, write_token_files

# without dropout, whose noise each rank draws for itself; 5 rows do not halve
SETTINGS = ("dropout=0", "batch_size=5", "accumulation=2")


@pytest.fixture
def encoder(tmp_path):
    return save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)


def changes(*tasks: str) -> list[str]:
    of_tasks = [f"tasks.{task}.{setting}" for task in tasks for setting in SETTINGS]
    return ["encoder.dropout=0", *of_tasks]


@pytest.mark.slow
def test_words_and_answers(encoder, tmp_path):
    files = write_token_files(tmp_path, train=40, dev=9)
    windows = ["tasks.qa.max_length=13", "tasks.qa.stride=3"]
    command = [str(token_config(tmp_path, encoder, files)), *changes("ner", "qa"), *windows]
    check_two_processes(command, tmp_path, {"ner": "f1", "qa": "f1"})


@pytest.mark.slow
def test_several_choices(encoder, tmp_path):
    command = [str(write_choices(tmp_path, encoder, train=40, dev=9)), *changes("ending")]
    check_two_processes(command, tmp_path, {"ending": "accuracy"})
