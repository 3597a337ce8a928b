"""Model cards of runs: the hub's header and the report's numbers, from saved files."""

import subprocess
import sys

import pytest
import yaml
from huggingface_hub import ModelCard

from multitask.config.registry import task_type
from multitask.reporting.model_card import Exported, card, write_card
from multitask.store.run_directory import RunDirectory
from tests.conftest import ROOT
from tests.support.fabricated_run import edited, edited_config, write_run


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("cards") / "run"
    return folder, write_run(folder)


def test_the_header_is_the_hubs_and_holds_every_dev_score_with_its_interval(run):
    folder, report = run
    text = write_card(RunDirectory(folder)).read_text()
    data = yaml.safe_load(text.split("---\n")[1])
    assert data["base_model"] == "sentence-transformers/all-MiniLM-L6-v2"
    assert "library_name" not in data
    outcome = {
        (result.dataset_name, result.metric_type): result
        for result in ModelCard(text).data.eval_results
    }
    for task, result in report["tasks"].items():
        for metric in task_type(result["label_type"]).metrics:
            one = outcome.pop((task, metric))
            assert one.metric_value == result["dev"][metric]
            assert one.metric_args == {"interval_95": result["dev_intervals"][metric]}
    assert not outcome


def test_the_body_tells_dev_rows_in_train_of_other_tasks(tmp_path):
    write_run(tmp_path)
    seen = {"in_other_train": 8, "other_train": ["para", "sts"]}
    edited(tmp_path, lambda report: report["tasks"]["sst"]["data"]["dev"].update(seen))
    assert "sst: 8 dev rows are in train of other tasks: para, sts." in card(tmp_path)


def test_the_body_tells_contamination_command_versions_baselines_and_config(run):
    folder, report = run
    text = card(folder)
    assert "The pretrained weights have seen: quora." in text
    assert "sst: 17 dev rows are also in train." in text
    assert report["command"] in text
    assert "torch 2.13.0" in text and "| frozen encoder | trivial |" in text
    assert (folder / "config.yaml").read_text().strip() in text


def test_a_corpus_that_the_encoder_has_seen_names_its_tasks(tmp_path):
    write_run(tmp_path)
    edited_config(tmp_path, lambda config: config["tasks"]["para"]["data"].update(corpus="quora"))
    assert "Their corpora are among these: para." in card(tmp_path)


def test_an_encoder_of_which_nothing_is_known_is_not_called_clean(tmp_path):
    write_run(tmp_path)
    unknown = {"seen_corpora": [], "name": str(tmp_path)}
    edited(tmp_path, lambda report: report["encoder"].update(unknown))
    text = card(tmp_path)
    assert "It is unknown which data the pretrained weights have seen." in text
    assert "base_model" not in text  # a local directory is no name of the hub


def test_an_exports_card_is_about_its_task(run):
    like = "sentence-similarity"
    text = card(run[0], Exported(["sts"], "onnx", like, "The way.", "load()", ["it differs"]))
    data = ModelCard(text).data
    assert (data.library_name, data.pipeline_tag) == ("onnx", like)
    assert {result.dataset_name for result in data.eval_results} == {"sts"}
    assert "```python\nload()\n```" in text and "- it differs" in text


def test_an_export_with_other_settings_has_no_scores_of_the_run(run):
    config = "tasks: {sts: {}}\n"
    text = card(run[0], Exported(["sts"], "onnx", "x", "It.", "load()", [], config=config))
    assert not ModelCard(text).data.eval_results and "exported with other settings" in text
    assert f"````yaml\n{config}````" in text


def test_a_run_from_random_weights_has_no_base_model(tmp_path):
    write_run(tmp_path)
    assert "base_model" in card(tmp_path)
    edited(tmp_path, lambda report: report["encoder"].update(from_scratch=True))
    text = card(tmp_path)
    assert "base_model" not in text and "started from: random weights" in text
    assert "The encoder started from random weights." in text and "pretrained weights" not in text


def test_cards_need_no_torch(run):
    folder, _ = run
    code = (
        "import sys; from pathlib import Path; "
        "from multitask.store.run_directory import RunDirectory; "
        "from multitask.reporting.model_card import write_card; "
        f"write_card(RunDirectory(Path({str(folder)!r}))); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)
