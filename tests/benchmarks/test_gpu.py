"""The benchmark of a GPU, as a toy on a CPU: every table, and rows that cannot be measured."""

import re
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, gpu_bench, gpu_checks, gpu_steps, synthetic
from multitask.utils.errors import UserError
from tools.benchmark_tables import read_rows


@pytest.mark.slow
def test_the_toy_prints_every_table(monkeypatch, capsys, tmp_path):
    monkeypatch.setattr("sys.argv", ["gpu", "--toy"])
    gpu.main()
    printed = tmp_path / "gpu.md"
    printed.write_text(capsys.readouterr().out)
    rows = read_rows(printed)
    for title, (header, _) in gpu.TABLES.items():
        assert f"\n{title}:\n" in printed.read_text()
        assert any(tuple(row) == header for row in rows), title
    needed = ("accelerate", "sentence_transformers", "torchjd")
    if all(map(find_spec, needed)):
        assert "skipped" not in printed.read_text()
    assert {row["precision"] for row in rows if "precision" in row} == set(gpu.PRECISIONS)
    results = {row["check"]: row["result"] for row in rows if "check" in row}
    assert [r for r in results.values() if r == "the same bits"] == ["the same bits"] * 2
    assert re.fullmatch(r"\d+\.\d\d s, \d+\.\d\d GiB", results["a checkpoint"])


def test_without_a_card_one_line_says_so(monkeypatch):
    monkeypatch.setattr("sys.argv", ["gpu"])
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    with pytest.raises(SystemExit, match="no CUDA card here; `--toy` runs on a CPU"):
        gpu.main()


def raising(error: Exception):
    def make() -> list[str]:
        raise error

    return make


def test_a_row_that_cannot_be_measured_says_why():
    cpu = torch.device("cpu")
    bench = gpu_bench.Bench(gpu_bench.TOY, cpu, Path(), Path(), {})
    assert bench.row(["a", "b"], 4, lambda: ["1", "2"]) == ["a", "b", "1", "2"]
    for make, needs, reason in (
        (lambda: ["1"], "no_such_package", "no_such_package is not installed"),
        (raising(torch.OutOfMemoryError("CUDA")), "torch", "out of memory"),
        (raising(UserError("one clear line")), "torch", "one clear line"),
    ):
        assert bench.row(["a"], 4, make, needs) == ["a", f"skipped: {reason}", "", ""]
    late = replace(bench, began=time.monotonic() - gpu_bench.LIMIT - 1)
    assert late.row(["a"], 3, lambda: ["1", "2"]) == ["a", "skipped: no time was left", ""]


def test_launches_and_waits_are_the_calls_of_cuda():
    per_step = {"cudaLaunchKernel": 3, "cuLaunchKernelEx": 1, "cudaMemcpyAsync": 2,
                "cudaMemsetAsync": 1, "cudaStreamSynchronize": 1, "aten::mm": 9}  # fmt: skip
    names = {name: gpu_steps.TURN * count for name, count in per_step.items()}
    # one more, by which the profiler ends
    assert gpu_steps.counted({**names, "cudaDeviceSynchronize": 1}) == (7, 1)
    assert gpu_steps.counted({"aten::mm": 9}) == (None, None)


def test_weights_that_differ_are_noticed():
    one = {"a": torch.zeros(2), "b": torch.ones(2)}
    assert gpu_checks.apart(one, {**one}) == "the same bits"
    other = {**one, "b": torch.tensor([1.0, 1.002])}
    assert gpu_checks.apart(one, other) == "weights differ by at most 2e-03"


def test_rows_are_as_long_as_the_courses(tmp_path):
    from transformers import AutoTokenizer

    from benchmarks.course_batches import read_tokens

    directory = synthetic.write_rows(tmp_path / "data", 400)
    name = str(synthetic.write_encoder(tmp_path / "encoder", "toy"))
    tokens = read_tokens(directory, AutoTokenizer.from_pretrained(name), 400)
    for task, rows in tokens.items():
        lengths = torch.tensor([[len(side) for side in row] for row in rows], dtype=torch.float)
        wanted = torch.tensor(synthetic.LENGTHS[task], dtype=torch.float)
        assert wanted[0] <= lengths.min() and lengths.max() <= wanted[-1]
        assert lengths.median() == pytest.approx(wanted[10], abs=2)
        if task in synthetic.ALIKE:
            correlation = lengths.T.corrcoef()[0, 1]
            assert correlation == pytest.approx(synthetic.ALIKE[task], abs=0.15)
