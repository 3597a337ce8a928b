"""Every line of the registry, with each option at values that are not its default, in use.

Each is trained for two steps, loaded, evaluated, predicted with and exported. The options are read
from the constructors' signatures: a new one is covered when it is written, or a test asks for a
value.
"""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
import transformers

import run_multitask
from multitask import load
from multitask.config.registry import KINDS
from multitask.inference.export.export_parts import Parts
from multitask.inference.export.onnx import PlainTasks, feeds
from multitask.inference.export.write_export import write_export
from multitask.inference.load_run import TrainedRun
from multitask.inference.serve import responses
from multitask.inference.serve.responses import open_run
from multitask.tasks.base import NoLabels
from multitask.training import trainer
from multitask.utils.errors import UserError
from tests.conftest import save_tiny_encoder
from tests.support import option_values
from tests.support.option_runs import configs, write_config, write_rows
from tests.support.option_values import LAYERS, options_of, variants
from tests.support.run_files import events, report_of, results
from tests.support.tiny_bert import save_tiny_mlm

SENTENCES = "sentence-transformers"
LINES = [(kind, name) for kind, names in KINDS.items() for name in names]


@pytest.fixture(scope="module")
def files(tmp_path_factory) -> Path:
    """The rows, the encoder and the generator; the configs are written beside them."""
    directory = tmp_path_factory.mktemp("options")
    save_tiny_encoder(directory / "encoder", num_hidden_layers=LAYERS)
    save_tiny_mlm(directory / "generator")
    write_rows(directory)
    return directory


def write_configs(files: Path, kind: str) -> list[Path]:
    parts = files / "encoder", files / "generator"
    return [
        write_config(files / f"{name}.yaml", *parts, config)
        for name, config in configs(kind).items()
    ]


@pytest.fixture(scope="module", params=list(KINDS))
def runs(request, files) -> list[Path]:
    """The runs that train every line of a kind."""
    made = []
    for config in write_configs(files, request.param):
        made.append(files / "runs" / config.stem)
        assert run_multitask.main([str(config), f"output_dir={made[-1]}"]) == 0
    return made


@pytest.mark.parametrize(("kind", "name"), LINES)
def test_each_option_has_a_value_that_is_not_its_default(kind, name):
    every = list(variants(kind, name))
    for option, parameter in options_of(kind, name).items():
        given = [line.options[option] for line in every if option in line.options]
        assert any(value != parameter.default for value in given), option


class Unknown:
    """A method with an option whose values only its author knows."""

    def __init__(self, dim: int, how: str = "well") -> None: ...


def test_a_value_that_does_not_follow_is_asked_for(monkeypatch):
    monkeypatch.setattr(option_values, "resolve", lambda kind, name: Unknown)
    monkeypatch.setattr(option_values, "build", lambda *given: Unknown(1))
    with pytest.raises(AssertionError, match=r"no value of 'how' follows .* to HINTS"):
        variants("head", "unknown")
    monkeypatch.setitem(option_values.HINTS, ("head", "unknown", "how"), ["badly"])
    assert [line.options for line in variants("head", "unknown")] == [{}, {"how": "badly"}]


def test_each_is_trained_for_two_steps(runs):
    for run in runs:
        steps = Counter(event["task"] for event in events(run, "step"))
        stages = len(events(run, "stage")) + 1
        assert steps.keys() == report_of(run)["tasks"].keys()
        if stages > 1:  # of one task each
            assert steps.total() == 2 * stages
        else:
            assert set(steps.values()) == {2}


def test_evaluate_gives_the_scores_of_the_report(runs):
    for run in runs:
        assert run_multitask.main(["evaluate", str(run)]) == 0
        evaluated = json.loads((run / "evaluation-dev.json").read_text())
        reported = report_of(run)["tasks"]
        assert evaluated.keys() == reported.keys()
        for task, entry in reported.items():
            again = {
                "dev": evaluated[task]["metrics"],
                "dev_intervals": evaluated[task]["intervals"],
            }
            assert again == {key: entry[key] for key in again}, task


def test_predict_writes_the_same_files(runs):
    for run in runs:
        saved = {file: file.read_text() for file in (run / "predictions").glob("*.jsonl")}
        for file in saved:
            file.unlink()
        assert run_multitask.main(["predict", str(run)]) == 0
        assert saved and saved == {file: file.read_text() for file in saved}


