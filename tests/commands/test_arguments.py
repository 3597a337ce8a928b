"""Arguments that several commands share: what is read, and what is refused."""

import argparse
import re
from pathlib import Path

import pytest

from multitask.api.sweeps import sweep_settings
from multitask.commands import arguments
from multitask.utils.errors import UserError


def test_runs_and_overrides_come_in_any_order():
    parser = argparse.ArgumentParser()
    arguments.add_runs(parser, "to compare")
    given = parser.parse_args(["a", "device=cpu", "runs/b", "data_dir=D", "c"])
    runs, overrides = arguments.runs_and_overrides(given)
    assert runs == [Path("a"), Path("runs/b"), Path("c")]
    assert overrides == ["device=cpu", "data_dir=D"]


def test_a_tilde_is_the_home_directory(monkeypatch):
    monkeypatch.setenv("HOME", "/h")
    parser = argparse.ArgumentParser()
    arguments.add_runs(parser, "to compare")
    arguments.add_output(parser, "DIR", "")
    given = parser.parse_args(["~/a", "~/b", "--output=~/c"])
    assert arguments.runs_and_overrides(given)[0] == [Path("/h/a"), Path("/h/b")]
    assert given.output == Path("/h/c")


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
        ("--address auto", "--address: only for --engine ray: leave it out"),
        ("--engine ray --detach", "--detach: only for --engine slurm: leave it out"),
        ("--slurm-setup f", "--slurm-setup: only for --engine slurm: leave it out"),
        ("--engine slurm --slurm hold,user", "--slurm: expected KEY=VALUE,KEY=VALUE, not 'user'"),
        ("--engine slurm --slurm time", "--slurm: expected KEY=VALUE,KEY=VALUE, not 'time'"),
        ("--engine slurm --slurm a=b,", "--slurm: expected KEY=VALUE,KEY=VALUE, not ''"),
        ("--engine slurm --slurm time=,a=b", "--slurm: expected KEY=VALUE,KEY=VALUE, not 'time='"),
    ],
)
def test_wrong_options_of_an_engine(given, message):
    with pytest.raises(UserError, match=re.escape(message)):
        settings_of(*given.split())
