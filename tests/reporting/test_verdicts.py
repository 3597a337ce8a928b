"""How the training of two rows differs."""

import pytest

from multitask.reporting import verdicts


@pytest.mark.parametrize(
    ("counts", "expected"),
    [([100, 101], False), ([100, 102], True), ([100, None, 300], False), ([], False)],
)
def test_counts_differ_by_more_than_a_percent(counts, expected):
    assert verdicts.differ(counts) is expected


def test_shares_name_the_counts_that_differ():
    base = {"updates": 300, "trained_rows": 900}
    assert verdicts.unlike({"updates": 100, "trained_rows": 905}, base) == "33 % of the updates"
    both = verdicts.unlike({"updates": 600, "trained_rows": 450}, base)
    assert both == "200 % of the updates, 50 % of the trained rows"
    alike = verdicts.unlike({"updates": 600, "trained_rows": 1800}, base)
    assert alike == "200 % of the updates and trained rows"
    untrained = verdicts.unlike({"updates": 100}, base, untrained=True)
    assert untrained.startswith("33 % of the updates, ")
    assert verdicts.unlike(base, base, untrained=True) and not verdicts.unlike(base, base)
    assert verdicts.unlike({}, base) == verdicts.unlike(base, base) == ""
