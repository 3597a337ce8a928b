"""A file that appears while a command loads and computes is not replaced without --overwrite."""

import json
import shutil
from pathlib import Path

import pytest

import run_multitask
from multitask.inference import ensemble, sts_scores
from multitask.inference.export import write_export
from multitask.inference.load_run import TrainedRun
from multitask.inference.search import text_index
from multitask.reporting import paper_table
from multitask.sweep import run_sweep
from tests.conftest import ROOT
from tests.support.sts_files import write_suites

MINE = "years of work"
ENCODER = ["--format", "transformers", "--encoder-only"]


@pytest.fixture
def texts(tmp_path) -> Path:
    file = tmp_path / "texts.txt"
    file.write_text("a good film\na dull story\n")
    return file


@pytest.fixture
def out(tmp_path) -> Path:
    return tmp_path / "out"


@pytest.fixture
def meanwhile(monkeypatch):
    """``meanwhile(owner, name, action)``: the function does the action first."""

    def patch(owner, name, action) -> None:
        original = getattr(owner, name)

        def slow(*arguments, **options):
            action()
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, slow)

    return patch


def contents(directory: Path) -> dict[str, bytes]:
    return {str(file): file.read_bytes() for file in directory.rglob("*") if file.is_file()}


def refused(capsys, *arguments) -> str:
    capsys.readouterr()
    assert run_multitask.main([str(argument) for argument in arguments]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error: ")]
    return line


@pytest.mark.parametrize(
    ("words", "name"),
    [
        (["predict", "--again"], "load_split"),
        (["evaluate"], "load_split"),
        (["attention", "--text", "a film"], "encoder"),
    ],
)
def test_a_run_that_takes_the_place_of_the_loaded_one(words, name, copy, meanwhile, capsys):
    """As `train --overwrite` puts it there."""
    states: list[dict[str, bytes]] = []

    def overwrite() -> None:
        if not states:
            copy.marker.write_text("{}")
            states.append(contents(copy.path))

    meanwhile(TrainedRun, name, overwrite)
    assert "another run has taken its place" in refused(capsys, words[0], copy.path, *words[1:])
    assert contents(copy.path) == states[0]


def appears(out: Path, name: str):
    def action() -> None:
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text(MINE)

    return action


def only_mine(out: Path) -> bool:
    files = [file for file in out.rglob("*") if file.is_file() and file.name != "owner.lock"]
    return [file.read_text() for file in files] == [MINE]


SST = ["{run}", "--task", "sst"]
INDEX = ["index", "{run}", "--texts", "{texts}", "--task", "sts", "--out", "{out}"]
# who works meanwhile, the file that appears, and the command
PLACES = [
    (ensemble, "predict_texts", "found.jsonl",
     ["predict", *SST, "--file", "{texts}", "--output", "{out}/found.jsonl"]),
    (ensemble, "ensemble", "ensemble.json", ["predict", "{run}", "{copy}", "--output", "{out}"]),
    (ensemble, "ensemble", "notes.md", ["predict", "{run}", "{copy}", "--output", "{out}"]),
    (write_export, "card", "model.safetensors", ["export", "{run}", "{out}", *SST[1:], *ENCODER]),
    (text_index, "normalised", "index.json", INDEX),
    (text_index, "normalised", "notes.md", INDEX),
    (text_index, "normalised", "notes.md", [*INDEX, "--overwrite"]),
    (paper_table, "paper_table", "paper.md",
     ["table", f"{ROOT}/configs/glue/table.yaml", "{run}", "--output", "{out}"]),
    (sts_scores, "score_suites", "sts.md",
     ["sts", "{run}", "--data", "{suites}", "--output", "{out}"]),
    *((run_sweep, "owned", name,
       ["ablate", "{grid}", "{data}", "{encoder}", "--output", "{out}"])
      for name in ("notes.md", "table.md", "grid.yaml/deep")),
]  # fmt: skip


@pytest.mark.parametrize(("owner", "work", "name", "words"), PLACES)
def test_a_file_in_the_place_of_a_result(
    owner, work, name, words, tiny_run, copy, texts, tiny_overrides, out, meanwhile, capsys
):
    if owner is text_index:
        pytest.importorskip("faiss")
    report = json.loads(copy.report.read_text())
    copy.report.write_text(json.dumps(report | {"seed": 7}))
    grid = texts.with_name("g.yaml")
    grid.write_text(f"base: {ROOT / 'configs' / 'cs224n.yaml'}\nseeds: [1]\ncells: {{a: {{}}}}\n")
    data, encoder, *_ = tiny_overrides
    names = {"run": tiny_run, "copy": copy.path, "texts": texts, "out": out, "grid": grid}
    names |= {"data": data, "encoder": encoder, "suites": write_suites(out.with_name("suites"))}
    meanwhile(owner, work, appears(out, name))
    assert str(out) in refused(capsys, *(word.format(**names) for word in words))
    assert only_mine(out)


@pytest.mark.parametrize(
    ("owner", "check", "words"),
    [
        (write_export, "check_target", ["export", "{run}", "{out}", "--task", "sst", *ENCODER]),
        (text_index, "check_output", ["index", "{run}", "--texts", "{texts}", "--out", "{out}"]),
    ],
)
def test_a_file_that_appears_after_the_last_check(
    owner, check, words, tiny_run, texts, out, monkeypatch, capsys
):
    if check == "check_output":
        pytest.importorskip("faiss")
    original = getattr(owner, check)

    def checked(directory, *arguments):
        original(directory, *arguments)
        if list(out.parent.glob(".multitask-*.tmp/out/*")):  # it is made already
            appears(out, "mine")()

    monkeypatch.setattr(owner, check, checked)
    words = [word.format(run=tiny_run, out=out, texts=texts) for word in words]
    assert "something is there already" in refused(capsys, *words)
    assert only_mine(out)


def test_an_index_that_another_process_has_made(tiny_run, texts, out, meanwhile, capsys):
    pytest.importorskip("faiss")
    words = ["index", tiny_run, "--texts", texts, "--out", out, "--task", "sts"]
    assert run_multitask.main(list(map(str, words))) == 0
    before = contents(out)
    out.rename(out.with_name("made"))
    meanwhile(text_index, "normalised", lambda: shutil.copytree(out.with_name("made"), out))
    assert "holds an index already" in refused(capsys, *words)
    assert contents(out) == before
