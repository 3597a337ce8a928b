"""`tune` with a stand-in for training: what is tried, pruned, resumed, and what is written."""

import json
import os
import re
import shutil
import signal
from pathlib import Path

import pytest

import multitask
import run_multitask
from multitask.config import load_config
from multitask.store.lock import owned
from multitask.sweep import study
from multitask.sweep.study import Study
from multitask.sweep.sweep_directory import SweepDirectory
from tests.conftest import ROOT
from tests.support.fake_sweep import background, ended, swept, until

pytest.importorskip("optuna", reason="pip install optuna")
pytestmark = pytest.mark.engines

SEARCH = f"""
base: {ROOT / "configs" / "cs224n_minilm.yaml"}
set: {{training.holdout: 0.1, tasks.sts: null}}
trials: 7
seed: 3
pruner: none
search:
  training.lr: {{low: 1.0e-6, high: 1.0e-3, log: true}}
  training.epochs: {{low: 1, high: 5}}
  tasks.sst.pooling: [cls, mean]
"""
OUTPUT = Path("runs/tune-s")


@pytest.fixture
def search(grid: Path) -> Path:
    """A search file in an empty working directory; training is the stand-in."""
    file = grid.with_name("s.yaml")
    file.write_text(SEARCH)
    return file


def main(*arguments: object) -> int:
    return run_multitask.main(["tune", *map(str, arguments)])


def rows(output: Path = OUTPUT) -> dict[int, list[str]]:
    """The rows of the table, without the trial's number and its minutes."""
    lines = re.findall(r"^\| (\d+) \| (.*) \|$", (output / "table.md").read_text(), re.MULTILINE)
    cells = {int(number): rest.replace("*", "").split(" | ") for number, rest in lines}
    return {number: [*row[:-2], row[-1]] for number, row in cells.items()}


def starts() -> list[int]:
    """How often each of the first seven trials has started."""
    return [log_of(trial).count("# start") for trial in range(7)]


def kill_in(monkeypatch, owner: object, name: str, search: Path) -> None:
    """Begin a search that ends at the first call of a function."""

    def killed(*_):
        raise SystemExit

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(owner, name, killed)
        main(search)


def log_of(trial: int, output: Path = OUTPUT) -> str:
    log = output / "cells" / f"trial-{trial}" / "logs" / "seed-3.log"
    return log.read_text() if log.exists() else ""


def test_trials_are_trained_and_the_best_config_extends_the_base(search, capsys):
    assert main(search, "training.weight_decay=0.5") == 0
    said = capsys.readouterr().out
    assert (
        len(re.findall(r"^cell \d/7 trial-\d seed 3: holdout 0\.\d+ \(\d+ s\)$", said, re.M)) == 7
    )
    table = rows()
    assert sorted(table) == list(range(7))
    assert table[0][:3] == ["5e-05", "2", "cls"], "trial 0 has the values of the base"
    scores = [float(row[3]) for row in table.values()]
    assert scores == sorted(scores, reverse=True) and len(set(scores)) > 1
    best = load_config(OUTPUT / "best.yaml")
    trained = load_config(OUTPUT / "cells" / f"trial-{next(iter(table))}" / "seed-3/config.yaml")
    same = {"output_dir": "", "seed": 0}
    assert best.model_copy(update=same).resolved() == trained.model_copy(update=same).resolved()
    assert best.training.weight_decay == 0.5 and "sts" not in best.tasks
    assert (OUTPUT / "history.png").is_file() and (OUTPUT / "importance.png").is_file()
    assert main(search, "training.weight_decay=0.5") == 0
    assert "7 of 7 runs are finished already" in capsys.readouterr().out


def test_python_gets_the_best_config_and_nothing_is_printed(search, capsys):
    before = dict(os.environ)
    best = multitask.tune(search, ["training.weight_decay=0.5"], jobs=2)
    assert best == [OUTPUT / "best.yaml"] and load_config(best[0]).training.weight_decay == 0.5
    assert multitask.tune(search, ["training.weight_decay=0.5"], output=OUTPUT) == best
    said = capsys.readouterr()
    assert (said.out, said.err) == ("", "") and dict(os.environ) == before
    with pytest.raises(multitask.UserError, match="--detach: "):
        multitask.tune(search, engine="slurm", detach=True)


