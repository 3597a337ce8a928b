"""A missing optional package is one line that names the install."""

import json

import pytest

from multitask.utils.errors import UserError
from multitask.utils.optional import optional


def test_a_package_is_imported_or_named_with_its_install():
    assert optional("json", "JSON", "json") is json
    with pytest.raises(UserError, match=r"^the page needs Nothing: pip install nothing-at-all$"):
        optional("nothing_at_all", "the page needs Nothing", "nothing-at-all")
