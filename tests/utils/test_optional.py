"""A missing optional package is one line that names the install."""

import json
import shlex

import pytest

from multitask.utils import optional as module
from multitask.utils.errors import UserError
from multitask.utils.optional import install_command, optional


def test_a_package_is_imported_or_named_with_its_install():
    assert optional("json", "JSON", "serve") is json
    with pytest.raises(UserError, match=r"^the page needs Nothing: pip install -e .*\[serve\]'$"):
        optional("nothing_at_all", "the page needs Nothing", "serve")


def test_the_command_is_quoted_for_a_shell(tmp_path, monkeypatch):
    clone = tmp_path / "my clone"
    clone.mkdir()
    monkeypatch.setattr(module, "ROOT", clone)
    assert install_command("tags") == "pip install 'multitask-bert[tags]'"
    (clone / "pyproject.toml").touch()
    assert shlex.split(install_command("tags")) == ["pip", "install", "-e", f"{clone}[tags]"]