def test_more_trials_go_on_where_the_search_ended(search):
    assert main(search) == 0
    first = rows()
    search.write_text(SEARCH.replace("trials: 7", "trials: 9"))
    assert main(search) == 0
    assert {number: rows()[number] for number in first} == first and len(rows()) == 9
    assert log_of(0).count("# start") == 1


def test_an_edited_search_or_another_directory_is_refused(search, capsys):
    assert main(search) == 0
    search.write_text(SEARCH.replace("high: 5}", "high: 6}"))
    assert main(search) == 2
    assert "holds a search with another `search`" in capsys.readouterr().err
    Path("full").mkdir()
    Path("full/file").touch()
    assert main(search, "--output", "full") == 2
    assert "is not empty" in capsys.readouterr().err
    assert main(search, "--detach", "--engine", "slurm") == 2
    assert capsys.readouterr().err.startswith("error: --detach: ")


def test_the_next_start_knows_how_every_trial_ended(search, monkeypatch):
    """Two trials were pruned, and one has diverged: none of them is trained again."""
    search.write_text(SEARCH.replace("none", "halving").replace("trials: 7", "trials: 9"))
    monkeypatch.setenv("FAKE_BEST", "0.6")
    monkeypatch.setenv("FAKE_DIVERGE", "trial-1")
    swept(search, "--jobs", 2, command="tune")
    before, logs = rows(), [log_of(trial) for trial in range(9)]
    assert {row[-1].split()[0] for row in before.values()} == {"finished", "pruned", "diverged:"}
    assert main(search) == 0
    assert rows() == before and [log_of(trial) for trial in range(9)] == logs


def test_a_trial_whose_files_are_gone_is_trained_again_with_the_same_values(search):
    assert main(search) == 0
    before = rows()
    shutil.rmtree(OUTPUT / "cells" / "trial-4")
    assert main(search) == 0
    assert rows() == before
    assert starts() == [1] * 7


def test_a_damaged_file_of_a_trial_is_named(search, capsys):
    assert main(search) == 0
    (OUTPUT / "cells/trial-4/trial.json").write_text('{"values"')
    assert main(search) == 2
    assert "trial-4/trial.json" in capsys.readouterr().err


