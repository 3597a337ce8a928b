"""``index``, ``search`` and ``evaluate-search`` on a run and on an encoder, and bad input."""

import json
import re
import shutil
from pathlib import Path

import numpy as np
import pytest

from multitask import load
from tests.support.commands import main
from tests.support.messages import complaint

pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")

TEXTS = ["a good film", "a bad film", "the dog runs", "the cat sleeps", "a red bird"]


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> Path:
    file = tmp_path_factory.mktemp("texts") / "mine.txt"
    file.write_text("\n".join(TEXTS) + "\n")
    return file


@pytest.fixture(scope="module")
def index(tiny_run, texts) -> Path:
    out = texts.parent / "index"
    assert main("index", tiny_run, "--texts", texts, "--out", out, "--task", "sts") == 0
    return out


def test_search_ranks_by_the_cosine_of_the_tasks_vectors(tiny_run, index, capsys):
    capsys.readouterr()
    assert main("search", index, "a dull film", "the dog", "--top", 3) == 0
    out = capsys.readouterr().out.splitlines()
    run = load(tiny_run, ["training.precision=fp32"])
    vectors = run.encode([*TEXTS, "a dull film", "the dog"], "sts").astype(float)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    expected = []
    for row, query in ((5, "a dull film"), (6, "the dog")):
        cosines = vectors[:5] @ vectors[row]
        best = np.argsort(-cosines)[:3]
        expected += [query, *(f"{cosines[i]:6.3f}  line {i + 1}: {TEXTS[i]}" for i in best)]
    assert out == expected


def test_an_index_of_a_run_that_has_moved(tiny_run, texts, tmp_path, capsys):
    run = Path(shutil.copytree(tiny_run, tmp_path / "run"))
    index = tmp_path / "index"
    assert main("index", run, "--texts", texts, "--out", index, "--pooling", "max") == 0
    run.rename(tmp_path / "moved")
    message = complaint(capsys, "search", index, "a film", "--top", 1)
    assert str(run) in message and "--run" in message
    assert main("search", index, "a film", "--top", 1, "--run", tmp_path / "moved") == 0


def test_an_encoder_and_an_approximate_index(tiny_encoder, tmp_path, capsys):
    (tmp_path / "many.txt").write_text("\n".join(TEXTS * 20))
    out = tmp_path / "index"
    words = ["index", tiny_encoder, "--texts", tmp_path / "many.txt", "--out", out]
    assert main(*words, "--ivf", 2, "--probes", 1) == 0
    assert "100 texts; 2 lists, 1 searched" in capsys.readouterr().out
    assert main("search", out, "a good film", "--top", 2) == 0
    said = capsys.readouterr()
    assert said.out.count(": a good film\n") == 2 and "warning" not in said.err
    assert main("search", out, "a good film", "the dog runs", "--top", 100) == 0
    said = capsys.readouterr()
    counts = [
        int(n) for n in re.findall(r"warning: '.*': (\d+) of 100 texts: 1 of 2 lists", said.err)
    ]
    assert len(counts) == 2 and sum(counts) == said.out.count("  line ") < 200
    assert "make the index again with more --probes, or without --ivf" in said.err
    assert "holds an index already: --overwrite" in complaint(capsys, *words)
    assert main(*words, "--overwrite") == 0
    assert "exact" in capsys.readouterr().out


def test_an_index_of_another_run_or_encoder_is_refused(index, tiny_run, tmp_path, capsys):
    other = Path(shutil.copytree(tiny_run, tmp_path / "other"))
    from safetensors.torch import load_file, save_file

    (weights,) = (other / "weights").glob("*.safetensors")
    tensors = load_file(weights)
    save_file({name: 1.5 * tensor for name, tensor in tensors.items()}, weights)
    message = complaint(capsys, "search", index, "a film", "--top", 1, "--run", other)
    assert message.startswith(f"{index}: made with other weights than {other} has now")


def test_search_is_measured_on_the_courses_pairs(tiny_run, course_files, tmp_path, capsys):
    pairs = course_files / "quora-train.csv"
    out = tmp_path / "measured"
    assert main("evaluate-search", tiny_run, "--pairs", pairs, "--output", out) == 0
    shown = capsys.readouterr().out
    result = json.loads((out / "search.json").read_text())
    assert (result["task"], result["max_length"], result["keyed_by"]) == ("qqp", 64, "text")
    assert result["queries_with_gold"] == 20
    assert result["modes"]["exact"]["mrr_at_10"] == pytest.approx(1)  # duplicates are equal texts
    assert "warning: 40 texts cannot train the paper's 1,024 lists: 1 instead" in shown
    page = (out / "search.md").read_text()
    assert "| exact (Flat) | 100.00 [100.00, 100.00] | 100.00 |" in page and "nprobe 5" in page
    # the run trained on just these pairs
    known = result["gold_pairs_known"]
    assert known["trained_on"] == result["gold_pairs"] == 20
    assert f"20 of them are in the run's training rows, {known['selected']} in the rows" in shown
    dev = ("--pairs", course_files / "quora-dev.csv", "--output", tmp_path / "dev")
    assert main("evaluate-search", tiny_run, *dev) == 0
    result = json.loads((tmp_path / "dev" / "search.json").read_text())
    known = result["gold_pairs_known"]
    assert known["trained_on"] < known["selected"] == result["gold_pairs"]


def test_an_encoders_training_is_not_known(tiny_encoder, course_files, tmp_path, capsys):
    pairs = course_files / "quora-train.csv"
    assert main("evaluate-search", tiny_encoder, "--pairs", pairs, "--output", tmp_path) == 0
    assert "how many of them are in its training data is unknown here" in capsys.readouterr().out


def test_index_and_predict_read_the_same_texts(tiny_run, texts, tmp_path, capsys):
    """Lines that end with a carriage return, alone or mixed with others."""
    (tmp_path / "cr.txt").write_bytes("\r".join([*TEXTS[:3], "\n".join(TEXTS[3:])]).encode())
    assert main("index", tiny_run, "--texts", tmp_path / "cr.txt", "--out", tmp_path / "i") == 0
    assert ": 5 texts; exact" in capsys.readouterr().out
    shown = []
    for file in (texts, tmp_path / "cr.txt"):
        assert main("predict", tiny_run, "--task", "sst", "--file", file) == 0
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1] and shown[0].count("\n") == 5
