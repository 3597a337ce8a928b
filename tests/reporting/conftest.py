"""Fixtures of the reporting tests."""

import warnings

import pytest


@pytest.fixture(scope="module", autouse=True)
def blank_figures() -> None:
    """Figures are drawn here, not left blank as in other tests."""


@pytest.fixture(autouse=True)
def no_warnings():
    """Make warnings errors: of a missing layout, a bad limit, NaN in a slice."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