def test_a_diverged_trial_has_failed_and_the_search_goes_on(search, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_DIVERGE", "trial-2")
    assert main(search) == 0
    assert rows()[2][-1] == "diverged: task sst: loss nan" and len(rows()) == 7
    assert json.loads((OUTPUT / "cells/trial-2/trial.json").read_text())["state"] == "FAIL"
    assert {row[-1] for number, row in rows().items() if number != 2} == {"finished"}
    assert main(search) == 0
    assert starts() == [1] * 7
    assert "So far" not in (OUTPUT / "table.md").read_text()


def test_a_divergence_that_was_not_told_yet_is_not_trained_again(search, monkeypatch):
    monkeypatch.setenv("FAKE_DIVERGE", "trial-0")

    kill_in(monkeypatch, Study, "tell", search)
    assert main(search) == 0
    assert log_of(0).count("# start") == 1 and rows()[0][-1].startswith("diverged: ")


def test_what_fails_the_first_trial_stops_the_search_once(search, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_MISSING", str(search.with_name("data.csv")))
    assert main(search) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert "no such file: data.csv" in line
    assert starts() == [1] + [0] * 6
    search.with_name("data.csv").touch()
    assert main(search) == 0
    assert [log_of(trial).count("trained") for trial in range(7)] == [1] * 7
    assert starts() == [2] + [1] * 6


def test_what_fails_two_trials_in_a_row_stops_the_search(search, monkeypatch):
    monkeypatch.setenv("FAKE_MISSING", str(file := search.with_name("data.csv")))
    file.touch()
    told = Study.tell

    def tell(self, trial, run):
        if trial.number == 2:
            file.unlink()
        return told(self, trial, run)

    monkeypatch.setattr(Study, "tell", tell)
    assert main(search) == 2
    assert starts() == [1] * 5 + [0] * 2
    file.touch()
    monkeypatch.undo()


def test_one_process_at_a_time(search, capsys):
    with owned(SweepDirectory(OUTPUT).lock, "searches there"):
        assert "another process searches there" in swept(search, code=75, command="tune")


def test_killed_five_times_it_ends_with_the_trials_asked_for(search):
    """None is trained twice, and they are those of a search that nobody killed."""
    whole = Path("runs/whole 100%?#")
    assert main(search, "--output", whole) == 0
    for least in (1, 3, 5, 7, 9):
        process = background(search, command="tune")
        until(lambda: sum(starts()) >= least)  # noqa: B023
        process.kill()
        process.communicate()
    assert main(search) == 0
    assert rows() == rows(whole)
    assert [log_of(trial).count("trained") for trial in range(7)] == [1] * 7
    assert {row[-1] for row in rows().values()} == {"finished"}


@pytest.mark.parametrize("sampler", ["tpe", "random"])
def test_a_trial_without_all_of_its_parameters_gets_the_missing_ones(search, monkeypatch, sampler):
    search.write_text(SEARCH + f"sampler: {sampler}\n")
    assert main(search, "--output", "runs/whole") == 0
    suggest, calls = study.suggest, []

    def killed(*arguments):
        calls.append(arguments)
        if len(calls) == 8:  # the second parameter of trial 2
            raise SystemExit
        suggest(*arguments)

    with monkeypatch.context() as patch, pytest.raises(SystemExit):
        patch.setattr(study, "suggest", killed)
        main(search)
    assert not (OUTPUT / "cells" / "trial-2").exists()
    swept(search, command="tune")
    assert rows() == rows(Path("runs/whole"))


def test_a_score_that_was_not_told_yet_is_not_trained_again(search, monkeypatch):
    kill_in(monkeypatch, study, "holdout_scores", search)
    swept(search, command="tune")
    assert log_of(0).count("trained") == 1 and log_of(0).count("# start") == 1
    assert len(rows()) == 7


def test_each_engine_trains_trials_and_cancels_low_ones_whose_weights_go(
    engine, search, monkeypatch
):
    search.write_text(SEARCH.replace("none", "halving").replace("trials: 7", "trials: 4"))
    monkeypatch.setenv("FAKE_BEST", "0.6")  # lower ones never end; the base has 0.75
    swept(search, "--engine", engine, command="tune")
    states = [rows()[trial][-1] for trial in range(4)]
    assert states[:3] == ["finished", "finished", "pruned at evaluation 1"], states
    assert rows()[2][3] == "-" and log_of(2).count("saved") == 1 == log_of(2).count("# start")
    names = {path.name for path in (OUTPUT / "cells/trial-2/seed-3").iterdir()}
    assert not names & {"weights", "checkpoints", "encoder"}


def test_ctrl_c_saves_the_trial_and_writes_the_table(search, hold):
    process = background(search, command="tune")
    until(lambda: (OUTPUT / "cells/trial-0/seed-3/metrics.jsonl").exists())
    process.send_signal(signal.SIGINT)
    assert "interrupted: 0 of 7 trials are over" in ended(process, 2)
    assert log_of(0).count("saved") == 1 and rows()[0][-1] == "not finished"
    hold.unlink()
    assert main(search) == 0
    assert len(rows()) == 7 and log_of(0).count("trained") == 1


def test_objectives_give_a_front_with_a_config_per_point(search):
    search.write_text(SEARCH + "objectives: [sst, qqp]\n")
    assert main(search) == 0
    scores = {number: (float(row[3]), float(row[4])) for number, row in rows().items()}
    front = {
        number
        for number, one in scores.items()
        if not any(o[0] >= one[0] and o[1] >= one[1] and o != one for o in scores.values())
    }
    assert {file.name for file in OUTPUT.glob("best*.yaml")} == {f"best-{n}.yaml" for n in front}


def test_values_that_do_not_go_together_end_the_trial_alone(search, capsys):
    smart = "{none: null, eval: {weight: 1, dropout: eval}}"
    more = f"  encoder.gradient_checkpointing: [false, true]\n  tasks.sst.smart: {smart}\n"
    search.write_text(SEARCH + more)
    assert main(search) == 0
    for number, row in rows().items():
        possible = row[3:5] != ["true", "eval"]
        assert row[-1] == "finished" if possible else row[-1].startswith("not possible: ")
        assert bool(log_of(number)) == possible
    assert "trial-" in capsys.readouterr().out


def test_a_failed_trial_is_named_and_tried_again(search, monkeypatch, capsys):
    monkeypatch.setenv("FAKE_FAIL", "trial-2")
    assert main(search) == 2
    assert "1 of 7 trials failed: trial-2 seed 3" in capsys.readouterr().err
    assert rows()[2][-1] == "failed: the data are bad" and len(rows()) == 7
    monkeypatch.delenv("FAKE_FAIL")
    assert main(search) == 0
    assert rows()[2][-1] == "finished" and log_of(1).count("# start") == 1
