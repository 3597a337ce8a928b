"""``encoder.kernels``: `compiled` and `auto` in complete runs."""

import pytest

import run_multitask
from multitask import load
from multitask.models.encoders import kernels
from multitask.store.run_directory import RunDirectory
from multitask.utils.names import KERNELS_VARIABLE
from tests.conftest import ROOT
from tests.support.kill import kill_inside
from tests.support.run_files import report_of

pytestmark = [
    pytest.mark.slow,  # a compiler's minute
    pytest.mark.usefixtures("built_kernels"),
]


def test_a_run_names_its_kernels_and_goes_on_with_them(tiny_overrides, tmp_path):
    """A killed run has the numbers of the whole one; torch's operators say nearly the same."""
    command = [str(ROOT / "configs" / "cs224n.yaml"), *tiny_overrides, "encoder.kernels=compiled"]
    command += ["training.max_steps=12", "training.checkpoint_steps=3", "training.eval_steps=6"]
    unbroken, cut = ([*command, f"output_dir={tmp_path / name}"] for name in ("whole", "cut"))
    assert run_multitask.main(unbroken) == 0
    kill_inside("multitask.training.trainer:train_step", "before", 8, cut)
    assert run_multitask.main([*cut, "--resume"]) == 0
    reports = [report_of(tmp_path / name) for name in ("whole", "cut")]
    assert [report["kernels"] for report in reports] == ["compiled"] * 2
    assert "compiled kernels" in (tmp_path / "cut" / "report.md").read_text()
    assert reports[0]["tasks"] == reports[1]["tasks"]
    texts = ["a good film", "not a good film at all"]
    result = [load(tmp_path / "cut", [f"encoder.kernels={kind}"]).encode(texts, task="sts")
             for kind in ("torch", "compiled")]  # fmt: skip
    assert abs(result[0] - result[1]).max() < 0.02 * abs(result[0]).max()


def test_auto_is_saved_and_a_resume_keeps_it_or_refuses(
    tiny_overrides, tmp_path, monkeypatch, capsys
):
    monkeypatch.delenv(KERNELS_VARIABLE, raising=False)
    command = [str(ROOT / "configs" / "cs224n.yaml"), *tiny_overrides]
    command += ["training.max_steps=6", "training.checkpoint_steps=2"]
    kill_inside("multitask.training.trainer:train_step", "before", 4, command)
    run = RunDirectory(tmp_path / "run")
    assert run.load_config().encoder.kernels == "compiled"

    def fail(again=True):
        raise RuntimeError("no compiler")

    def contents():  # without the lock, which has the name of its last owner
        files = [file for file in run.path.rglob("*") if file.is_file() and file != run.lock]
        return {file: file.read_bytes() for file in files}

    before = contents()
    with monkeypatch.context() as patch:
        patch.setattr(kernels, "load_kernels", fail)
        assert run_multitask.main([*command, "--resume"]) == 2
    assert "was started with compiled kernels" in capsys.readouterr().err
    assert before == contents()

    monkeypatch.setenv(KERNELS_VARIABLE, "torch")  # what `auto` would mean for a new run
    assert run_multitask.main([*command, "--resume"]) == 0
    assert run.load_report().kernels == run.load_config().encoder.kernels == "compiled"


def test_processes_with_different_kernels_are_refused(tiny_overrides, monkeypatch, capsys):
    monkeypatch.setattr("multitask.utils.distributed.gather", lambda value: [value, "compiled"])
    assert run_multitask.main([str(ROOT / "configs" / "cs224n.yaml"), *tiny_overrides]) == 2
    assert "some processes have compiled kernels, others torch" in capsys.readouterr().err
