"""Tasks of words, of answers and of several choices on two processes."""

import json

import pytest
from safetensors.torch import load_file

from tests.conftest import save_tiny_encoder
from tests.support.choices_run import write_choices
from tests.support.processes import check_two_processes
from tests.support.token_run import (
    asked,
    nested,
    token_config,
    without_answers,
    write_token_files,
)

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
def test_a_threshold_from_the_holdout(encoder, tmp_path):
    """Each rank chooses it from the output of all ranks, and scores dev with it."""
    for seed, (split, size) in enumerate((("train", 100), ("dev", 9))):
        rows = without_answers(asked(size, seed))
        (tmp_path / f"qa-{split}.jsonl").write_text(json.dumps(nested(rows)))
    more = ["tasks.qa.head.no_answer=true", "tasks.qa.data.test=null", "training.holdout=0.2"]
    command = [str(token_config(tmp_path, encoder, tmp_path, tasks=("qa",))), *changes("qa"), *more]
    check_two_processes(command, tmp_path, {"qa": "f1"})
    weights = [*tmp_path.glob("*/weights/*.safetensors")]
    one, other = (load_file(file)["tasks.qa.head.null_threshold"] for file in weights)
    assert one != 0 and one.item() == pytest.approx(other.item(), abs=1e-3)


@pytest.mark.slow
def test_several_choices(encoder, tmp_path):
    command = [str(write_choices(tmp_path, encoder, train=40, dev=9)), *changes("ending")]
    check_two_processes(command, tmp_path, {"ending": "accuracy"})
