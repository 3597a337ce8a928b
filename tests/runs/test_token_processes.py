"""Tasks of words and of answers on two processes."""

import numpy as np
import pytest

import run_multitask
from tests.conftest import save_tiny_encoder
from tests.support.processes import TORCHRUN, launch
from tests.support.run_files import events, report_of
from tests.support.token_run import token_config, write_token_files


@pytest.mark.slow
def test_two_processes_take_the_same_steps_and_find_the_same_scores(tmp_path):
    """Without dropout, whose noise each rank draws for itself; 5 rows do not halve."""
    encoder = save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)
    files = write_token_files(tmp_path, train=40, dev=9)
    changes = ["encoder.dropout=0", "training.max_steps=8", "tasks.qa.max_length=13"]
    for task in ("ner", "qa"):
        changes += [
            f"tasks.{task}.{key}" for key in ("dropout=0", "batch_size=5", "accumulation=2")
        ]
    command = [str(token_config(tmp_path, encoder, files)), *changes, "tasks.qa.stride=3"]
    alone, both = tmp_path / "alone", tmp_path / "both"
    assert run_multitask.main([*command, f"output_dir={alone}"]) == 0
    result = launch(TORCHRUN, "run_multitask.py", *command, f"output_dir={both}")
    assert result.returncode == 0, result.stderr
    steps, expected = ([e for e in events(d) if e["event"] == "step"] for d in (both, alone))
    assert len(steps) == len(expected) == 8
    assert [e["rows"] for e in steps] == [e["rows"] for e in expected]
    for key in ("loss", "grad_norm"):
        np.testing.assert_allclose(
            [e[key] for e in steps],
            [e[key] for e in expected],
            rtol=1e-4 if key == "loss" else 1e-3,
        )
    for task in ("ner", "qa"):
        actual, wanted = (report_of(d)["tasks"][task]["dev"] for d in (both, alone))
        assert actual["f1"] == pytest.approx(wanted["f1"])
        assert actual["loss"] == pytest.approx(wanted["loss"], rel=1e-3)
