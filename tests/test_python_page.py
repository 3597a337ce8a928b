"""The Python code of docs/python.md runs, and so does the notebook."""

import json
import os
import re
from importlib.util import find_spec
from pathlib import Path

import pytest

import multitask
from multitask.utils.names import PACKAGED_ENCODER
from tests.conftest import ROOT

BLOCKS = re.findall(r"```python\n(.*?)```", (ROOT / "docs" / "python.md").read_text(), re.DOTALL)


def test_the_code_of_the_page_runs_in_order(tiny_encoder, tmp_path, monkeypatch):
    """With a tiny encoder and few steps; the page's `demo.yaml` is one in this directory."""
    monkeypatch.chdir(tmp_path)
    Path("demo.yaml").write_text(
        f"extends: {ROOT / 'configs' / 'demo.yaml'}\n"
        f"encoder: {{name: {tiny_encoder}}}\n"
        "training: {max_steps: 3, frozen_baseline: false}\n"
        "defaults: {max_length: 48}\n"
    )
    names: dict = {}
    for block in BLOCKS:
        exec(block.replace(PACKAGED_ENCODER, str(tiny_encoder)), names)
    assert [step for step, _ in names["losses"].losses] == [1, 2, 3]
    assert names["run"].directory == Path("runs/first")
    assert Path("runs/compared/report.html").is_file()
    assert {path.name for path in Path("runs").iterdir()} >= {"first", "second", "moods", "rows"}


def test_the_page_names_every_function():
    code = "\n".join(BLOCKS) + (ROOT / "docs" / "python.md").read_text()
    assert [name for name in multitask.__all__ if f"multitask.{name}" not in code] == []


def test_the_stored_outputs_are_short_and_of_no_ones_machine():
    text = (ROOT / "docs" / "first_run.ipynb").read_text(encoding="utf-8")
    outputs = [out for cell in json.loads(text)["cells"] for out in cell.get("outputs", ())]
    assert len(outputs) > 6 and len(text) < 60_000
    assert {out["output_type"] for out in outputs} <= {"stream", "execute_result"}
    assert {out.get("name", "stdout") for out in outputs} == {"stdout"}
    assert not re.search(r"/(home|work|tmp|root|Users)/", text)


@pytest.mark.slow
@pytest.mark.skipif(find_spec("nbclient") is None, reason="nbclient is not installed")
def test_the_notebook_runs_in_an_empty_directory(tmp_path, monkeypatch):
    import nbformat
    from nbclient import NotebookClient

    path = os.pathsep.join(filter(None, [str(ROOT), os.environ.get("PYTHONPATH")]))
    monkeypatch.setenv("PYTHONPATH", path)
    notebook = nbformat.read(ROOT / "docs" / "first_run.ipynb", as_version=4)
    where = {"metadata": {"path": str(tmp_path)}}
    stored = [cell.get("outputs") for cell in notebook.cells]
    NotebookClient(notebook, timeout=1200, kernel_name="python3", resources=where).execute()
    shows = [bool(cell.get("outputs")) for cell in notebook.cells]
    assert shows == list(map(bool, stored))  # the page shows what its cells print
    assert (tmp_path / "runs" / "first_run" / "report.html").is_file()
