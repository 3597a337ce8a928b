"""The names that other trainers have for our keys: each leads to a key that there is."""

import re

import pytest

from multitask.config.synonyms import SYNONYMS, keys_called
from multitask.config.validation_error import full_keys

SKELETON = {  # the flags of the course's skeleton
    "fine-tune-mode": "encoder.freeze",
    "option": "encoder.freeze",
    "use_gpu": "device",
    "hidden_dropout_prob": "encoder.dropout",
    "filepath": "output_dir",
    "sst_train": "tasks.sst.data.train",
    "para_dev": "tasks.qqp.data.dev",
    "sts_test": "tasks.sts.data.test",
}
OTHERS = {
    "learning_rate": "training.lr",
    "num_train_epochs": "training.epochs",
    "max_seq_length": "defaults.max_length",
    "model_name_or_path": "encoder.name",
    "warmup_ratio": "training.warmup",
    "per_device_train_batch_size": "defaults.batch_size",
    "Learning-Rate": "training.lr",
}


@pytest.mark.parametrize("key", SYNONYMS)
def test_the_key_exists_and_is_called_so_by_nobody_here(key):
    name = re.split(r"[= ]", key)[0]
    assert name in full_keys(name.rpartition(".")[2])
    for word in SYNONYMS[key].split():
        assert key in full_keys(word), "it is the name of a key: leave it out"


@pytest.mark.parametrize(("word", "key"), [*SKELETON.items(), *OTHERS.items()])
def test_other_names(word, key):
    assert keys_called(word)[0].partition("=")[0] == key


def test_no_name_of_a_key_is_unknown():
    assert keys_called("wheels") == []
