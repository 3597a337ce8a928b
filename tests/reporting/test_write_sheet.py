"""Only the files of an earlier comparison are replaced."""

import shutil

import pytest

import run_multitask
from multitask.reporting import compare
from multitask.reporting.sheet import NAMES, check_comparison, is_page
from multitask.utils.errors import UserError
from tests.support.messages import complaint


def report(run, output) -> list[str]:
    return ["report", str(run), "--output", str(output)]


@pytest.mark.parametrize("name", ["comparison.json", *NAMES])
def test_a_file_of_the_user_is_left_alone(name, tiny_run, tmp_path, capsys):
    (tmp_path / name).write_text("years of work")
    assert f"{name} was not written" in complaint(capsys, *report(tiny_run, tmp_path))
    assert (tmp_path / name).read_text() == "years of work"
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_an_earlier_comparison_is_replaced_and_a_page_of_the_user_is_not(
    tiny_run, tmp_path, capsys
):
    out = tmp_path / "out"
    for _ in range(2):
        assert run_multitask.main(report(tiny_run, out)) == 0
    assert is_page(out / "report.html")
    (out / "report.html").write_text("<html>mine</html>")
    assert "report.html was not written" in complaint(capsys, *report(tiny_run, out))
    assert (out / "report.html").read_text() == "<html>mine</html>"


def test_a_file_that_appears_while_runs_are_compared_is_left_alone(
    tiny_run, tmp_path, capsys, monkeypatch
):
    original = compare.compare

    def slow(*arguments, **options):
        (tmp_path / "out").mkdir()
        (tmp_path / "out" / "table.md").write_text("mine")
        return original(*arguments, **options)

    monkeypatch.setattr(compare, "compare", slow)
    assert run_multitask.main(report(tiny_run, tmp_path / "out")) == 2
    assert "table.md was not written" in capsys.readouterr().err
    assert (tmp_path / "out" / "table.md").read_text() == "mine"


def test_a_run_that_appears_while_runs_are_compared_is_left_alone(
    tiny_run, tmp_path, capsys, monkeypatch
):
    original = compare.compare

    def slow(*arguments, **options):
        shutil.copytree(tiny_run, tmp_path / "out")
        return original(*arguments, **options)

    monkeypatch.setattr(compare, "compare", slow)
    assert run_multitask.main(report(tiny_run, tmp_path / "out")) == 2
    assert "holds a run" in capsys.readouterr().err


def test_only_our_pages_are_known(tiny_run, tmp_path):
    assert is_page(tiny_run / "report.html")
    (tmp_path / "page.html").write_text("<!DOCTYPE html><title>mine</title>")
    assert not is_page(tmp_path / "page.html")
    check_comparison(tmp_path)
    shutil.copy(tmp_path / "page.html", tmp_path / "report.html")
    with pytest.raises(UserError):
        check_comparison(tmp_path)
