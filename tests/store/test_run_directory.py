"""The paths of a run's files are spelled once; what is read from them is checked."""

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multitask.store.files import replacing
from multitask.store.run_directory import Named, RunDirectory, load_saved_config, open_run
from multitask.store.saved import Baselines
from multitask.utils.errors import UserError, warn
from tests.conftest import ROOT
from tests.support.source_tree import name_of, sources

# who may spell the name of a run's file
SPELLED_BY = {"multitask/store/run_directory.py", "multitask/sweep/sweep_directory.py"}
# files of other directories that have the name of a run's file
OTHER_FILES = {
    "multitask/inference/export/write_export.py: README.md",
    "multitask/reporting/write_sheet.py: report.html",
    "tools/docs_site.py: README.md",
}


def test_no_other_module_spells_the_name_of_a_run_s_file():
    """Neither alone nor after a directory; the rest of a path is a method of RunDirectory."""
    named = [value.name for value in vars(RunDirectory).values() if isinstance(value, Named)]
    files = [name for name in named if "." in name and name != "owner.lock"]
    assert {"run.json", "config.yaml", "metrics.jsonl", "best.json", "report.json"} <= set(files)
    tools = [*(ROOT / "tools").rglob("*.py"), *(ROOT / "benchmarks").rglob("*.py")]
    # it runs at older commits and reads their runs
    others = {"tools/make_embedded.py", *map(name_of, (ROOT / "tools").glob("same_results*.py"))}
    wrong = {
        f"{name_of(source)}: {name}"
        for source in (*sources(), *tools)
        if name_of(source) not in SPELLED_BY | others
        for name in files
        if re.search(rf"""/ f?["']({re.escape(name)})|[(, ]Path\(.*["']{re.escape(name)}""",
                     source.read_text(encoding="utf-8"))
    }  # fmt: skip
    assert wrong <= OTHER_FILES, "RunDirectory has the paths of a run, SweepDirectory of a sweep"


def test_a_file_is_written_into_its_directory(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.write_text(run.predictions_of("sst", "dev"), "text").read_text() == "text"
    scores = {"trivial": {"accuracy": float("nan")}, "frozen": None}
    run.write_json(run.baselines, {"sst": scores})
    assert run.load_baselines() == {"sst": Baselines(trivial={"accuracy": None}, frozen=None)}


DAMAGED = ["", "[1", "[]", "null", "[" * 100_000, '{"sst": {}}']


@pytest.mark.parametrize("text", [*DAMAGED, '{"sst": 1}', '{"sst": {"trivial": {}, "frozen": 1}}'])
def test_damaged_baselines_are_none(text, tmp_path):
    run = RunDirectory(tmp_path)
    assert run.load_baselines() is None
    run.baselines.write_text(text)
    assert run.load_baselines() is None


def test_a_damaged_line_of_the_log_is_left_out_and_said(tmp_path, capsys):
    run = RunDirectory(tmp_path)
    good = '{"event": "step", "step": 1, "task": "a", "loss": 0.5}'
    bad = [
        good.replace('"task"', '"tbsk"'),
        good.replace("1,", "-1,"),
        good.replace("0.5", '"a"'),
        good[:-1],
        "[]",
        "\xff",
    ]
    run.metrics.write_bytes("\n".join([good, *bad, good, ""]).encode("latin-1"))
    assert len(run.load_events()) == 2
    said = capsys.readouterr().err
    assert said == f"warning: {run.metrics}: damaged lines are left out: 2, 3, 4, 5, 6 and 1 more\n"


def test_the_log_keeps_the_events_of_callbacks(tmp_path, capsys):
    run = RunDirectory(tmp_path)
    run.metrics.write_text('{"event": "weight_norm", "step": 3, "norm": 0.5}\n')
    assert run.load_events() == [{"event": "weight_norm", "step": 3, "norm": 0.5}]
    assert not capsys.readouterr().err
    run.metrics.write_text('{"event": 3, "step": 3}\n{"event": "weight_norm", "step": "3"}\n')
    with pytest.raises(UserError, match="damaged"):
        run.load_events()


LINE = '{"event": "step", "step": 1, "task": "a", "loss": 0.5}\n'


@pytest.fixture
def sealed(tmp_path) -> RunDirectory:
    """A finished run with checksums."""
    warn.cache_clear()
    run = RunDirectory(tmp_path)
    run.write_json(run.best, {"joint": 4})
    run.metrics.write_text(LINE)
    run.write_text(run.config, "tasks: {}")
    run.write_text(run.predictions_of("a", "dev"), '{"score": 1}\n')
    run.write_json(run.report, {"seed": 1, "selection_split": "dev", "tasks": {}})
    run.seal(finished=True)
    return run


READERS = {
    "best.json": lambda run: run.best_steps(),
    "metrics.jsonl": lambda run: run.load_events(),
    "predictions/a.dev.jsonl": lambda run: run.load_predictions("a", "dev"),
    "report.json": lambda run: run.load_report(),
}


@pytest.mark.parametrize("name", READERS)
def test_a_file_that_was_changed_is_said(name, sealed, capsys):
    file = sealed.path / name
    READERS[name](sealed)
    assert not capsys.readouterr().err and sealed.is_intact(file)
    file.write_text(file.read_text().replace("1", "2").replace("4", "2"))
    READERS[name](sealed)
    said = f"warning: {file} is damaged or was changed: it is not as the run has written it\n"
    assert capsys.readouterr().err == said and not sealed.is_intact(file)
    sealed.checksums.unlink()
    warn.cache_clear()
    READERS[name](sealed)
    assert not capsys.readouterr().err


def test_predictions_that_are_made_again_are_no_damage_also_after_a_kill(sealed, capsys):
    file = sealed.predictions_of("a", "dev")
    before = file.read_text()
    sealed.write_text(file, '{"score": 3}\n')
    for text in (file.read_text(), before):  # killed before the file was written
        file.write_text(text)
        sealed.load_predictions("a", "dev")
    assert not capsys.readouterr().err


def test_several_writers_leave_checksums_that_are_right(sealed):
    tasks = [f"task_{number}" for number in range(4)]
    written = [(sealed.predictions_of(task, "dev"), str(n)) for n in range(10) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: sealed.write_text(*one), written))
    assert all(sealed.is_intact(sealed.predictions_of(task, "dev")) for task in tasks)


