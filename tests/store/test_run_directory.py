"""The paths of a run's files are spelled once; what is read from them is checked."""

import ast
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from multitask.store import run_directory
from multitask.store.files import replacing
from multitask.store.run_directory import RunDirectory, load_saved_config, open_run
from multitask.store.saved import Baselines
from multitask.utils.errors import UserError, warn
from tests.conftest import ROOT
from tests.support.source_tree import name_of, sources, tree_of

# the methods whose text arguments are parts of a path
METHODS = {"glob", "iglob", "join", "joinpath", "rglob", "with_name", "with_stem", "with_suffix"}
CONSTRUCTORS = {"Named", "Path", "PurePath"}
# parts of f-strings that other files have too
COMMON = {"*", "-", ".", ".json", ".png", ".tsv"}
SPELLED_BY = {
    "multitask/store/run_directory.py": "RunDirectory",
    "multitask/sweep/sweep_directory.py": "SweepDirectory",
}
# files of other directories that have the name of a run's file
OTHER_FILES = {
    "multitask/inference/export/write_export.py: README.md",
    "multitask/models/encoders/kernels.py: .lock",
    "multitask/reporting/write_sheet.py: report.html",
    "multitask/sweep/engines/slurm.py: .log",
}


def texts(node):
    """The constant texts of an expression; of an f-string its constant parts."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    if isinstance(node, ast.JoinedStr):
        for part in node.values:
            yield from texts(part)


def spelled(tree):
    """Every constant text that is part of a path."""
    for node in ast.walk(tree):
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Div):
            yield from (*texts(node.left), *texts(node.right))
        if isinstance(node, ast.Call):
            function = node.func
            name = getattr(function, "attr", getattr(function, "id", None))
            of_text = isinstance(function, ast.Attribute) and isinstance(
                function.value, ast.Constant | ast.JoinedStr
            )
            if name in METHODS | CONSTRUCTORS and not of_text:
                yield from (text for one in node.args for text in texts(one))


def names():
    """The files and directories that RunDirectory and SweepDirectory spell, f-strings by parts."""
    every = set()
    for file in SPELLED_BY:
        every |= {text.strip("/") for text in spelled(tree_of(ROOT / file))}
    return every - COMMON


def test_the_names_are_those_of_a_run_and_of_a_sweep():
    assert names() >= {
        "run.json",
        "config.yaml",
        "metrics.jsonl",
        "best.json",
        "baselines.json",
        "report.json",
        "report.md",
        "weights",
        "checkpoints",
        "predictions",
        "figures",
        "encoder",
        "state.json",
        ".safetensors",
        ".jsonl",
        "grid.yaml",
        "cells",
    }


def files():
    tools = [*sorted((ROOT / "tools").rglob("*.py")), *sorted((ROOT / "benchmarks").rglob("*.py"))]
    others = {"tools/make_embedded.py"}
    # it runs at older commits and reads their runs
    others |= {name_of(file) for file in (ROOT / "tools").glob("same_results*.py")}
    return [file for file in (*sources(), *tools) if name_of(file) not in others]


def test_no_other_module_builds_the_path_of_a_run_s_file():
    wrong = {
        f"{name_of(file)}: {text}"
        for file in files()
        if name_of(file) not in SPELLED_BY
        for text in spelled(tree_of(file))
        for part in text.split("/")
        if part in names() or part.endswith((".dev.jsonl", "-output.csv"))
    }
    assert wrong == OTHER_FILES, "RunDirectory has the paths of a run, SweepDirectory of a sweep"


@pytest.mark.parametrize(
    "code",
    [
        'run / "report.json"',
        'run.joinpath("weights")',
        'run.glob("step-*.safetensors")',
        'Path("runs", "a", "metrics.jsonl")',
        'os.path.join(run, "config.yaml")',
        'file.with_name("best.json")',
        'run / f"checkpoints/{step}"',
        '"a" / run / "predictions"',
    ],
)
def test_the_rule_sees(code):
    assert names() & {part for text in spelled(ast.parse(code)) for part in text.split("/")}


def test_a_text_that_joins_others_is_no_path():
    assert not list(spelled(ast.parse('"weights".join(parts)')))


def test_a_second_checkpoint_of_a_step_has_another_name(tmp_path):
    run = RunDirectory(tmp_path)
    first = run.checkpoint(7)
    first.mkdir(parents=True)
    second = run.checkpoint(7)
    second.mkdir()
    run.damaged(first).mkdir()
    assert (first.name, second.name) == ("step-00000007", "step-00000007+")
    assert run.saved_checkpoints() == [first, second]


def test_a_file_is_written_into_its_directory(tmp_path):
    run = RunDirectory(tmp_path)
    assert run.write_text(run.predictions_of("sst", "dev"), "text").read_text() == "text"
    scores = {"trivial": {"accuracy": float("nan")}, "frozen": None}
    run.write_json(run.baselines, {"sst": scores})
    assert run.load_baselines() == {"sst": Baselines(trivial={"accuracy": None}, frozen=None)}


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[1",
        "[]",
        "null",
        "[" * 100_000,
        '{"sst": 1}',
        '{"sst": {}}',
        '{"sst": {"trivial": {}, "frozen": 1}}',
    ],
)
def test_damaged_baselines_are_none(text, tmp_path):
    run = RunDirectory(tmp_path)
    assert run.load_baselines() is None
    run.baselines.write_text(text)
    assert run.load_baselines() is None


def test_a_damaged_line_of_the_log_is_left_out_and_said(tmp_path, capsys):
    run = RunDirectory(tmp_path)
    good = '{"event": "step", "step": 1, "task": "a", "loss": 0.5}'
    bad = [
        good.replace("step", "stfp", 1),
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
    assert said == f"warning: {run.metrics}: damaged lines are left out: 2, 3, 4, 5, 6 and 2 more\n"


def test_the_log_keeps_the_events_of_callbacks(tmp_path, capsys):
    run = RunDirectory(tmp_path)
    run.metrics.write_text('{"event": "weight_norm", "step": 3, "norm": 0.5}\n')
    assert run.load_events() == [{"event": "weight_norm", "step": 3, "norm": 0.5}]
    assert not capsys.readouterr().err
    run.metrics.write_text('{"event": 3, "step": 3}\n{"event": "weight_norm", "step": "3"}\n')
    with pytest.raises(UserError, match="damaged"):
        run.load_events()


def test_a_file_that_was_changed_is_said(tmp_path, capsys):
    run = RunDirectory(tmp_path)
    for step in (2, 4, 6):
        run.write_json(run.best, {"joint": step})
        assert run.best_steps() == {"joint": step}
    # a kill after the checksum was written and before the file was
    run.best.write_text('{\n "joint": 4\n}')
    assert run.best_steps() == {"joint": 4}
    assert not capsys.readouterr().err
    run.best.write_text('{\n "joint": 2\n}')
    assert run.best_steps() == {"joint": 2}
    assert "best.json is damaged or was changed" in capsys.readouterr().err
    run.checksums.unlink()  # a run of an older version
    assert run.is_as_saved(run.best)


def test_predictions_that_were_changed_are_said(tmp_path, capsys):
    warn.cache_clear()
    run = RunDirectory(tmp_path)
    run.write_text(run.config, "tasks: {}")
    file = run.write_text(run.predictions_of("a", "dev"), '{"score": 1}\n')
    assert run.load_predictions("a", "dev") == [{"score": 1}]
    assert not capsys.readouterr().err
    file.write_text('{"score": 3}\n')
    assert run.load_predictions("a", "dev") == [{"score": 3}]
    said = f"warning: {file} is damaged or was changed: it is not as the run has written it\n"
    assert capsys.readouterr().err == said


def test_predictions_outside_a_run_have_no_checksum(tmp_path):
    """Those of an ensemble."""
    run = RunDirectory(tmp_path)
    run.write_text(run.predictions_of("a", "dev"), "{}\n")
    assert not run.checksums.exists()


LINE = '{"event": "step", "step": 1, "task": "a", "loss": 0.5}\n'


def test_the_log_has_a_checksum_from_the_end_of_a_run_until_it_goes_on(tmp_path, capsys):
    warn.cache_clear()
    run = RunDirectory(tmp_path)
    for line in (LINE, LINE.replace("0.5", "0.25")):
        run.metrics.write_text(line)
        run.load_events()  # while the run trains
        run.seal_log()
        run.load_events()
        assert not capsys.readouterr().err
        run.unseal_log()
    run.seal_log()
    run.metrics.write_text(LINE)
    run.load_events()
    assert capsys.readouterr().err.count("metrics.jsonl is damaged or was changed") == 1
    run.metrics.write_text(LINE + "{")
    run.load_events()
    (said,) = capsys.readouterr().err.splitlines()
    assert "damaged lines are left out: 2" in said


def test_several_writers_leave_checksums_that_are_right(tmp_path):
    run = RunDirectory(tmp_path)
    for file in (run.marker, run.config):
        run.write_text(file, "{}")
    tasks = [f"task_{number}" for number in range(4)]
    written = [(run.predictions_of(task, "dev"), str(n)) for n in range(10) for task in tasks]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda one: run.write_text(*one), written))
    assert all(run.is_as_saved(run.predictions_of(task, "dev")) for task in tasks)
    assert run.checksums.read_text().count("predictions/") == 8  # and the version before


def test_nothing_is_written_through_a_link_in_a_run(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").mkdir()
    run = RunDirectory(tmp_path / "run")
    run.predictions.symlink_to(tmp_path / "elsewhere")
    for file in (run.predictions_of("a", "dev"), run.glue_file("a")):
        with pytest.raises(UserError, match="predictions is a link"):
            run.write_text(file, "text")
    assert not any((tmp_path / "elsewhere").iterdir())


def test_a_name_without_a_run_names_the_nearest_run_next_to_it(tmp_path):
    run = tmp_path / "runs" / "minilm-trial"
    run.mkdir(parents=True)
    missing = RunDirectory(run.with_name("minilm"))
    plain = f"{missing.path}: no run there (config.yaml is missing)"
    assert missing.absent == plain  # the other one holds no run
    (run / "config.yaml").touch()
    assert missing.absent == f"{plain}: did you mean {run}?"
    assert RunDirectory(run.with_name("other")).absent.endswith("missing)")
    assert RunDirectory(tmp_path / "no" / "minilm").absent.endswith("missing)")


def test_a_place_that_may_not_be_read_names_no_run(tmp_path, monkeypatch):
    def refuse(directory):
        raise PermissionError(13, "Permission denied", str(directory))

    monkeypatch.setattr(run_directory, "entries", refuse)
    assert RunDirectory(tmp_path / "minilm").absent.endswith("missing)")


def test_a_run_may_itself_be_behind_a_link(tmp_path):
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "run").symlink_to(tmp_path / "elsewhere")
    run = RunDirectory(tmp_path / "run")
    run.write_text(run.predictions_of("a", "dev"), "text")
    assert (tmp_path / "elsewhere" / "predictions" / "a.dev.jsonl").is_file()


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[" * 100_000, '{"joint": "3"}', '{"joint": true}', '{"a": 1}']
)
def test_damaged_best_steps(tmp_path, text):
    run = RunDirectory(tmp_path)
    run.best.write_text(text)
    with pytest.raises(UserError, match=r"best\.json is damaged: go on with --resume"):
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
