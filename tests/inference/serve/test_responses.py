"""The page shows what the functions of the run predict."""

import dataclasses
import json
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from multitask import load
from multitask.config.registry import task_type
from multitask.inference.analysis.attention_weights import cls_attention
from multitask.inference.serve import responses
from multitask.inference.serve.responses import Served, open_run, read_texts
from multitask.tasks.base import NoLabels, TaskType
from multitask.utils.errors import UserError
from multitask.utils.limits import TYPED_CHARACTERS
from tests.conftest import ROOT
from tests.support.commands import main, small
from tests.support.masked_lm_run import CONFIG as MASKED_LM
from tests.support.masked_lm_run import FAST, stages, tiny

TEXT, OTHER = "a good film .", "the dog runs"
CROSS = str(ROOT / "configs" / "cs224n_minilm_cross.yaml")


@pytest.fixture(scope="module")
def contrastive(contrastive_run) -> Served:
    return open_run(contrastive_run, None)


@pytest.fixture(scope="module")
def cross(tiny_encoder, course_files, tmp_path_factory) -> Served:
    """Pairs in one input, and other weights for each task."""
    run = tmp_path_factory.mktemp("cross") / "run"
    _, *words = small(tiny_encoder, course_files, "training.max_steps=2", "tasks.sst.adapter=pal")
    words += ["training.frozen_baseline=false", f"output_dir={run}"]
    assert main(CROSS, *words) == 0
    return open_run(run, None)


def by_task(served: Served, texts: list[str]) -> dict[str, list[responses.Result] | str]:
    """Each task's results, or why it has none."""
    result = {}
    for task in served.tasks:
        try:
            result[task] = responses.answer(served, task, texts)
        except UserError as error:
            result[task] = str(error)
    return result


def probabilities(result: responses.Result) -> list[float]:
    return [probability for _, probability, _ in result["shares"]]


def test_every_kind_of_label_is_what_predict_says(tiny_run, served):
    run, actual = load(tiny_run), by_task(served, [TEXT, OTHER])
    expected = [*run.predict("sst", [TEXT, OTHER]), *run.predict("qqp", [(TEXT, OTHER)])]
    for result, record in zip([*actual["sst"], *actual["qqp"]], expected, strict=True):
        assert result["prediction"] == record["name"]
        assert probabilities(result) == pytest.approx(record["scores"])
        assert [name for name, _, chosen in result["shares"] if chosen] == [record["name"]]
    assert [result["of"] for result in actual["sst"]] == ["First text", "Second text"]
    (expected,) = run.predict("sts", [(TEXT, OTHER)])
    (result,) = actual["sts"]
    assert (result["number"], result["low"], result["high"]) == (expected["prediction"], 0, 5)
    assert result["prediction"] == f"{expected['prediction']:.3f}" and not result["shares"]


def test_a_task_that_needs_a_pair_says_so(served):
    outcome = by_task(served, [TEXT])
    assert outcome["qqp"] == outcome["sts"] == "Needs a second text."
    (result,) = outcome["sst"]
    assert result["of"] == ""
    assert {task: responses.about(served, task) for task in served.tasks} == {
        "sst": "one text → 5 classes",
        "qqp": "two texts, read apart → different or paraphrase",
        "sts": "two texts, read apart → a number from 0 to 5",
    }


def test_a_contrastive_task_gives_the_cosine_of_two_vectors(contrastive):
    assert "A vector of 32 numbers" in by_task(contrastive, [TEXT])["views"]
    (result,) = by_task(contrastive, [TEXT, OTHER])["views"]
    first, second = contrastive.run.encode([TEXT, OTHER], "views").astype(float)
    expected = first @ second / np.linalg.norm(first) / np.linalg.norm(second)
    assert result["number"] == pytest.approx(expected, abs=1e-6)
    assert (result["low"], result["high"]) == (-1, 1)
    assert (contrastive.fields, contrastive.fewest) == (2, 1)


def test_pairs_in_one_input(cross):
    assert responses.about(cross, "qqp").startswith("two texts, read together")
    (result,) = by_task(cross, [TEXT, OTHER])["qqp"]
    (expected,) = load(cross.run.directory).predict("qqp", [(TEXT, OTHER)])
    assert probabilities(result) == expected["scores"]


