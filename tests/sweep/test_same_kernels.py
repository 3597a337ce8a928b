"""All runs of a sweep have the same kernels: the choice is made once and saved."""

import os

import pytest

from multitask.config import load_config
from multitask.sweep import same_kernels
from multitask.sweep.same_kernels import choose_kernels
from multitask.sweep.sweep_directory import Run, SweepDirectory
from multitask.utils.errors import UserError
from multitask.utils.names import KERNELS_VARIABLE
from tests.conftest import ROOT


@pytest.fixture
def runs(tmp_path, monkeypatch):
    """A function: runs of a sweep whose config has these kernels."""
    monkeypatch.setenv(KERNELS_VARIABLE, "")  # so that it is restored
    monkeypatch.delenv(KERNELS_VARIABLE)

    def make(kernels, device="cpu"):
        overrides = [f"encoder.kernels={kernels}", f"device={device}"]
        config = load_config(ROOT / "configs" / "demo.yaml", overrides)
        return [Run("a", 1, tmp_path / "cells" / "a" / "seed-1", config, ())]

    return make


def test_the_choice_is_saved_and_found_again(runs, tmp_path, monkeypatch):
    directory = SweepDirectory(tmp_path)
    monkeypatch.setattr(same_kernels, "ASK", "print('noise'); print('compiled')")
    assert choose_kernels(directory, runs("auto")) == "compiled"
    assert directory.kernels.read_text() == "compiled\n"
    monkeypatch.setattr(same_kernels, "ASK", "raise SystemExit(1)")  # it is not asked again
    assert choose_kernels(directory, runs("auto")) == "compiled"
    assert KERNELS_VARIABLE not in os.environ


def test_the_choice_is_a_key_of_a_run_that_has_none(runs):
    (run,) = runs("auto")
    chosen = run.with_kernels("compiled")
    assert chosen.config.encoder.kernels == "compiled"
    assert chosen.arguments == ("encoder.kernels=compiled",)
    (own,) = runs("torch")
    assert own.with_kernels("compiled") == own and run.with_kernels(None) == run


def test_nothing_is_chosen_where_the_config_or_the_user_has(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(same_kernels, "ASK", "raise SystemExit(1)")
    assert choose_kernels(SweepDirectory(tmp_path), runs("torch")) is None
    monkeypatch.setenv(KERNELS_VARIABLE, "torch")
    assert choose_kernels(SweepDirectory(tmp_path), runs("auto")) is None
    assert not SweepDirectory(tmp_path).kernels.exists()


def test_a_failure_is_one_line(runs, tmp_path, monkeypatch):
    monkeypatch.setattr(same_kernels, "ASK", "raise ValueError('no torch here')")
    with pytest.raises(UserError, match="no torch here; set it to torch"):
        choose_kernels(SweepDirectory(tmp_path), runs("auto"))


def test_a_new_process_can_be_asked(runs, tmp_path, monkeypatch):
    """Without a compiler the answer is torch, and nothing is built."""
    monkeypatch.setenv("CXX", "no-such-compiler")
    monkeypatch.setenv("TORCH_EXTENSIONS_DIR", str(tmp_path / "builds"))
    assert choose_kernels(SweepDirectory(tmp_path), runs("auto")) == "torch"
    assert not (tmp_path / "builds").exists()
