"""tools/same_results.py: what its comparison notices, what it leaves out, and a complete proof."""

import importlib
import json
import math
import re
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest
import yaml
from safetensors.numpy import save_file

from multitask.config.registry import KINDS
from tests.conftest import ROOT
from tests.support.option_values import options_of
from tools.same_results_compare import Comparison, compare, text_content, verdict

TOOL = ROOT / "tools" / "same_results.py"
REPORT = {
    "git_revision": "abc",
    "wall_time_s": 1.5,
    "train_sentences_per_s": 200.0,
    "dev_seconds": {"sst": 0.5},
    "versions": {"torch": "2"},
    "path": "/tmp/old/run",
    "flags": ["below the baseline (0.167 < 0.333)"],
    "loss": 0.1,
    "rows": 3,
}
METRICS = '{"event": "step", "loss": 1.5}\n{"event": "step", "loss": 1.25}\n'


def write_side(directory: Path) -> Path:
    """A small run directory."""
    (directory / "checkpoints" / "step-1").mkdir(parents=True)
    (directory / "checkpoints" / "step-1" / "state.json").write_text(str(directory.stat().st_ino))
    (directory / "report.json").write_text(json.dumps(REPORT))
    (directory / "metrics.jsonl").write_text(METRICS)
    (directory / "table.csv").write_text("name,accuracy,epoch_seconds\na,0.5,1.0\n")
    (directory / "report.md").write_text(
        "wall time: 3 s\n\n| task | accuracy |\n| --- | --- |\n| sst | 0.5 |\n"
    )
    (directory / "report.html").write_text("<style>a{top: 0.5}</style><td>sst</td><td>0.25</td>")
    save_file({"w": np.ones(3, np.float32)}, directory / "best.safetensors")
    return directory


def choices(node: object, kind: str = "") -> Iterator[tuple[str, str, dict]]:
    """Yield kind, name and options of each method in a config, or in a grid's axes."""
    if kind in KINDS and isinstance(node, str):
        yield kind, node, {}
    elif kind in KINDS and isinstance(node, dict) and "name" in node:
        yield kind, node["name"], node
    elif isinstance(node, dict):
        for key, value in node.items():
            # the key of a grid's value is its label
            inner = kind if kind in KINDS else str(key).rpartition(".")[2].removeprefix("eval_")
            yield from choices(value, inner)
    elif isinstance(node, list):
        for value in node:
            yield from choices(value, kind)


def test_the_cases_reach_every_option_of_every_registered_method():
    cases = yaml.safe_load((TOOL.parent / "same_results_cases.yaml").read_text())
    files = [cases["shared"], *(case.get("files", {}) for case in cases["cases"].values())]
    reached = defaultdict(list)
    for text in (text for each in files for text in each.values()):
        for kind, name, options in choices(yaml.safe_load(text)):
            reached[kind, name].append(options)
    missing = []
    for kind, name in ((kind, name) for kind, names in KINDS.items() for name in names):
        missing += [] if reached[kind, name] else [f"{kind} {name}"]
        for option, parameter in options_of(kind, name).items():
            values = [given.get(option, parameter.default) for given in reached[kind, name]]
            if all(value == parameter.default for value in values):
                missing.append(f"{kind} {name}: {option}")
    assert not missing, f"add to a case: {', '.join(missing)}"


@pytest.fixture
def old(tmp_path: Path) -> Path:
    return write_side(tmp_path / "old")


@pytest.fixture
def new(tmp_path: Path) -> Path:
    return write_side(tmp_path / "new")


def compared(old: Path, new: Path) -> Comparison:
    return compare(old, new, {"/tmp/old": "/WORK"}, {"/tmp/new": "/WORK"})


def change_report(directory: Path, **changes: object) -> None:
    (directory / "report.json").write_text(json.dumps(REPORT | changes))


