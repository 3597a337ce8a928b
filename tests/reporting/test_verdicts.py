"""How the training of two groups differs."""

import pytest

from multitask.reporting import verdicts
from multitask.store.saved import RunReport

CONFIG = {"tasks": {"sst": {"batch_size": 32}, "qqp": {"batch_size": 8, "accumulation": 2}}}


def report(done, **turns):
    entry = {"label_type": "class", "metric": "accuracy", "dev": {}}
    tasks = {task: {**entry, "turns": {"trained": count}} for task, count in turns.items()}
    steps = {"planned": 9999, "done": done}
    content = {"seed": 1, "selection_split": "dev", "steps": steps, "tasks": tasks}
    return RunReport.model_validate(content)


def test_rows_are_turns_by_the_rows_of_a_step_and_counts_are_means_over_seeds():
    reports = [report(30, sst=10, qqp=20), report(10, sst=10, qqp=0)]
    assert verdicts.updates(reports) == 20
    assert verdicts.trained_rows(CONFIG, reports) == (10 * 32 + 20 * 16 + 10 * 32) / 2


def test_a_report_without_steps_or_turns_has_no_count():
    assert verdicts.updates([report(0, sst=3)]) is None
    assert verdicts.trained_rows(CONFIG, [report(3, sst=0)]) is None
    assert verdicts.trained_rows({"tasks": {}}, [report(3, sst=3)]) is None


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
