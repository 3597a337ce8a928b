"""Excerpts of stored Markdown files."""

from tools.measured_docs import text_excerpts


def test_lines_of_several_written_files_are_one_table(tmp_path, monkeypatch):
    monkeypatch.setattr(text_excerpts, "WRITTEN", tmp_path / "written")
    (tmp_path / "written").mkdir()
    for name, value in (("a", 1), ("b", 2)):
        text = f"# STS: runs/{name}-1, mean pooling\n\n|  | x | y |\n| --- | --- | --- |\n"
        text += f"| all | {value} | 5 |\n| mean | {value + 5} | 6 |\n\n- a note\n\n## More\n\n"
        text += f"    python run_multitask.py sts runs/{name}-1 --data /d/sts --output /o\n\n"
        (tmp_path / "written" / f"{name}.md").write_text(f"{text}git revision: abc123{value}\n")
    assert text_excerpts.lines("a,b").splitlines() == [
        "| all | x | y |",
        "| --- | --- | --- |",
        "| a-1, mean pooling | 1 | 5 |",
        "| b-1, mean pooling | 2 | 5 |",
        "",
        "- `python run_multitask.py sts runs/a-1 --data sts`, commit abc1231",
        "- `python run_multitask.py sts runs/b-1 --data sts`, commit abc1232",
    ]
    assert "| b-1, mean pooling | 7 | 6 |" in text_excerpts.lines("b/2")
