"""The command line itself: help, and words that are no command."""

import errno
import io
import os
import re
import subprocess
import sys

import pytest

import run_multitask
from multitask.utils.errors import UserError
from multitask.utils.versions import command_line
from tests.conftest import ROOT
from tests.support.commands import main
from tests.support.messages import complaint
from tests.support.panics import REASON, panic


def test_help_lists_every_command(capsys):
    assert main("--help") == 0
    text = capsys.readouterr().out
    assert len(text.splitlines()) <= 24 and max(map(len, text.splitlines())) <= 100
    assert all(f"  {name} " in text for name in run_multitask.COMMANDS)


def test_the_version_names_the_commit(capsys):
    assert main("--version") == 0
    assert re.fullmatch(r"multitask \d+\.\d+\.\d+ \(commit \S+\)\n", capsys.readouterr().out)


def test_usage_and_report_name_what_was_typed(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["/venv/bin/multitask", "check", "a b.yaml"])
    assert command_line() == "multitask check 'a b.yaml'"
    with pytest.raises(SystemExit):
        main("check", "--help")
    assert capsys.readouterr().out.startswith("usage: multitask check ")
    monkeypatch.setattr(sys, "argv", ["run_multitask.py", "check"])
    assert command_line() == "python run_multitask.py check"


def test_the_shell_completes_commands(tmp_path):
    pytest.importorskip("argcomplete", reason="completion is an extra")
    answer = tmp_path / "answer"
    line = "multitask eval"
    variables = {
        "_ARGCOMPLETE": "1",
        "_ARGCOMPLETE_STDOUT_FILENAME": str(answer),
        "COMP_LINE": line,
        "COMP_POINT": str(len(line)),
    }
    command = [sys.executable, str(ROOT / "run_multitask.py")]
    subprocess.run(command, env={**os.environ, **variables}, check=True)
    assert set(re.split(r"\W*\v\W*", answer.read_text())) == {"evaluate", "evaluate-search"}


@pytest.mark.parametrize("command", run_multitask.COMMANDS)
def test_each_command_has_its_help(command, capsys):
    with pytest.raises(SystemExit) as end:
        main(command, "--help")
    text = " ".join(capsys.readouterr().out.split())
    summary = run_multitask.command_module(command).__doc__.splitlines()[0]
    assert end.value.code == 0 and f"run_multitask.py {command} " in text and summary in text


def test_a_misspelt_command(capsys):
    line = complaint(capsys, "chek", "configs/demo.yaml")
    assert line == "no such command, and no such config: 'chek' (did you mean 'check'?)"


def test_help_into_a_pipe_that_closes():
    command = [sys.executable, str(ROOT / "run_multitask.py"), "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert said == "error: standard output: Broken pipe\n" and process.returncode == 2


def test_an_error_stands_below_what_was_said_before(monkeypatch):
    """Where both go into one file, as in ``> log 2>&1``."""
    log = io.BytesIO()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(log)))
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(log, write_through=True))

    def fails(arguments):
        print("encoder: x")
        raise UserError("no such encoder")

    monkeypatch.setattr(run_multitask, "run", fails)
    assert run_multitask.main(["config.yaml"]) == 2
    assert log.getvalue().decode() == "encoder: x\nerror: no such encoder\n"


@pytest.mark.parametrize(
    "problem",
    [
        MemoryError(),
        OSError(errno.ENOMEM, os.strerror(errno.ENOMEM)),
        ImportError("libtorch_cpu.so: failed to map segment from shared object"),
        RuntimeError(
            "[enforce fail at alloc_cpu.cpp:1] DefaultCPUAllocator: can't allocate memory"
        ),
    ],
)
def test_too_little_memory_is_named(problem, monkeypatch, capsys):
    def fails(arguments):
        raise problem

    monkeypatch.setattr(run_multitask, "run", fails)
    assert run_multitask.main(["config.yaml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("error: ") and "ulimit -v" in line
    problem = RuntimeError("a mistake of ours")
    with pytest.raises(RuntimeError, match="a mistake of ours"):
        run_multitask.main(["config.yaml"])


def test_a_panic_of_a_library_is_one_line(monkeypatch, capsys):
    monkeypatch.setattr(run_multitask, "run", lambda arguments: panic())
    assert run_multitask.main(["config.yaml"]) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"error: a library failed ({REASON})") and "tokenizer.json" in line


@pytest.mark.parametrize("ends", [SystemExit, GeneratorExit])
def test_what_ends_python_passes(ends, monkeypatch):
    def fails(arguments):
        raise ends

    monkeypatch.setattr(run_multitask, "run", fails)
    with pytest.raises(ends):
        run_multitask.main(["config.yaml"])


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (["--epochs", "1"], "training.epochs=VALUE"),
        (["--use_gpu"], "device=cuda"),
        (["--lr", "1e-5"], "training.lr=VALUE"),
        (["--batch_size=8"], "defaults.batch_size=VALUE"),
        (["--hidden_dropout_prob", "0.3"], "encoder.dropout=VALUE"),
        (["--fine-tune-mode", "last-linear-layer"], "encoder.freeze=true"),
        (["--seed", "3"], "seed=VALUE"),
        (["--sst_train", "a.csv"], "tasks.sst.data.train=VALUE"),
        (["--learning-rate", "1e-5"], "training.lr=VALUE"),
    ],
)
def test_flags_of_other_programs_are_answered_with_the_key(words, answer, capsys):
    line = complaint(capsys, "configs/demo.yaml", *words)
    assert line.startswith(f"{words[0]}: no such option") and answer in line


def test_only_the_config_is_required(capsys):
    with pytest.raises(SystemExit):
        main("train")
    assert capsys.readouterr().err.endswith("the following arguments are required: CONFIG\n")
