"""The presets of the Goettingen course, on small files of both editions with our own sentences."""

import json

import pytest

import run_multitask
from tests.conftest import ROOT
from tests.support.dnlp_files import EDITIONS, NAMES, write_dnlp

DIRECTORY = ROOT.parent / "shared" / "data" / "dnlp"


@pytest.mark.parametrize("edition", EDITIONS)
def test_each_edition_is_checked_and_trained(edition, tmp_path, tiny_encoder, capsys):
    write_dnlp(tmp_path, edition)
    config = str(ROOT / "configs" / f"{edition}.yaml")
    values = [
        f"data_dir={tmp_path}",
        f"encoder.name={tiny_encoder}",
        "defaults.max_length=48",
        "training.max_steps=8",
    ]
    values += ["training.frozen_baseline=false", f"output_dir={tmp_path / 'run'}"]
    assert run_multitask.main(["check", config, *values]) == 0
    assert run_multitask.main([config, *values]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["tasks"]["etpc"]["metric"] == "mcc"
    assert {"label_accuracy", "exact_match", "f1", "macro_f1"} <= set(
        report["tasks"]["etpc"]["dev"]
    )
    written = {file.name for file in (tmp_path / "run" / "predictions").iterdir()}
    assert {
        f"{name}-{part}-output.csv"
        for name in (*NAMES.values(), "etpc-paraphrase-detection")
        for part in ("dev", "test")
    } <= written


def test_check_finds_a_dev_file_that_was_cut_from_train_and_left_there(
    tmp_path, tiny_encoder, capsys
):
    write_dnlp(tmp_path, "dnlp_2024")
    lines = (tmp_path / "etpc-paraphrase-train.csv").read_text().splitlines()
    (tmp_path / "etpc-dev.csv").write_text("\n".join([lines[0], *lines[1:11]]) + "\n")
    config = str(ROOT / "configs" / "dnlp_2024.yaml")
    values = [f"data_dir={tmp_path}", f"encoder.name={tiny_encoder}", "defaults.max_length=48"]
    values += ["tasks.etpc.data.dev=etpc-dev.csv", "tasks.etpc.data.dev_share=null"]
    assert run_multitask.main(["check", config, *values]) == 0
    assert "10 of 10 dev rows are in train" in capsys.readouterr().out


@pytest.mark.skipif(not DIRECTORY.is_dir(), reason="the course's files are not here")
def test_the_courses_own_files_of_2024(tiny_encoder, capsys):
    config = str(ROOT / "configs" / "dnlp_2024.yaml")
    values = [
        f"data_dir={DIRECTORY}",
        f"encoder.name={tiny_encoder}",
        "defaults.max_length=48",
        "tasks.qqp=null",
    ]
    assert run_multitask.main(["check", config, *values, "--no-dry-run"]) == 0
    assert "etpc  test   574" in capsys.readouterr().out
