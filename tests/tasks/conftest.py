"""Metrics never warn."""

import warnings

import pytest


@pytest.fixture
def no_warnings():
    """Make every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.simplefilter("ignore", ResourceWarning)  # of files that earlier tests left open
        yield
