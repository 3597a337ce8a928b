"""Tasks that count words, answers, masks or pairs: two processes take the steps of one."""

import json

import pytest
from safetensors.torch import load_file

from tests.conftest import save_tiny_encoder
from tests.support.choices_run import write_choices
from tests.support.contrastive_run import write_config
from tests.support.masked_lm_run import CONFIG, FAST, tiny
from tests.support.processes import check_two_processes
from tests.support.tiny_bert import save_tiny_mlm
from tests.support.token_run import (
    asked,
    nested,
    token_config,
    without_answers,
    write_token_files,
)

pytestmark = pytest.mark.slow


@pytest.fixture
def encoder(tmp_path):
    return save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)


def changes(*tasks: str, accumulation: int = 2) -> list[str]:
    """Without dropout, whose noise each rank draws for itself; 5 rows do not halve."""
    settings = ("dropout=0", "batch_size=5", f"accumulation={accumulation}")
    of_tasks = [f"tasks.{task}.{setting}" for task in tasks for setting in settings]
    return ["encoder.dropout=0", *of_tasks]


def test_words_and_answers(encoder, tmp_path):
    files = write_token_files(tmp_path, train=40, dev=9)
    windows = ["tasks.qa.max_length=13", "tasks.qa.stride=3"]
    command = [str(token_config(tmp_path, encoder, files)), *changes("ner", "qa"), *windows]
    check_two_processes(command, tmp_path, {"ner": "f1", "qa": "f1"})


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


def test_several_choices(encoder, tmp_path):
    command = [str(write_choices(tmp_path, encoder, train=40, dev=9)), *changes("ending")]
    check_two_processes(command, tmp_path, {"ending": "accuracy"})


def test_masked_words(encoder, course_files, tmp_path):
    command = [CONFIG, *tiny(encoder, course_files), *FAST, *changes("mlm")]
    check_two_processes([*command, "stages=[{tasks: [mlm]}]"], tmp_path, {"mlm": "accuracy"})


@pytest.mark.parametrize("head", ["contrastive", "diffcse"])
def test_views_of_texts_in_chunks(head, encoder, contrastive_files, tmp_path):
    """48 rows in batches of 5 leave rests that do not halve."""
    options, accumulation = {"contrastive": ("", 2), "diffcse": (", rtd_weight: 0.5", 1)}[head]
    if head == "diffcse":
        options += f", generator: {save_tiny_mlm(tmp_path / 'generator')}"
    kind = "triplet" if head == "contrastive" else "single"
    options = f"{{name: {head}, chunk: 3{options}}}"
    file = write_config(
        tmp_path / "c.yaml", encoder, contrastive_files, kind, options, pooling="mean", dropout=0
    )
    command = [file, *changes("views", accumulation=accumulation), "training.epochs=2"]
    check_two_processes(command, tmp_path, {"views": "probability"})
