"""``export`` on tiny runs: the card, what is refused, and that nothing else is touched."""

import sys

import pytest
import transformers

import run_multitask
from tests.support.exports import complaint, main


@pytest.mark.parametrize(
    "form",
    ["transformers", "sentence-transformers", pytest.param("onnx", marks=pytest.mark.slow)],
)
def test_an_export_that_gives_other_scores_is_not_written(
    form, run_dir, tmp_path, capsys, monkeypatch
):
    for module, name, limit in (
        ("hugging_face", "TOLERANCE", -1.0),
        ("sentences", "LOWEST_COSINE", 2.0),
        ("onnx", "TOLERANCE", -1.0),
    ):
        monkeypatch.setattr(f"multitask.inference.export.{module}.{name}", limit)
    needed = {"sentence-transformers": ["sentence_transformers"], "onnx": ["onnx", "onnxruntime"]}
    for package in needed.get(form, []):
        pytest.importorskip(package, reason="an extra of `export`")
    task = "qqp" if form == "sentence-transformers" else "sst"
    said = complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", task)
    assert "numbers" in said or "vectors" in said or "scores" in said
    assert list(tmp_path.iterdir()) == []


def test_the_card_of_an_export_tells_its_command_and_versions(run_dir, tmp_path, monkeypatch):
    target = tmp_path / "model"
    given = ["export", str(run_dir), str(target), "--format", "transformers", "--task", "sst"]
    monkeypatch.setattr("sys.argv", ["run_multitask.py", *given])
    assert run_multitask.main(given) == 0
    card = (target / "README.md").read_text()
    exported = card.partition("## How it was exported")[2].partition("\n## ")[0]
    assert f"python run_multitask.py export {run_dir} {target} --format transformers" in exported
    assert f"transformers: {transformers.__version__}" in exported


@pytest.mark.parametrize(
    "form, task, words",
    [
        ("transformers", "qqp", "tasks.qqp.head: siamese_paraphrase: no sequence classifier"),
        ("transformers", "sts", "tasks.sts.adapter: pal is part of the encoder's layers"),
        ("sentence-transformers", "sts", "tasks.sts.adapter: pal is part of the encoder's layers"),
        ("sentence-transformers", "qqp", "tasks.qqp.pooling: hire: sentence-transformers has no"),
    ],
)
def test_what_a_format_cannot_carry_is_named(form, task, words, special, tmp_path, capsys):
    if form == "sentence-transformers":
        pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    line = complaint(capsys, special, tmp_path / "model", "--format", form, "--task", task)
    assert line.startswith(words)
    assert "--format onnx" in line
    assert not list(tmp_path.iterdir())


def test_the_working_directory_is_no_target(run_dir, tmp_path, capsys, monkeypatch):
    source = run_dir.absolute()
    monkeypatch.chdir(tmp_path)
    assert main(source, ".", "--format", "transformers", "--task", "sst") == 2
    assert ". is where you are: name a new directory" in capsys.readouterr().err


def test_nothing_that_is_there_is_touched(run_dir, tmp_path, capsys):
    (tmp_path / "mine.txt").write_text("kept")
    given = (run_dir, tmp_path, "--format", "transformers", "--task", "sst")
    assert "something is there already" in complaint(capsys, *given)
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]
    given = (run_dir, tmp_path / "mine.txt", "--format", "transformers", "--task", "sst")
    assert "something is there already" in complaint(capsys, *given)


@pytest.mark.parametrize(
    "arguments, words",
    [
        (("--format", "onnx"), "several tasks: say which with --task: sst, qqp, sts"),
        (("--format", "onnx", "--task", "stt"), "no task 'stt' (did you mean"),
        (("--format", "onnx", "--encoder-only"), "--encoder-only is for --format transformers"),
        (("--format", "transformers", "--int8"), "--int8 is for --format onnx, not transformers"),
    ],
)
def test_wrong_options_are_one_line(arguments, words, run_dir, tmp_path, capsys):
    assert words in complaint(capsys, run_dir, tmp_path / "model", *arguments)


@pytest.mark.parametrize("form", ["onnx", "sentence-transformers"])
def test_a_missing_package_is_named_with_its_install(form, run_dir, tmp_path, capsys, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx" if form == "onnx" else "sentence_transformers", None)
    line = complaint(capsys, run_dir, tmp_path / "model", "--format", form, "--task", "qqp")
    assert "is not installed: pip install " in line
    assert form in line