def test_the_checksums_of_a_run_that_trains_are_those_of_config_and_baselines(sealed):
    sealed.write_json(sealed.baselines, {})
    sealed.seal(finished=False)
    assert sealed.is_intact(sealed.config) and sealed.is_intact(sealed.baselines)
    assert sealed.checksums.read_text().count("\n") == 2


def test_nothing_is_written_through_a_link_in_a_run(tmp_path):
    """The run itself may be behind one."""
    for name in ("elsewhere", "disk"):
        (tmp_path / name).mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "disk")
    run = RunDirectory(tmp_path / "run")
    run.predictions.symlink_to(tmp_path / "elsewhere")
    for file in (run.predictions_of("a", "dev"), run.glue_file("a")):
        with pytest.raises(UserError, match="predictions is a link"):
            run.write_text(file, "text")
    assert not any((tmp_path / "elsewhere").iterdir())
    assert run.write_text(run.card, "text").resolve().parent == tmp_path / "disk"


@pytest.mark.parametrize("text", [*DAMAGED, "{}", '{"joint": "3"}', '{"joint": true}', '{"a": 1}'])
def test_damaged_best_steps(tmp_path, text):
    run = RunDirectory(tmp_path)
    run.best.write_text(text)
    with pytest.raises(UserError, match=r"best\.json: damaged: .*go on with --resume"):
        run.best_steps()


@pytest.mark.parametrize("at_start", [open_run, load_saved_config])
def test_a_command_finishes_an_overwrite_that_was_killed_and_a_question_does_not(
    at_start, tmp_path, monkeypatch
):
    """Only the call at the start of a command renames directories."""
    run = RunDirectory(tmp_path / "run")
    run.path.mkdir()
    with monkeypatch.context() as patch:  # killed between the two renames
        patch.setattr("multitask.store.files._exchange", lambda made, target: False)
        patch.setattr("multitask.store.files._clear", lambda scratch: None)
        patch.setattr(Path, "replace", lambda made, target: None)
        with replacing(run.path) as made:
            made.mkdir()
            tasks = "{t: {data: {train: t.csv}, pooling: mean, head: classification}}"
            (made / "config.yaml").write_text(f"tasks: {tasks}\n")
    left = sorted(tmp_path.rglob("*"))
    assert not run.holds_run and not run.finished and sorted(tmp_path.rglob("*")) == left
    at_start(run.path)
    assert run.holds_run
