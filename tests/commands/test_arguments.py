"""Arguments that several commands share: what is read, and what is refused."""

import argparse
import re
from pathlib import Path

import pytest

from multitask.api.sweeps import sweep_settings
from multitask.commands import arguments
from multitask.utils.errors import UserError
from tests.support.messages import complaint
from tests.support.sts_files import write_suites


def test_runs_and_overrides_come_in_any_order_and_a_tilde_is_home(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    parser = argparse.ArgumentParser()
    arguments.add_runs(parser, "to compare")
    arguments.add_output(parser, "DIR", "")
    given = parser.parse_args(["~/a", "device=cpu", "~/b", "data_dir=D", "c", "--output=~/d"])
    runs, overrides = arguments.runs_and_overrides(given)
    assert runs == [Path("/h/a"), Path("/h/b"), Path("c")] and given.output == Path("/h/d")
    assert overrides == ["device=cpu", "data_dir=D"]


def test_a_number_that_is_too_small():
    parser = argparse.ArgumentParser()
    arguments.add_number(parser, "--top", "", least=2)
    assert parser.parse_args(["--top", "2"]).top == 2
    for word in ("1", "-3", "2.5", "many"):
        with pytest.raises(UserError, match=f"^--top: .* 2, not {word}$"):
            parser.parse_args([f"--top={word}"])


def settings_of(*given: str):
    parser = argparse.ArgumentParser()
    arguments.add_sweep(parser, "cell", "runs/g")
    options = vars(parser.parse_args(given))
    for name in ("overrides", "keep_weights", "output"):
        del options[name]
    return sweep_settings("runs/g", options.pop("engine"), options)


def test_an_engines_options_are_read():
    slurm = ["--engine", "slurm", "--slurm", "partition=gpu,time=2:00:00", "--detach"]
    settings = settings_of(*slurm, "--jobs", "3", "--cpus-per-run", "2")
    assert settings.slurm == {"partition": "gpu", "time": "2:00:00"} and settings.detach
    assert (settings.jobs, settings.cpus, settings.gpus) == (3, 2, None)
    commas = settings_of("--engine", "slurm", "--slurm", "mail-type=END,FAIL,nodelist=n[1-2],n4")
    assert commas.slurm == {"mail-type": "END,FAIL", "nodelist": "n[1-2],n4"}
    assert settings_of("--engine", "slurm").jobs is None  # all
    settings = settings_of("--engine", "ray", "--address", "auto", "--gpus-per-run", "0.5")
    assert (settings.address, settings.gpus) == ("auto", 0.5)


@pytest.mark.parametrize(
    ("given", "options"),
    [
        (["exclusive"], {"exclusive": ""}),
        (["partition=gpu,exclusive,time=5"], {"partition": "gpu", "exclusive": "", "time": "5"}),
        (["partition=a,b", "exclusive=user"], {"partition": "a,b", "exclusive": "user"}),
        (["constraint=a,b,exclude=n[1,3],n7"], {"constraint": "a,b", "exclude": "n[1,3],n7"}),
        (["export=ALL,HF_HOME=/x,account=a"], {"export": "ALL,HF_HOME=/x", "account": "a"}),
        (['export="ALL,x=1",hold'], {"export": "ALL,x=1", "hold": ""}),
        (['constraint="a,exclusive"'], {"constraint": "a,exclusive"}),
        (["comment=a=b", "comment=c"], {"comment": "c"}),
    ],
)
def test_options_of_sbatch_may_have_commas_or_no_value(given, options):
    words = [word for text in given for word in ("--slurm", text)]
    assert settings_of("--engine", "slurm", *words).slurm == options


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("--jobs 0", "--jobs: expected a whole number ≥ 1, not 0"),
        ("--cpus-per-run 0", "--cpus-per-run: expected a whole number ≥ 1, not 0"),
        ("--gpus-per-run 1.5", "--gpus-per-run: expected a part of one GPU such as 0.5, or a"),
        ("--gpus-per-run -1", "or a whole number, not -1"),
        ("--gpus-per-run nan", "or a whole number, not nan"),
        ("--address auto", "--address: "),
        ("--engine ray --detach", "--detach: "),
        ("--slurm-setup f", "--slurm-setup: "),
        (
            "--engine slurm --slurm hold,user",
            "--slurm: expected KEY=VALUE,KEY=VALUE, not 'hold,user'",
        ),
        ("--engine slurm --slurm time", "--slurm: expected KEY=VALUE,KEY=VALUE, not 'time'"),
        ("--engine slurm --slurm time=,a=b", "--slurm: expected KEY=VALUE,KEY=VALUE, not 'time='"),
    ],
)
def test_wrong_options_of_an_engine(given, message):
    with pytest.raises(UserError, match=re.escape(message)):
        settings_of(*given.split())


# --- the arguments of each command: refused in one line, and no run is changed

RUN_AND_TEXT = ["RUN", "--text", "a"]
OWN = ["RUN", "--task", "sst", "--file"]
INDEX = ["RUN", "--texts", "TMP/good.txt", "--out", "TMP/i"]


