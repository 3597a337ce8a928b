"""The comparisons of a resume before anything is written."""

import json
import shutil
from pathlib import Path

import pytest

import run_multitask
from multitask.store.run_directory import RunDirectory
from multitask.training import train_run
from multitask.training.resume import is_complete
from tests.support.kill import interrupt_at
from tests.support.run_files import results

SHORT = ["training.max_steps=4", "training.eval_steps=2", "training.frozen_baseline=false"]


@pytest.fixture
def encoder(tiny_encoder, tmp_path) -> Path:
    """A copy of the encoder that may be changed."""
    return shutil.copytree(tiny_encoder, tmp_path / "encoder")


@pytest.fixture
def data(course_files, tmp_path) -> Path:
    """A copy of the data that may be changed."""
    return shutil.copytree(course_files, tmp_path / "data")


@pytest.fixture
def command(tiny_overrides, encoder, data) -> list[str]:
    changes = [f"encoder.name={encoder}", f"data_dir={data}"]
    return ["configs/cs224n.yaml", *tiny_overrides, *SHORT, *changes]


@pytest.fixture
def run(tmp_path) -> RunDirectory:
    return RunDirectory(tmp_path / "run")


@pytest.fixture
def finished(command, run) -> RunDirectory:
    assert run_multitask.main(command) == 0
    return run


@pytest.fixture
def interrupted(command, run, monkeypatch) -> RunDirectory:
    """A run that was stopped after three steps."""
    with monkeypatch.context() as patch:
        interrupt_at(patch, 3)
        assert run_multitask.main(command) == 75
    assert run.saved_checkpoints() and not run.finished
    return run


def state(directory: Path) -> dict[str, tuple[int, int, bytes]]:
    """The inode, the time and the content of everything in a directory, except of its lock."""
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns, content(path))
        for path in (directory, *directory.rglob("*"))
        if path.name != "owner.lock"
    }


def content(path: Path) -> bytes:
    return path.read_bytes() if path.is_file() else b""


def edit(file: Path, **values) -> None:
    file.write_text(json.dumps(json.loads(file.read_text()) | values))


# --- a finished run ---


def test_a_finished_run_that_is_resumed_changes_nothing(command, finished, capsys):
    before = state(finished.path)
    capsys.readouterr()
    assert run_multitask.main([*command, "--resume"]) == 0
    said = capsys.readouterr().out
    assert f"{finished.path} is finished" in said and f"report: {finished.markdown_page}" in said
    assert state(finished.path) == before


def test_weights_are_discarded_at_the_end_also_if_the_run_was_killed_before(
    command, finished, capsys
):
    """`ablate` asks for it. It is done under the lock of the run."""
    folders = (finished.checkpoints, finished.weights, finished.encoder)
    assert run_multitask.main([*command, "--resume"]) == 0 and all(f.is_dir() for f in folders)
    for options in (["--resume"], ["--overwrite"]):
        assert run_multitask.main([*command, *options, "--discard-weights"]) == 0
        assert not any(folder.exists() for folder in folders)
        assert finished.markdown_page.is_file() and finished.lock.read_text() == ""
    before = state(finished.path)
    assert run_multitask.main([*command, "--resume"]) == 0 and state(finished.path) == before


@pytest.mark.parametrize("page", ["markdown_page", "html_page", "card"])
def test_a_page_that_a_kill_left_out_is_written(page, command, finished):
    before = results(finished.path)
    getattr(finished, page).unlink()
    log = content(finished.metrics)
    assert run_multitask.main([*command, "--resume"]) == 0
    assert getattr(finished, page).is_file()
    assert results(finished.path) == before and content(finished.metrics) == log


@pytest.mark.parametrize("name", ["encoder", "best", "report", "baselines"])
def test_what_is_missing_is_written_again(name, command, finished):
    before = results(finished.path)
    path = getattr(finished, name)
    (shutil.rmtree if path.is_dir() else Path.unlink)(path)
    assert not is_complete(finished)
    assert run_multitask.main([*command, "--resume"]) == 0
    assert results(finished.path) == before and is_complete(finished)


# --- another start ---


def other_eps(encoder: Path, data: Path, run: RunDirectory) -> None:
    edit(encoder / "config.json", layer_norm_eps=0.5)


def other_tokenizer(encoder: Path, data: Path, run: RunDirectory) -> None:
    file = encoder / "tokenizer.json"
    file.write_text(file.read_text().replace('"lowercase": true', '"lowercase": false'))


def other_data(encoder: Path, data: Path, run: RunDirectory, split: str = "train") -> None:
    file = data / f"ids-sst-{split}.csv"
    file.write_text("".join(file.read_text().splitlines(keepends=True)[:-3]))


def other_dev(encoder: Path, data: Path, run: RunDirectory) -> None:
    other_data(encoder, data, run, "dev")


def shorter_log(encoder: Path, data: Path, run: RunDirectory) -> None:
    run.metrics.write_text("")
    run.baselines.write_text("{}")  # a resume would write them again


def linked_figures(encoder: Path, data: Path, run: RunDirectory) -> None:
    if run.figures.is_dir():
        shutil.rmtree(run.figures)
    run.figures.symlink_to(data)