def test_masked_tokens_are_left_out(tiny_encoder, course_files, tmp_path):
    changes = [*tiny(tiny_encoder, course_files), *FAST, "training.max_steps=4", stages()]
    assert main(MASKED_LM, *changes, f"output_dir={tmp_path / 'run'}") == 0
    assert open_run(tmp_path / "run", None).tasks == ["sst", "qqp", "sts"]


def test_a_run_of_masked_tokens_alone_is_refused(tiny_run, monkeypatch):
    entry = SimpleNamespace(only_scored=False, share_head=None, gives_vectors=False)
    silent = SimpleNamespace(
        config=SimpleNamespace(tasks={"words": entry}),
        readers={"words": SimpleNamespace(task_type=NoLabels())},
    )
    monkeypatch.setattr(responses, "load", lambda *_: silent)
    with pytest.raises(UserError, match="no task of the run says anything about a text"):
        open_run(tiny_run, None)


def test_a_task_type_that_draws_nothing_shows_its_prediction(served, monkeypatch):
    class Plain(TaskType):
        gives = "{count} of {names}, {low} to {high}"

    reader = dataclasses.replace(served.run.readers["sst"], task_type=Plain(), names=("a", "b"))
    monkeypatch.setitem(served.run.readers, "sst", reader)
    monkeypatch.setattr(served.run, "predict", lambda *_: [{"prediction": [1, 0], "scores": [0.5]}])
    assert responses.about(served, "sst") == "one text → 2 of a or b, 0.0 to 1.0"
    (result,) = by_task(served, [TEXT])["sst"]
    assert result["prediction"] == "[1, 0]" and not result["shares"] and "number" not in result


@pytest.mark.parametrize(
    ("kind", "record", "words", "notes"),
    [
        ("tags", {"words": ["a", "dog"], "prediction": ["O", "B-X"]}, "dog (B-X)", []),
        ("tags", {"words": ["a"], "prediction": ["O"]}, "O alone", []),
        (
            "span",
            {"prediction": "dog", "scores": [0.5], "start": 2, "end": 5},
            "dog",
            ["Probability 0.50; characters 2 to 5 of the second text."],
        ),
    ],
)
def test_tags_and_answers_are_put_in_words(kind, record, words, notes, served, monkeypatch):
    reader = dataclasses.replace(served.run.readers["sst"], task_type=task_type(kind))
    monkeypatch.setitem(served.run.readers, "sst", reader)
    monkeypatch.setattr(served.run, "predict", lambda *_: [record])
    (result,) = by_task(served, [TEXT])["sst"]
    assert (result["prediction"], result["notes"]) == (words, notes)


def test_of_many_classes_the_likeliest_are_shown(served, monkeypatch):
    reader = dataclasses.replace(served.run.readers["sst"], names=tuple("abcdefghijkl"))
    monkeypatch.setitem(served.run.readers, "sst", reader)
    scores = [number / 66 for number in range(12)]
    made = [{"prediction": 11, "name": "l", "scores": scores}]
    monkeypatch.setattr(served.run, "predict", lambda *_: made)
    (result,) = by_task(served, [TEXT])["sst"]
    assert [name for name, *_ in result["shares"]] == list("lkjihgfedc")
    assert result["notes"] == ["The 10 likeliest of 12 classes."]


def test_a_text_that_is_cut_says_so(served, cross):
    long = "cat " * 47
    for run, texts, cut in (
        (served, [long, TEXT], True),
        (served, ["cat " * 30] * 2, False),
        (cross, ["cat " * 30] * 2, True),  # both in one input
    ):
        (result,) = by_task(run, texts)["qqp"]
        assert result["notes"] == ["Cut at 48 tokens: the rest was not read."] * cut


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (" \n\t", "", "There is no text yet."),
        ("", "a", "The first text is empty."),
        ("a" * (TYPED_CHARACTERS + 1), "", "The first text has 2,001 characters"),
        ("a", "é" * 3000, "The second text has 3,000 characters"),
    ],
)
def test_texts_that_are_no_use_are_refused(first, second, message, served):
    with pytest.raises(UserError, match=message):
        read_texts(served, [first, second])


