"""Tiny runs to export; read only."""

import pytest

from tests.conftest import save_tiny_encoder
from tests.support.exports import trained


@pytest.fixture(scope="session")
def run_dir(tiny_encoder, course_files, tmp_path_factory):
    """A classifier, a siamese pair with the mean, a cross-encoded number."""
    return trained(
        tmp_path_factory.mktemp("runs") / "plain",
        tiny_encoder,
        course_files,
        "tasks.sst.projection=tanh",
        "tasks.sts.input=cross",
        "tasks.sts.pooling=cls",
        "tasks.sts.head=regression",
        "tasks.sts.projection=bert_pooler",
    )


@pytest.fixture(scope="session")
def special(course_files, tmp_path_factory):
    """On RoBERTa: a classifier, HIRE's pooling, a PAL."""
    return trained(
        tmp_path_factory.mktemp("runs") / "special",
        save_tiny_encoder(tmp_path_factory.mktemp("roberta"), "roberta"),
        course_files,
        "tasks.sst.projection=tanh",
        "tasks.qqp.pooling={name: hire, fusion_layers: 1}",
        "tasks.sts.input=cross",
        "tasks.sts.head=regression",
        "tasks.sts.pooling=mha",
        "tasks.sts.adapter={name: pal, size: 12, heads: 4}",
    )


@pytest.fixture(scope="session")
def special_binary(tiny_encoder, course_files, tmp_path_factory):
    """A cross-encoded paraphrase task."""
    return trained(
        tmp_path_factory.mktemp("runs") / "binary",
        tiny_encoder,
        course_files,
        "tasks.sst=null",
        "tasks.sts=null",
        "tasks.qqp.input=cross",
        "tasks.qqp.pooling=cls",
        "tasks.qqp.projection=tanh",
        "tasks.qqp.head=binary",
        "tasks.qqp.data.labels={0: different, 1: paraphrase}",
    )


@pytest.fixture
def onnx():
    for package in ("onnx", "onnxscript", "onnxruntime"):
        pytest.importorskip(package, reason="an extra of `export`")
