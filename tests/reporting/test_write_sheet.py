"""Only a directory that is empty or has results of ours gets a sheet."""

import shutil

import pytest

import run_multitask
from multitask.reporting import compare
from tests.support.messages import complaint


def report(run, output) -> list[str]:
    return ["report", str(run), "--output", str(output)]


@pytest.mark.parametrize("name", ["comparison.json", "table.md", "report.html", "notes.txt"])
def test_a_directory_of_the_user_is_left_alone(name, tiny_run, tmp_path, capsys):
    (tmp_path / name).write_text("years of work")
    assert f"{tmp_path} is not empty" in complaint(capsys, *report(tiny_run, tmp_path))
    assert (tmp_path / name).read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_run_is_left_alone(tiny_run, capsys):
    assert "is not empty" in complaint(capsys, *report(tiny_run, tiny_run))


def test_an_earlier_comparison_is_replaced(tiny_run, tmp_path):
    out = tmp_path / "out"
    for _ in range(2):
        assert run_multitask.main(report(tiny_run, out)) == 0
    assert "macro" in (out / "metrics.md").read_text() and (out / "metrics.tex").is_file()


def test_a_run_that_appears_while_runs_are_compared_is_left_alone(
    tiny_run, tmp_path, capsys, monkeypatch
):
    original = compare.compare

    def slow(*arguments, **options):
        shutil.copytree(tiny_run, tmp_path / "out")
        return original(*arguments, **options)

    monkeypatch.setattr(compare, "compare", slow)
    assert run_multitask.main(report(tiny_run, tmp_path / "out")) == 2
    assert "is not empty" in capsys.readouterr().err
    assert not (tmp_path / "out" / "comparison.json").exists()