def damaged_checkpoints(encoder: Path, data: Path, run: RunDirectory) -> None:
    for checkpoint in run.saved_checkpoints():
        (checkpoint / "state.json").write_text("{")


OTHERS = [other_eps, other_tokenizer, other_data, other_dev, linked_figures]


@pytest.mark.parametrize("change", [*OTHERS, shorter_log, damaged_checkpoints])
def test_a_refused_resume_has_changed_nothing(change, command, interrupted, encoder, data, capsys):
    change(encoder, data, interrupted)
    before = state(interrupted.path)
    complaint_of_resume(capsys, command)
    assert state(interrupted.path) == before


@pytest.mark.parametrize("change", [other_eps, other_data])
def test_a_refused_resume_of_a_finished_run_has_changed_nothing(
    change, command, finished, encoder, data, capsys
):
    change(encoder, data, finished)
    before = state(finished.path)
    complaint_of_resume(capsys, command)
    assert state(finished.path) == before


def complaint_of_resume(capsys, command) -> str:
    capsys.readouterr()
    assert run_multitask.main([*command, "--resume"]) == 2
    (line,) = [one for one in capsys.readouterr().err.splitlines() if one.startswith("error: ")]
    return line


def test_the_values_that_differ_are_named(command, interrupted, encoder, capsys):
    edit(encoder / "config.json", num_attention_heads=1, layer_norm_eps=0.5)
    line = complaint_of_resume(capsys, command)
    assert "other values of num_attention_heads, layer_norm_eps" in line and str(encoder) in line


def test_the_keys_that_differ_are_named(command, interrupted, capsys):
    line = complaint_of_resume(capsys, [*command, "training.lr=0.5", "tasks.sst.pooling=max"])
    assert "training.lr (2e-05 -> 0.5)" in line and "tasks.sst.pooling.name (cls -> max)" in line


def test_the_data_are_compared_before_the_first_checkpoint(
    command, interrupted, data, encoder, capsys
):
    """The baselines are of the data that the run was started with. They may be moved."""
    shutil.rmtree(interrupted.checkpoints)
    moved = [*command, f"data_dir={shutil.copytree(data, data.with_name('moved'))}"]
    other_data(encoder, data, interrupted)
    assert "the data of sst are not those" in complaint_of_resume(capsys, command)
    assert run_multitask.main([*moved, "--resume"]) == 0


def test_notes_and_the_order_of_keys_are_no_difference(command, interrupted, encoder):
    values = json.loads((encoder / "config.json").read_text())
    values |= {"transformers_version": "4.0.0", "_name_or_path": "elsewhere", "dtype": "float16"}
    (encoder / "config.json").write_text(json.dumps(dict(reversed(values.items()))))
    assert run_multitask.main([*command, "--resume"]) == 0


def test_the_encoder_may_be_somewhere_else_if_the_run_has_its_own(command, interrupted):
    """Written once: the files are not touched by a resume."""
    before = state(interrupted.encoder)
    assert run_multitask.main([*command, "--resume"]) == 0
    assert state(interrupted.encoder) == before


def test_a_lost_config_is_no_reason_to_start_anew(command, interrupted, capsys):
    interrupted.config.unlink()
    assert run_multitask.main([*command, "--resume"]) == 0
    assert "resuming" in capsys.readouterr().out


@pytest.mark.parametrize("text", ["[", '{"format": 1, "started_with": {}}'])
def test_a_damaged_start_or_one_of_another_version_is_refused(text, command, interrupted, capsys):
    interrupted.marker.write_text(text)
    assert "another version of this program" in complaint_of_resume(capsys, command)


# --- what another process does meanwhile ---


@pytest.mark.parametrize("options", [[], ["--resume"]])
def test_a_run_that_finished_while_this_one_was_loading_is_left_alone(
    options, command, run, monkeypatch, capsys
):
    original, states = train_run.set_up, []

    def slow(*arguments, **more):
        plan = original(*arguments, **more)
        if not states:
            states.append({})
            other = [] if options else ["seed=2"]
            assert run_multitask.main([*command, *other]) == 0
            states.append(state(run.path))
            capsys.readouterr()
        return plan

    monkeypatch.setattr(train_run, "set_up", slow)
    code = run_multitask.main([*command, *options])
    assert state(run.path) == states[1]
    said = capsys.readouterr()
    if options:
        assert code == 0 and "is finished" in said.out
    else:
        assert code == 2 and "holds a run already" in said.err


# --- damage ---


def test_an_encoder_that_is_damaged_is_written_again(command, interrupted):
    """Also without checksums."""
    (interrupted.encoder / "SHA256SUMS").unlink()
    for name, text in (("tokenizer.json", "{"), ("config.json", "[]")):
        before = (interrupted.encoder / name).read_text()
        (interrupted.encoder / name).write_text(text)
    assert run_multitask.main([*command, "--resume"]) == 0
    assert (interrupted.encoder / name).read_text() == before


def test_a_finish_that_was_repeated_and_killed_is_not_complete(finished):
    finished.seal(finished=False)
    assert not is_complete(finished)
    finished.checksums.unlink()
    assert not is_complete(finished)
