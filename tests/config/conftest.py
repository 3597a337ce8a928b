"""Fixtures of the config's tests."""

from collections.abc import Callable
from pathlib import Path

import pytest

BASE = """\
training:
  epochs: 2
tasks:
  t:
    data:
      train: train.csv
      dev: dev.csv
    head: classification
  pair:
    data: {train: train.csv, dev: dev.csv, text2: second}
    input: siamese
    head: {name: siamese_paraphrase, features: [abs_diff]}
    course_file: {name: n, column: c}
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """base.yaml, with the tasks `t` and `pair`, in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE)
    return Path("base.yaml")


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """``files(name=text, ...)`` writes NAME.yaml in the working directory."""
    monkeypatch.chdir(tmp_path)

    def write(**texts: str) -> None:
        for name, text in texts.items():
            Path(f"{name}.yaml").write_text(text, encoding="utf-8")

    return write
