"""Fixtures of the reporting tests."""

import pytest


@pytest.fixture(scope="module", autouse=True)
def blank_figures() -> None:
    """Figures are drawn here, not left blank as in other tests."""
