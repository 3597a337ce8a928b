"""Metrics never warn."""

import warnings

import pytest


@pytest.fixture
def no_warnings():
    """Make every warning an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield
