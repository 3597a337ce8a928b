"""The chapter's Exercise 2 as configs, and the code of docs/bert-from-scratch.md, on stand-ins."""

import json
import re
from pathlib import Path

import datasets
import pytest

import run_multitask
from multitask.config import load_config
from multitask.config.registry import task_type
from tests.conftest import ROOT, WORDS
from tests.support.run_files import report_of

CONFIGS = ROOT / "configs"


def rows(count: int) -> list[tuple[str, int]]:
    """Texts that one word makes good or bad; some with a quote that opens and never closes."""
    moods = ("awful", "great")
    return [(f'the {WORDS[i % 30]} " was {moods[i % 2]}', i % 2) for i in range(count)]


@pytest.fixture
def desk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """SST-2 as GLUE's files and as a data set of the hub, 1,050 training rows each."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(datasets.config, "HF_DATASETS_CACHE", tmp_path / "cache")
    folder = tmp_path / "data" / "SST-2"
    folder.mkdir(parents=True)
    hub = tmp_path / "hub"
    hub.mkdir()
    for name, split, count in (("train", "train", 1050), ("dev", "validation", 130)):
        lines = [f"{text}\t{label}" for text, label in rows(count)]
        (folder / f"{name}.tsv").write_text("\n".join(["sentence\tlabel", *lines]) + "\n")
        records = [json.dumps({"sentence": text, "label": label}) for text, label in rows(count)]
        (hub / f"{split}.jsonl").write_text("\n".join(records))
    files = "".join(
        f"  - {{split: {split}, path: {split}.jsonl}}\n" for split in ("train", "validation")
    )
    (hub / "README.md").write_text(
        f"---\nconfigs:\n- config_name: sst2\n  data_files:\n{files}---\n"
    )
    return tmp_path


@pytest.mark.parametrize(
    "name",
    [
        pytest.param("bert_from_scratch_sst2", marks=pytest.mark.slow),
        "bert_from_scratch_sst2_minilm",
    ],
)
def test_exercise_2_trains_on_1000_rows_with_loss_and_accuracy_per_epoch(
    name, desk, tiny_encoder, capsys
):
    overrides = [f"encoder.name={tiny_encoder}", "tasks.sst2.max_length=48"]
    if "minilm" not in name:
        overrides.append(f"tasks.sst2.data.path={desk / 'hub'}")
    assert run_multitask.main([str(CONFIGS / f"{name}.yaml"), *overrides]) == 0, (
        capsys.readouterr().err
    )
    run = desk / "runs" / name
    report = report_of(run)
    data = report["tasks"]["sst2"]["data"]
    assert (data["train"]["rows"], data["dev"]["rows"]) == (1000, 130)
    assert report["steps"]["done"] == 3 * 32  # 31 batches of 32 and one of 8
    events = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    steps = [event for event in events if event["event"] == "step"]
    assert {(event["lr"], event["head_lr"]) for event in steps} == {(2e-5, 2e-5)}
    evaluations = [event for event in events if event["event"] == "eval"]
    assert [event["epoch"] for event in evaluations] == [1, 2, 3]
    assert all({"loss", "accuracy"} <= event["tasks"]["sst2"].keys() for event in evaluations)


def test_the_hub_variant_takes_the_first_rows(desk, tiny_encoder, capsys):
    """Rows 1,001 and on cannot be read as labels: only the first 1,000 are looked at."""
    file = desk / "hub" / "train.jsonl"
    lines = file.read_text().splitlines()
    spoilt = [json.dumps({**json.loads(line), "label": 7}) for line in lines[1000:]]
    file.write_text("\n".join([*lines[:1000], *spoilt]))
    config = str(CONFIGS / "bert_from_scratch_sst2.yaml")
    shared = [f"encoder.name={tiny_encoder}", "tasks.sst2.max_length=48"]
    arguments = ["check", config, *shared, f"tasks.sst2.data.path={desk / 'hub'}"]
    assert run_multitask.main(arguments) == 0, capsys.readouterr().err
    assert run_multitask.main([*arguments, "tasks.sst2.data.train=train[:1001]"]) == 2


def test_exercise_2_has_the_chapters_settings():
    config = load_config(CONFIGS / "bert_from_scratch_sst2.yaml")
    training, task = config.training, config.tasks["sst2"]
    assert config.encoder.name == "bert-base-uncased"
    assert (training.epochs, training.lr, training.head_lr) == (3, 2e-5, 2e-5)
    assert (training.schedule, training.warmup, training.clip_norm) == ("constant", 0, None)
    assert (training.betas, training.eps, training.weight_decay) == ([0.9, 0.999], 1e-8, 0.01)
    assert (task.batch_size, task.max_length, task.dropout) == (32, 128, 0.1)
    assert training.eval_batch_size == 64
    assert task.projection is not None and task.projection.name == "bert_pooler"


def test_the_files_of_glue_are_read_as_they_are():
    glue = ROOT.parent / "shared" / "data" / "glue"
    if not glue.is_dir():
        pytest.skip(f"GLUE's files are not at hand ({glue})")
    from multitask.data.classes import label_reader
    from multitask.data.load_rows import load_rows

    config = load_config(CONFIGS / "bert_from_scratch_sst2_minilm.yaml", [f"data_dir={glue}"])
    reader = label_reader(config, "sst2", task_type("class"))
    counts = [len(load_rows(config, "sst2", split, reader)) for split in ("train", "dev")]
    assert counts == [67_349, 872]


def code_blocks() -> list[str]:
    text = (ROOT / "docs" / "bert-from-scratch.md").read_text()
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


@pytest.mark.slow
def test_the_pages_code_runs_and_prints_what_it_says(desk, tiny_encoder, capsys):
    """Each `print(...)  # words` prints those words; blocks share their names, in order."""
    name = "bert_from_scratch_sst2_minilm"
    overrides = [f"encoder.name={tiny_encoder}", "tasks.sst2.max_length=48"]
    assert run_multitask.main([str(CONFIGS / f"{name}.yaml"), *overrides]) == 0
    capsys.readouterr()
    names: dict[str, object] = {}
    said = 0
    for block in code_blocks():
        exec(block, names)
        printed = capsys.readouterr().out
        for words in re.findall(r"^\s*print\(.*\)  # (.*)$", block, re.MULTILINE):
            assert words in printed, (words, printed)
            said += 1
    assert said >= 4
