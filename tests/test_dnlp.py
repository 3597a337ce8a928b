"""The presets of the Goettingen course, on small files of both editions with our own sentences."""

import json

import numpy as np
import pytest

import run_multitask
from tests.conftest import ROOT

DIRECTORY = ROOT.parent / "shared" / "data" / "dnlp"
WORDS = "a slow warm film about two friends who sail away and never write home".split()
NAMES = {"sst": "sst-sentiment", "qqp": "quora-paraphrase", "sts": "sts-similarity"}
COLUMNS = {
    "sst": ["sentence", "sentiment"],
    "qqp": ["sentence1", "sentence2", "is_duplicate"],
    "sts": ["sentence1", "sentence2", "similarity"],
}
# the separator, the column of the types, the types, and how many places a list has
EDITIONS = {
    "dnlp_minilm": (",", "paraphrase_type_ids", [1, 6, 25, 29, 31], None),
    "dnlp_2024": ("\t", "paraphrase_types", [1, 2, 3, 4, 5, 6, 7], 7),
}


def write(directory, edition):
    separator, column, types, places = EDITIONS[edition]
    generator = np.random.default_rng(0)

    def sentence():
        return " ".join(generator.choice(WORDS, generator.integers(4, 9)))

    def save(name, header, rows):
        lines = [separator.join(header)]
        lines += [separator.join([f"{name}{i}", *row]) for i, row in enumerate(rows)]
        (directory / name).write_text("\n".join(lines) + "\n")

    def label(task):
        kinds = {"sst": 5, "qqp": 2}
        return (
            f"{generator.uniform(0, 5):.1f}"
            if task == "sts"
            else str(generator.integers(kinds[task]))
        )

    for task, name in NAMES.items():
        *texts, gold = COLUMNS[task]
        for part, count in (("train", 40), ("dev", 20), ("test-student", 6)):
            labelled = part != "test-student"
            rows = [
                [*(sentence() for _ in texts), *([label(task)] if labelled else [])]
                for _ in range(count)
            ]
            save(f"{name}-{part}.csv", ["id", *texts, *([gold] if labelled else [])], rows)
    quote = '"' if separator == "," else ""
    rows = []
    for i in range(60):
        chosen = sorted({types[i % len(types)], *generator.choice(types, 2).tolist()})
        chosen += [0] * (places - len(chosen)) if places else [chosen[-1]]  # repeated since 2025
        rows.append([sentence(), sentence(), f"{quote}{chosen}{quote}"])
    save("etpc-paraphrase-train.csv", ["id", "sentence1", "sentence2", column], rows)
    tests = [[sentence(), sentence()] for _ in range(6)]
    save("etpc-paraphrase-detection-test-student.csv", ["id", "sentence1", "sentence2"], tests)


@pytest.mark.parametrize("edition", EDITIONS)
def test_each_edition_is_checked_and_trained(edition, tmp_path, tiny_encoder, capsys):
    write(tmp_path, edition)
    config = str(ROOT / "configs" / f"{edition}.yaml")
    values = [
        f"data_dir={tmp_path}",
        f"encoder.name={tiny_encoder}",
        "defaults.max_length=48",
        "training.max_steps=8",
    ]
    values += ["training.frozen_baseline=false", f"output_dir={tmp_path / 'run'}"]
    if edition == "dnlp_minilm":  # the files have five of the 26 types
        values += [f"tasks.etpc.data.labels={EDITIONS[edition][2]}"]
    assert run_multitask.main(["check", config, *values]) == 0
    assert run_multitask.main([config, *values]) == 0
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["tasks"]["etpc"]["metric"] == "mcc"
    assert {"label_accuracy", "exact_match", "f1", "macro_f1"} <= set(
        report["tasks"]["etpc"]["dev"]
    )
    written = {file.name for file in (tmp_path / "run" / "predictions").iterdir()}
    assert {
        f"{name}-{part}-output.csv" for name in NAMES.values() for part in ("dev", "test")
    } <= written


def test_check_finds_a_dev_file_that_was_cut_from_train_and_left_there(
    tmp_path, tiny_encoder, capsys
):
    write(tmp_path, "dnlp_2024")
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