TEXTS = {"single": ["a cat sees a dog", "good"], "siamese": [("a cat", "a dog")] * 2}
TEXTS["triplet"] = TEXTS["siamese"]
TEXTS["choices"] = [("what is there ?", "a cat", "a dog")] * 2
TEXTS["cross"] = [("what is there ?", "a cat sees a dog")] * 2


def texts_of(loaded: TrainedRun, task: str) -> list:
    """Two texts, or two pairs, for a task."""
    return TEXTS[loaded.config.tasks[task].input]


def test_a_loaded_run_predicts_or_encodes(runs):
    for run in runs:
        loaded = load(run)
        for task in loaded.tasks:
            if not isinstance(loaded.readers[task].task_type, NoLabels):
                assert len(loaded.predict(task, texts_of(loaded, task))) == 2, task
            if loaded.config.tasks[task].gives_vectors:
                assert loaded.encode(TEXTS["single"], task).shape[0] == 2, task


def parts_of(loaded: TrainedRun, task: str) -> Parts:
    model, reader = loaded.model_for(task), loaded.readers[task]
    return Parts(loaded.config, task, model, loaded.tokenizer, reader)


def refusal(loaded: TrainedRun, task: str, directory: Path, **how) -> str | None:
    """Export a task, which compares the export with the run; why the format refuses it, or None."""
    records = loaded.files.load_predictions(task, "dev")
    target = directory / loaded.directory.name / how["form"] / task
    try:
        write_export([parts_of(loaded, task)], loaded.directory, target, records=[records], **how)
    except UserError as error:
        return str(error)
    return None


def test_each_is_exported_in_a_quick_format(runs, tmp_path):
    """Sentence vectors, or else the encoder alone, which is that of all tasks of a run."""
    encoder = {"form": "transformers", "encoder_only": True}
    for run in runs:
        loaded = load(run)
        left = [t for t in loaded.tasks if refusal(loaded, t, tmp_path, form=SENTENCES) is not None]
        if left and loaded.config.tasks[left[0]].adapter is None:
            assert refusal(loaded, left[0], tmp_path, **encoder) is None


def shown_by(model, tokenizer, texts: list) -> torch.Tensor:
    """The numbers that a pipeline of `transformers` shows for a batch, by the problem type."""
    rows = [text if isinstance(text, tuple) else (text,) for text in texts]
    columns = map(list, zip(*rows, strict=True))
    with torch.no_grad():
        logits = model(**tokenizer(*columns, padding=True, return_tensors="pt")).logits
    shown = {
        "single_label_classification": lambda scores: scores.softmax(-1),
        "multi_label_classification": torch.sigmoid,
        "regression": lambda scores: scores,
    }
    return shown[model.config.problem_type](logits)


