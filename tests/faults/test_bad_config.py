"""A bad config at the command line: exit code 2 and one line that says what is wrong and where."""

import pytest

from tests.conftest import ROOT
from tests.support.messages import complaint

PRESET = ROOT / "configs" / "cs224n.yaml"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: [1, 2\nseed: 3\n", "bad.yaml:2: malformed YAML: "),
        ("tasks:\n\tsst: 1\n", "bad.yaml:2: malformed YAML: "),
        ("seed: 3\n", "bad.yaml:1: the key 'tasks' is missing"),
        ("extends: none.yaml\n", "bad.yaml:1: extends: no such file: "),
        ("extends: cs224n.yaml\ntrainin: {}\n", "bad.yaml:2: trainin: unknown key (did you mean "),
    ],
)
@pytest.mark.parametrize("command", ["train", "check"])
def test_yaml_file(text, message, command, capsys, tmp_path):
    (tmp_path / "cs224n.yaml").write_text(PRESET.read_text())
    (tmp_path / "bad.yaml").write_text(text)
    line = complaint(capsys, command, tmp_path / "bad.yaml", f"output_dir={tmp_path / 'run'}")
    assert line.startswith(f"{tmp_path}/{message}")
    assert not (tmp_path / "run").exists()


def test_missing_config_file(capsys):
    line = complaint(capsys, "configs/nowhere.yaml")
    assert line == "configs/nowhere.yaml: cannot read the config file: No such file or directory"


@pytest.mark.parametrize(
    ("override", "part"),
    [
        ("tasks.sst.pooling=men", "'mean'"),
        ("tasks.sst.metric=acuracy", "accuracy"),
        ("tasks.sst.pooling.k=3", "has no option 'k'"),
        ("tasks.qqp.head.feature=[u]", "'features'"),
        ("tasks.qqp.head.features=[w]", "abs_diff"),
        ("tasks.sts.head.linear=no", "true or false"),
        ("tasks.sst.projection={name: linear, output_dim: -2}", "at least 1"),
        # a head that cannot take the task's input, or does not have the metric
        ("tasks.sst.head=cosine_regression", "`input: siamese`"),
        ("tasks.qqp.input=cross", "`input: siamese`"),
        ("tasks.qqp.head=binary", "`input: single`"),
        ("tasks.sts.metric=accuracy", "pearson"),
        ("tasks.sts.data.label_range=null", "label_range"),
        ("tasks.qqp.data.labels=[a, b, c]", "2 classes"),
        ("tasks.sst.max_length=65", "64 positions"),
        ("device=cuda:99", "'cuda:99'"),
        ("tasks.sst.projection=mlp_batchnorm", "`mlp`"),
        ("data_dir=~nobody-of-that-name/data", "no home directory"),
        ("tasks.sst.share_head=[qqp]", "tasks.sst.share_head: expected text"),
        ("tasks.sst.data.same_rows_as=[qqp]", "tasks.sst.data.same_rows_as: expected text"),
        ("tasks.new={share_head: sst, data: foo.csv}", "tasks.new.data: "),
        ("device=cdua", "'cdua'"),
        ("training.surgery_every=2", "`gradient_surgery`"),
        ("tasks.qqpp=null", "'qqp'"),
        ("seed", "key.path=value"),
    ],
)
def test_configured_value(override, part, refused):
    line = refused(override)
    assert part in line
    # the place that holds the value; a head that no longer fits is named where it stands
    place = f"{PRESET}:" if override == "tasks.qqp.input=cross" else "command line: "
    assert line.startswith(place)


@pytest.mark.parametrize("name", ["mgda", "aligned_mtl"])
def test_a_surgery_that_shortens_gradients_takes_every_step(refused, name):
    pytest.importorskip("torchjd")
    more = (f"training.gradient_surgery={name}", "training.combine=joint")
    line = refused(*more, "training.surgery_every=2")
    assert f"training.surgery_every: {name} shortens the gradient" in line


def test_cuda_without_one(refused, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refused("device=cuda") == (
        "command line: device=cuda: device: this machine has no 'cuda' device: use `device: auto` "
        "or `cpu`"
    )


def test_more_processes_than_gpus(refused, monkeypatch):
    """The first process says it, which has a GPU itself."""
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 4), ("LOCAL_WORLD_SIZE", 4)):
        monkeypatch.setenv(name, str(value))
    assert "4 processes, and this machine has 2 GPUs: start one for each" in refused("seed=1")
