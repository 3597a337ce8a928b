"""The examples of docs/extending.md, added to a clone as the page says, break no test."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT
from tests.support.worked_examples import add_worked_examples


def clone_with_changes(directory: Path) -> None:
    """Clone the repository, with what the working tree has changed."""
    subprocess.run(["git", "clone", "--quiet", ROOT, directory], check=True)
    listing = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listing, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    for name in filter(None, names.split("\0")):
        if (ROOT / name).is_file():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, directory / name)
        else:
            (directory / name).unlink(missing_ok=True)


@pytest.mark.slow
def test_the_examples_pass_make_test(tmp_path):
    """The whole of `make test`: a closed list of names may be in any test."""
    clone = tmp_path / "clone"
    clone_with_changes(clone)
    add_worked_examples(clone)
    # the tests within are no worker of the tests without
    free = {key: value for key, value in os.environ.items() if not key.startswith("PYTEST_")}

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(command, cwd=clone, env=free, capture_output=True, text=True)

    reference = run(sys.executable, "-m", "tools.config_reference")
    assert reference.returncode == 0, reference.stderr
    (clone / "docs" / "configuration.md").write_text(reference.stdout, encoding="utf-8")
    venv = sys.prefix  # -o: nothing is installed into it
    stamps = [
        word for name in (".installed", ".installed-dev") for word in ("-o", f"{venv}/{name}")
    ]
    result = run("make", "test", f"VENV={venv}", *stamps)
    assert result.returncode == 0, result.stdout[-8000:] + result.stderr[-2000:]
