"""``encoder.kernels: compiled`` in complete runs."""

import pytest

import run_multitask
from multitask import load
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
