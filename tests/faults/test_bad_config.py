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
    ("override", "message"),
    [
        ("tasks.sst.pooling=men", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.sst.head=clasification", "unknown head 'clasification' (did you mean 'classif"),
        ("tasks.sst.metric=acuracy", "has the metrics accuracy, macro_f1, mcc, not 'acuracy'"),
        ("tasks.sst.pooling.k=3", "pooling 'cls' has no option 'k' (it has no options)"),
        (
            "tasks.qqp.head.feature=[u]",
            "head 'siamese_paraphrase' has no option 'feature' (did you mean 'features'?)",
        ),
        ("tasks.qqp.head.features=[w]", "features must be a list out of u, v, abs_diff, product"),
        ("tasks.sts.head.linear=no", "linear must be true or false, not 'no'"),
        ("training.sampler={name: round_robin, seed: 3}", "has no option 'seed'"),
        ("tasks.sst.projection={name: linear, output_dim: -2}", "must be at least 1, not -2"),
        # a head that cannot take the task's input, or does not have the metric
        (
            "tasks.sst.head=cosine_regression",
            "head 'cosine_regression' does not read `input: single`: it needs `input: siamese`",
        ),
        (
            "tasks.qqp.input=cross",
            "head 'siamese_paraphrase' does not read `input: cross`: it needs `input: siamese`",
        ),
        (
            "tasks.qqp.head=binary",
            "head 'binary' does not read `input: siamese`: it needs `input: single` or ",
        ),
        ("tasks.sts.metric=accuracy", "has the metrics pearson, spearman, not 'accuracy'"),
        ("tasks.sts.data.label_range=null", "needs `label_range: [low, high]`"),
        ("tasks.qqp.data.labels=[a, b, c]", "the head takes 2 classes, not 3"),
        ("tasks.sst.max_length=65", "65 tokens, but the encoder has 64 positions"),
        ("device=cuda:99", "this machine has no 'cuda:99' device: use `device: auto` or `cpu`"),
        ("tasks.sst.projection=mlp_batchnorm", "as one row has no variance: take `mlp`"),
        ("data_dir=~nobody-of-that-name/data", "no home directory for '~nobody-of-that-name/data'"),
        ("tasks.sst.share_head=[qqp]", "tasks.sst.share_head: expected text, not ['qqp']"),
        ("tasks.sst.share_pooling=[qqp]", "tasks.sst.share_pooling: expected text"),
        ("tasks.sst.data.same_rows_as=[qqp]", "tasks.sst.data.same_rows_as: expected text"),
        ("tasks.new={share_head: sst, data: foo.csv}", "tasks.new.data: "),
        ("device=cdua", "no such device: 'cdua' (auto, cpu, cuda, mps)"),
        ("training.surgery_every=2", "there is no `gradient_surgery`"),
        ("seed", "expected key.path=value"),
    ],
)
def test_configured_value(override, message, refused):
    line = refused(override)
    assert message in line
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


@pytest.mark.parametrize("name", ["qqpp", "nope"])
def test_a_task_to_leave_out_that_is_not_there(refused, name):
    line = refused(f"tasks.{name}=null")
    assert f"tasks.{name}: no such task to leave out" in line
    assert ("did you mean 'qqp'?" in line) == (name == "qqpp")