@pytest.mark.parametrize(
    ("command", "arguments", "part"),
    [
        ("predict", ["RUN", "--task", "sts"], "predict: --task "),
        ("predict", ["RUN", "--file", "TMP/good.txt"], "--task: one of sst, "),
        ("predict", [*RUN_AND_TEXT, "--file", "TMP/good.txt"], "--file or --text"),
        ("predict", [*RUN_AND_TEXT, "--again"], "predict: --again "),
        ("predict", [*RUN_AND_TEXT, "--task", "sts"], "--text takes "),
        ("predict", ["RUN", "--output", "TMP/x.jsonl"], "predict: --output "),
        ("predict", ["RUN", "--task", "ssst", "--file", "TMP/good.txt"], "'sst'"),
        ("predict", [*OWN, "TMP/none.txt"], "no such file: TMP/none.txt"),
        ("predict", [*OWN, "TMP"], "not a file: TMP"),
        ("predict", [*OWN, "TMP/good.txt", "--output", "/dev/null"], "holds no predictions"),
        ("predict", [*OWN, "TMP/good.txt", "--output", "TMP/no/x"], "TMP/no/"),
        ("predict", [*OWN, "TMP/pair.txt"], "pair.txt, line 1: "),
        ("predict", ["RUN", "data_dir=TMP"], "TMP/ids-sst-dev.csv"),
        ("attention", ["RUN", "--text", " "], "--text: "),
        ("attention", ["RUN", *["--text", "a"] * 3], "--text: "),
        ("attention", [*RUN_AND_TEXT, "--task", "ssst"], "RUN: no task 'ssst'"),
        ("attention", [*RUN_AND_TEXT, "seeed=1"], "seeed: unknown key"),
        ("attention", ["RUN", "--text", "cat " * 63], "65 tokens"),
        ("attention", ["TMP", "--text", "a"], "TMP: neither a run "),
        ("attention", ["TINY", "--text", "a", "seed=1"], "so seed=1 has"),
        ("attention", ["no/run", "--text", "a"], "'no/run' is neither "),
        ("attention", [*RUN_AND_TEXT, "--output", "TMP/good.txt/x"], "TMP/good.txt: "),
        ("importance", ["RUN", "--task", "sts"], "RUN: task sts: no weights of hidden states"),
        ("importance", ["RUN", "--text", "caf\udce9"], "--text: "),
        ("importance", ["RUN", "--examples=-1"], "--examples: "),
        ("importance", ["TMP/none"], "TMP/none: no run there"),
        ("sts", ["RUN", "--data", "none"], "--data: "),
        ("sts", ["RUN", "--data", "DATA", "--pooling", "men"], "--pooling: "),
        ("sts", ["RUN", "--data", "DATA", "--pooling", "tokens"], "--pooling: tokens"),
        ("sts", ["TINY", "--data", "DATA", "--task", "sts"], "no run there"),
        ("sts", ["RUN", "--data", "DATA", "--with", "x.json"], "--layers"),
        ("search", ["TMP", "a"], "TMP: no index there"),
        ("search", ["TMP", " "], "the query "),
        ("search", ["TMP", "a", "--top", "0"], "--top: "),
        ("index", ["RUN", "--texts", "none", "--out", "TMP/i"], "--texts: "),
        ("index", ["RUN", "--texts", "TMP/empty.csv", "--out", "TMP/i"], "TMP/empty.csv: "),
        ("index", [*INDEX, "--ivf", "0"], "--ivf: "),
        ("index", [*INDEX, "--ivf", "3"], "texts to train on"),
        ("index", [*INDEX, "--probes", "3"], "--probes 3: "),
        ("index", [*INDEX, "--task", "x"], "no task 'x'"),
        ("index", ["RUN", "--texts", "TMP/good.txt", "--out", "TMP"], "TMP holds no index"),
        ("evaluate-search", ["RUN", "--pairs", "none"], "--pairs: "),
        ("evaluate-search", ["RUN", "--pairs", "TMP/good.txt"], "question1, question2"),
        ("evaluate-search", ["RUN", "--pairs", "TMP/good.txt", "--limit", "0"], "--limit: "),
        ("export", ["RUN", "TMP/x", "--format", "onnx", "--encoder-only"], "--encoder-only "),
        ("export", ["RUN", "TMP/x", "--format", "onnx"], "--task: one of sst, "),
        ("export", ["RUN", "TMP", "--format", "onnx", "--task", "sst"], "TMP: "),
        ("export", ["RUN", "TMP/x", "--format", "onnx", "--task", "stt"], "no task 'stt'"),
        ("export", ["RUN", "TMP/x", "--format", "transformers", "--int8"], "--int8 "),
    ],
)
def test_bad_arguments_are_one_line(
    command, arguments, part, tiny_run, tiny_encoder, tmp_path, capsys
):
    if command in ("search", "index", "evaluate-search"):
        pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")
    for name, text in (("good.txt", "a film\n"), ("pair.txt", "a\tb\n"), ("empty.csv", "")):
        (tmp_path / name).write_text(text)
    names = {"RUN": tiny_run, "TINY": tiny_encoder, "TMP": tmp_path}
    if "DATA" in arguments:
        names["DATA"] = write_suites(tmp_path / "suites")
    before = {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}
    for short, long in names.items():
        arguments = [word.replace(short, str(long)) for word in arguments]
        part = part.replace(short, str(long))
    assert part in complaint(capsys, command, *arguments)
    assert {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")} == before