def test_texts_are_taken_as_they_were_typed(served):
    assert read_texts(served, [" a ", " \n"]) == [" a "]
    assert read_texts(served, ["a\r\nb", "<c>"]) == ["a\nb", "<c>"]
    line_ends = "a\r\n" * (TYPED_CHARACTERS // 2)
    assert len(read_texts(served, [line_ends, ""])[0]) == TYPED_CHARACTERS


def test_what_the_tasks_need_is_asked_for(served):
    pairs = Served(served.run, ["qqp", "sts"])
    assert (pairs.fields, pairs.fewest) == (2, 2)
    with pytest.raises(UserError, match="second text is empty, and every task of this run reads"):
        read_texts(pairs, ["a", ""])
    single = Served(served.run, ["sst"])
    assert (single.fields, single.fewest) == (1, 1)
    assert read_texts(single, ["a", "left over"]) == ["a"]


def test_the_picture_is_drawn_of_the_tasks_attention(cross, served, monkeypatch):
    drawn = []
    monkeypatch.setattr(responses, "draw_mean", lambda *a: drawn.append(a) or real(*a))
    from multitask.reporting.figures.maps import draw_mean as real

    assert responses.attention_tasks(served) == ["sst"]  # one set of weights, no pair in one input
    assert responses.attention_tasks(cross) == ["sst", "qqp"]
    assert len(responses.attention(cross, "sst", [TEXT, OTHER])) == 2
    ((png, alt, note),) = responses.attention(cross, "qqp", [TEXT, OTHER])
    assert png.startswith(b"\x89PNG") and note == ""
    assert alt == f"What [CLS] attends to in “{TEXT}” and “{OTHER}”"
    for (actual, source), (task, inputs) in zip(
        drawn, [("sst", [TEXT]), ("sst", [OTHER]), ("qqp", [TEXT, OTHER])], strict=True
    ):
        encoder, adapter = cross.run.encoder(task)
        expected = cls_attention(encoder, cross.run.tokenizer, inputs, adapter)
        np.testing.assert_array_equal(actual.weights, expected.weights)
        assert actual.tokens == expected.tokens and source == f"run, task {task}"
    assert (drawn[0][0].mean != served_mean(cross, TEXT)).any()  # the adapter counts
    with pytest.raises(UserError, match="type a second one"):
        responses.attention(cross, "qqp", [TEXT])
    with pytest.raises(UserError, match="65 tokens"):
        responses.attention(served, "sst", ["cat " * 63])
    ((_, _, note),) = responses.attention(served, "sst", ["cat " * 50])
    assert note == "The picture shows the complete text."


def served_mean(served: Served, text: str) -> np.ndarray:
    encoder, _ = served.run.encoder("sst")
    return cls_attention(encoder, served.run.tokenizer, [text]).mean


def test_neighbours_are_those_that_search_finds(tiny_run, index, capsys):
    served = open_run(tiny_run, index)
    served.run.model.autocast = torch.bfloat16  # as on hardware with bf16: an index is in fp32
    by_task(served, [TEXT, OTHER])
    result = responses.neighbours(served, TEXT)
    assert served.run.model.autocast
    capsys.readouterr()
    assert main("search", index, TEXT) == 0
    lines = capsys.readouterr().out.splitlines()
    for line, (cosine, number, text) in zip(lines, result, strict=True):
        assert line.startswith(f"{cosine:6.3f}  line {number}: {text.removesuffix('…')}")
    (long,) = [text for _, line, text in result if line == 4]
    assert len(long) == responses.MAX_SHOWN and long.endswith("…")
    assert responses.neighbours(Served(served.run, served.tasks), TEXT) == []


def test_weights_of_another_task_do_not_change_the_neighbours(tiny_run, index, tmp_path):
    """An index of one task, on a run whose tasks have other weights."""
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    steps = json.loads((run / "best.json").read_text())
    config = (run / "config.yaml").read_text()
    assert "select: joint" in config
    (run / "config.yaml").write_text(config.replace("select: joint", "select: per_task"))
    (weights,) = (run / "weights").glob("*.safetensors")
    step = int(weights.stem.removeprefix("step-"))
    moved = {name: 3 * t for name, t in load_file(weights).items()}
    save_file(moved, run / "weights" / "step-00000099.safetensors")
    (run / "best.json").write_text(json.dumps(steps | {"sst": 99, "qqp": step, "sts": step}))
    served = open_run(run, index)
    before = responses.neighbours(served, TEXT)
    by_task(served, [TEXT])
    assert served.run._loaded == 99
    assert responses.neighbours(served, TEXT) == before
    assert responses.attention_tasks(served) == ["sst", "qqp"]


def test_an_index_of_another_run_is_refused(contrastive, index):
    with pytest.raises(UserError, match=f"^{index}: made with other weights"):
        open_run(contrastive.run.directory, index)