def change(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_equal_directories_are_the_same_but_for_a_path_elsewhere(old, new):
    result = compared(old, new)
    assert result.differences == ["report.json: path: '/WORK/run' -> '/tmp/old/run'"]
    change_report(new, path="/tmp/new/run")
    result = compared(old, new)
    assert result.files == 6 and result.values > 10 and verdict(result) == "same"


def test_times_rates_versions_and_paths_are_left_out(old, new):
    change_report(
        new,
        git_revision="def",
        wall_time_s=9.0,
        train_sentences_per_s=1.0,
        dev_seconds={"sst": 7.0},
        versions={"torch": "3"},
        path="/tmp/new/run",
    )
    change(new / "report.md", "3 s", "8 s")
    change(new / "table.csv", "1.0", "2.0")
    result = compared(old, new)
    assert result.differences == [] and result.wording == []


@pytest.mark.parametrize(
    ("file", "before", "after", "named"),
    [
        ("report.json", "0.1,", f"{math.nextafter(0.1, 1)!r},", "loss: 0.1 -> 0.1000000000"),
        ("report.json", '"rows": 3', '"rows": 3.0', "rows: 3 -> 3.0"),
        ("report.json", "0.167", "0.168", "flags: number 1"),
        ("metrics.jsonl", '{"event": "step", "loss": 1.25}\n', "", "line 2.loss: 1.25 -> nothing"),
        ("table.csv", "0.5", "0.25", "line 2, column 2 (accuracy): 0.5 -> 0.25"),
        ("report.md", "0.5", "0.6", "number 1: 0.5 -> 0.6"),
        ("report.html", "0.25", "0.35", "number 1: 0.25 -> 0.35"),
    ],
)
def test_a_changed_value_is_named(old, new, file, before, after, named):
    change_report(new, path="/tmp/new/run")
    change(new / file, before, after)
    result = compared(old, new)
    assert result.differences and all(line.startswith(f"{file}: ") for line in result.differences)
    assert any(named in line for line in result.differences)


def test_checksums_and_what_a_tokenizer_did_last_are_left_out(old, new):
    change_report(new, path="/tmp/new/run")
    weights = {"w": np.ones(3, np.float32)}
    save_file(weights, new / "best.safetensors", {"multitask_sha256": "ab"})
    for directory, truncation in ((old, {"max_length": 9}), (new, None)):
        tokenizer = {"truncation": truncation, "padding": None, "version": "1.0"}
        (directory / "tokenizer.json").write_text(json.dumps(tokenizer))
        settings = {"model_max_length": 40} | (
            {"max_length": 40, "stride": 0} if truncation else {}
        )
        (directory / "tokenizer_config.json").write_text(json.dumps(settings))
    assert verdict(compared(old, new)) == "same"
    save_file(weights, new / "best.safetensors", {"format": "pt"})
    (difference,) = compared(old, new).differences
    assert "__metadata__" in difference


def test_a_changed_bit_of_a_tensor_is_named(old, new):
    change_report(new, path="/tmp/new/run")
    weights = np.ones(3, np.float32)
    weights[2] = np.nextafter(weights[2], np.float32(2))
    save_file({"w": weights}, new / "best.safetensors")
    assert [line.split(": F32")[0] for line in compared(old, new).differences] == [
        "best.safetensors: w"
    ]


def test_a_missing_file_is_named_and_a_checkpoint_is_not(old, new):
    change_report(new, path="/tmp/new/run")
    (new / "metrics.jsonl").unlink()
    (new / "checkpoints" / "step-1" / "more.json").write_text("1")
    assert compared(old, new).differences == ["metrics.jsonl: only in OLD"]


def test_other_words_are_wording(old, new):
    change_report(new, path="/tmp/new/run", flags=["lower than the baseline (0.167 < 0.333)"])
    change(new / "report.md", "| task |", "| the task |")
    result = compared(old, new)
    assert result.differences == [] and len(result.wording) == 2


def test_a_key_that_only_new_writes_is_listed_and_a_lost_one_is_a_difference(old, new):
    change_report(new, path="/tmp/new/run", option=None, format=2)
    result = compared(old, new)
    assert result.differences == [] and result.added == ["report.json: option"]
    lost = compare(new, old, {"/tmp/new": ""}, {"/tmp/old": ""})
    assert lost.differences == ["report.json: option: None -> nothing"]


def test_nothing_to_compare_is_a_failure(tmp_path):
    for name in ("one", "other"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "note.md").write_text("no number here\n")
    result = compare(tmp_path / "one", tmp_path / "other", {}, {})
    assert result.differences == [] and verdict(result) == "FAILED"


def test_a_damaged_file_is_named(old, new):
    (new / "metrics.jsonl").write_text('{"event": ')
    with pytest.raises(ValueError, match=r"new/metrics\.jsonl cannot be read"):
        compared(old, new)


def test_random_keys_are_left_out(old, new):
    change_report(new, path="/tmp/new/run", rows=4)
    assert compare(old, new, {"/tmp/old": ""}, {"/tmp/new": ""}, ["report.json: rows"]).values > 5
    result = compare(old, new, {"/tmp/old": ""}, {"/tmp/new": ""}, ["report.json: rows"])
    assert result.differences == []


@pytest.mark.parametrize(
    "table",
    [
        "Scores\n\n| group | seconds an epoch |\n| --- | --- |\n| a | 1.06 |",
        "Seconds to score dev once:\n     sst   sts\n---  ----  ----\none  1.06  1.07\n\nend",
        "\\par Training time: seconds\\par\n\\begin{tabular}{lc}\n\\toprule\n & sst \\\\\n"
        "\\midrule\none & 1.06 \\\\\n\\bottomrule",
        "encoding and exact search of one query: 4.7 ms (median)",
        "in 1.5 min at 210.5 sentences/s",
        "- git revision: 5c0042d\n- versions: torch 2.13.0, numpy 2.1",
    ],
)
def test_times_and_versions_in_text_are_no_values(table):
    assert text_content(table.splitlines()).values == {}


@pytest.fixture
def tool(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The tool as a module, which imports its other files by their names."""
    monkeypatch.syspath_prepend(str(TOOL.parent))
    return importlib.import_module("same_results")


REASON = "ended with exit code 2: error: r/config.yaml:93: no such thing"


@pytest.mark.parametrize(
    ("reasons", "scores", "word", "line"),
    [
        ((None, None), (0.5, 0.5), "same", ""),
        ((None, None), (0.5, 0.25), "DIFFERENT", "evaluation-dev.json: sst.accuracy: 0.5 -> 0.25"),
        ((REASON, None), (None, 0.5), "same", f"OLD fails, NEW does not: evaluate r: {REASON}"),
        ((None, REASON), (0.5, None), "DIFFERENT", f"only NEW fails: evaluate r: {REASON}"),
        ((REASON, REASON), (None, None), "FAILED", f"both fail: evaluate r: {REASON}"),
    ],
    ids=["same", "other scores", "old fails", "new fails", "both fail"],
)
def test_evaluations_are_compared(reasons, scores, word, line, tool, tmp_path, capsys):
    outcomes = []
    for side, reason, score in zip(("old", "new"), reasons, scores, strict=True):
        run = tmp_path / side / "r"
        write_side(run)
        change_report(run, path="r")
        if score is not None:
            (run / "evaluation-dev.json").write_text(json.dumps({"sst": {"accuracy": score}}))
            (run / "evaluated.txt").write_text(f"sst accuracy {score}\n")
        outcome = tool.Outcome(tmp_path / side, {}, [0], 1.0, None, {"r": reason})
        outcomes.append(outcome)
    assert tool.report_case("one", outcomes, {}) == word
    assert line in capsys.readouterr().out


def test_each_finished_run_with_weights_is_evaluated(tool, tmp_path, monkeypatch):
    run_module = importlib.import_module("same_results_run")
    for name, files in {
        "a": ["report.json", "weights/step-00000002.safetensors"],
        "b/unfinished": ["weights/step-00000002.safetensors", "checkpoints/step-1/report"],
        "b/without": ["report.json", "checkpoints/step-00000002/model.safetensors"],
    }.items():
        for file in files:
            (tmp_path / name / file).parent.mkdir(parents=True, exist_ok=True)
            (tmp_path / name / file).touch()
    given = []
    step = lambda side, case, step, printed: given.append((case, step)) or (2, REASON)  # noqa: E731
    monkeypatch.setattr(run_module, "run_step", step)
    assert run_module.evaluate_runs(None, tmp_path) == {"a": REASON}
    assert given == [(tmp_path.name, "evaluate $here/a")]


def run_tool(repository: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(TOOL), *arguments], cwd=repository, capture_output=True, text=True
    )


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (["nothing-of-that-name", "HEAD"], "error: no such revision: 'nothing-of-that-name'"),
        (["HEAD", "HEAD", "--only", "smrt"], "error: no case 'smrt': --list prints all"),
    ],
)
def test_a_mistake_is_one_line(arguments, line):
    done = run_tool(ROOT, *arguments)
    assert done.returncode == 2 and done.stderr.strip() == line


def clone_with_another_constant(directory: Path) -> Path:
    """A clone of HEAD whose working tree clips gradients at half the norm."""
    subprocess.run(["git", "clone", "--quiet", str(ROOT), str(directory)], check=True)
    declared = re.compile(r"(clip_norm: float \| None = Field\(\s*)1\.0")
    changed = 0
    for file in directory.rglob("*.py"):
        if not file.is_relative_to(directory / "tests"):
            text, count = declared.subn(r"\g<1>0.5", file.read_text())
            changed += count
            file.write_text(text)
    assert changed == 1, "the default of training.clip_norm is written in another way"
    return directory


def names(directory: Path) -> set[str]:
    return {path.name for path in directory.iterdir()}


@pytest.mark.slow
def test_head_is_the_same_as_head_and_a_changed_constant_is_noticed(tmp_path):
    if not (ROOT / ".git").exists():
        pytest.skip("this is no git checkout")
    clone = clone_with_another_constant(tmp_path / "clone")
    before = names(tmp_path)
    keep = ["--only", "surgery", "--keep", str(tmp_path / "kept")]
    same = run_tool(clone, "HEAD", "HEAD", *keep)
    assert same.returncode == 0, same.stdout + same.stderr
    assert "same       surgery" in same.stdout
    evaluations = (tmp_path / "kept").glob("*/cases/surgery/run/evaluation-dev.json")
    assert len([*evaluations]) == 2  # of both sides
    changed = run_tool(clone, "HEAD", ".", *keep)
    assert changed.returncode == 1, changed.stdout + changed.stderr
    assert "DIFFERENT  surgery" in changed.stdout and "metrics.jsonl" in changed.stdout
    worktrees = subprocess.run(
        ["git", "worktree", "list"], cwd=clone, capture_output=True, text=True, check=True
    )
    assert len(worktrees.stdout.splitlines()) == 1
    assert names(tmp_path) == {*before, "kept"}