def test_each_head_that_transformers_has_is_exported_to_it(runs, tmp_path):
    """Its probabilities, too, so that an option that only `predict` uses is not forgotten."""
    for run in runs:
        loaded = load(run)
        for task in loaded.tasks:
            head = loaded.model_for(task).head(task)
            if not getattr(head, "problem_type", "") or run.name != "head":
                continue
            target = tmp_path / "head" / "transformers" / task
            assert refusal(loaded, task, tmp_path, form="transformers") is None, task
            model = transformers.AutoModelForSequenceClassification.from_pretrained(target).eval()
            tokenizer = transformers.AutoTokenizer.from_pretrained(target)
            texts = texts_of(loaded, task)
            result = shown_by(model, tokenizer, texts)
            if loaded.readers[task].task_type.described_by == "label_range":
                result = result.clamp(loaded.readers[task].low, loaded.readers[task].high)
            wanted = torch.tensor([one["scores"] for one in loaded.predict(task, texts)])
            torch.testing.assert_close(result, wanted.float(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("runs", ["head"], indirect=True)
def test_an_option_that_the_export_forgets_is_refused(runs, tmp_path, monkeypatch):
    loaded = load(runs[0])
    known = [t for t in loaded.tasks if getattr(loaded.model_for(t).head(t), "problem_type", "")]
    for task in known[:1]:
        head = loaded.model_for(task).head(task)
        forward = head.forward
        monkeypatch.setattr(head, "forward", lambda *vectors, made=forward: 2 * made(*vectors))
        assert refusal(loaded, task, tmp_path, form="transformers") is not None
    assert known


def test_the_page_answers_as_a_loaded_run_does(runs):
    pytest.importorskip("flask", reason="flask is not installed (dev requirement)")
    from multitask.inference.serve.app import make_app

    for run in runs:
        served, loaded = open_run(run, None), load(run)
        for task in served.tasks:
            kind, (row, *_) = loaded.readers[task].task_type, texts_of(loaded, task)
            typed = served.input(task).typed((row,) if isinstance(row, str) else row)
            if isinstance(kind, NoLabels):
                (result,) = responses.answer(served, task, ["a cat", "a dog"])
                assert -1 <= result["number"] <= 1, task
            else:
                (result,) = responses.answer(served, task, typed)
                (record,) = loaded.predict(task, [row])
                wanted = kind.answer(record, loaded.readers[task])
                assert result["prediction"] == wanted["prediction"], task
        reply = make_app(served).test_client().post("/", data={"first": "a cat", "second": "dog"})
        assert reply.status_code == 200 and all(task in reply.text for task in served.tasks)


def test_a_file_is_predicted_as_a_loaded_run_does(runs, tmp_path):
    for run in runs:
        loaded = load(run)
        for task in loaded.tasks:
            if isinstance(loaded.readers[task].task_type, NoLabels):
                continue
            texts = texts_of(loaded, task)
            lines = ["\t".join((row,) if isinstance(row, str) else row) for row in texts]
            file, output = tmp_path / "texts.txt", tmp_path / f"{task}.jsonl"
            file.write_text("\n".join(lines) + "\n")
            command = ["predict", str(run), "--task", task, "--file", str(file)]
            assert run_multitask.main([*command, "--output", str(output)]) == 0
            saved = [json.loads(line) for line in output.read_text().splitlines()]
            wanted = loaded.predict(task, texts)
            names = [one["prediction"] for one in saved], [one["prediction"] for one in wanted]
            assert names[0] == names[1], task
            for one, other in zip(saved, wanted, strict=True):
                if isinstance(one.get("scores"), list):  # of two classes, a file has the second's
                    assert one["scores"] == other["scores"][-len(one["scores"]) :], task


@torch.no_grad()
def test_the_module_that_onnx_is_made_of_gives_the_same_scores(runs):
    for run in runs:
        loaded = load(run)
        for task in loaded.tasks:
            parts = parts_of(loaded, task)
            if not loaded.config.tasks[task].gives_vectors:
                continue
            rows = [(row if isinstance(row, tuple) else (row,)) for row in texts_of(loaded, task)]
            rows = [row[:1] for row in rows] if parts.embeds else rows
            (inputs,) = feeds(parts, parts.task_tokenizer(), rows)
            (scores,) = PlainTasks([parts]).eval()(*map(torch.from_numpy, inputs.values()))
            wanted = (
                parts.vectors([text for (text,) in rows]) if parts.embeds else parts.scores(rows)
            )
            torch.testing.assert_close(scores, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.slow
def test_what_is_more_than_sentence_vectors_is_exported_to_onnx(runs, tmp_path):
    """All but what reads tokens and what is recurrent, which the format does not take."""
    for run in runs:
        loaded = load(run)
        for task in loaded.tasks:
            parts = parts_of(loaded, task)
            if not loaded.config.tasks[task].gives_vectors:
                continue
            if refusal(loaded, task, tmp_path, form=SENTENCES) is not None:
                recurrent = any(isinstance(part, torch.nn.GRU) for part in parts.pooler.modules())
                assert (refusal(loaded, task, tmp_path, form="onnx") is None) != recurrent, task


class Killed(BaseException):
    """The end of a process."""


# the others need no more code to be resumed, and take long
RESUMED = [pytest.param(kind, marks=[] if kind == "head" else [pytest.mark.slow]) for kind in KINDS]


@pytest.mark.parametrize("runs", RESUMED, indirect=True)
def test_a_killed_run_resumes_to_the_same_bits(runs, files, tmp_path, monkeypatch):
    step, calls = trainer.train_step, []

    def dies_in_the_second(*arguments, **named):
        calls.append(1)
        if len(calls) == 2:
            raise Killed
        return step(*arguments, **named)

    for run in runs:
        calls.clear()
        command = [str(files / f"{run.name}.yaml"), f"output_dir={tmp_path / run.name}"]
        with monkeypatch.context() as patch, pytest.raises(Killed):
            patch.setattr(trainer, "train_step", dies_in_the_second)
            run_multitask.main(command)
        assert run_multitask.main([*command, "--resume"]) == 0
        assert events(tmp_path / run.name) == events(run)
        assert results(tmp_path / run.name) == results(run)
