"""The modules of a task that an export carries, and their numbers in the run."""

import numpy as np
import pytest

from multitask import load
from multitask.inference.export.export_parts import Parts, largest_difference
from tests.support.exports import PAIRS, TEXTS


def parts_of(directory, task):
    run = load(directory)
    return Parts(run.config, task, run.model_for(task), run.tokenizer, run.readers[task]), run


def test_a_task_with_another_tasks_pooling_names_the_other(contrastive_run):
    parts, _ = parts_of(contrastive_run, "sts")
    assert (parts.task, parts.base, parts.pooling_key) == ("sts", "views", "tasks.views.pooling")
    assert parts.pooling_name == "mean" and parts.sides == 2 and parts.max_length == 40
    assert parts.projection is not None and parts.adapter is None


def test_contrastive_tasks_compare_vectors_after_their_projection(contrastive_run, run_dir):
    views, _ = parts_of(contrastive_run, "views")
    assert views.vector_projection is views.projection is not None
    plain, _ = parts_of(run_dir, "sst")
    assert plain.projection is not None and plain.vector_projection is None


@pytest.mark.parametrize(("task", "rows"), [("sst", TEXTS), ("qqp", PAIRS), ("sts", PAIRS)])
def test_scores_and_vectors_are_the_runs(task, rows, run_dir):
    parts, run = parts_of(run_dir, task)
    predictions, scores = parts.head.predict(
        parts.scores([(row,) if isinstance(row, str) else row for row in rows])
    )
    wanted = run.predict(task, rows)
    # of two classes, a head gives the probability of the second
    shown = [one["scores"][-scores.shape[1] :] for one in wanted]
    np.testing.assert_allclose(scores, shown, atol=1e-6)
    assert len(predictions) == len(rows)
    np.testing.assert_allclose(parts.vectors(TEXTS), run.encode(TEXTS, task=task), atol=1e-6)


def test_the_saved_tokenizer_cuts_at_the_tasks_length_and_bakes_in_nothing(run_dir):
    parts, run = parts_of(run_dir, "sst")
    run.tokenizer.backend_tokenizer.enable_truncation(8)
    run.tokenizer.backend_tokenizer.enable_padding(length=8)
    made = parts.task_tokenizer()
    assert made.model_max_length == 40
    assert made.backend_tokenizer.truncation is None and made.backend_tokenizer.padding is None
    assert run.tokenizer.backend_tokenizer.truncation is not None  # the run's own stays


@pytest.mark.parametrize(
    ("actual", "wanted", "difference"),
    [
        ([0.5, 0.25], [0.5, 0.5], 0.25),
        ([110.0], [100.0], 0.1),  # of large numbers the share
        ([-3.0], [-2.0], 0.5),
        ([1.0, 2.0], [1.0], float("inf")),
    ],
)
def test_the_largest_difference(actual, wanted, difference):
    assert largest_difference(np.array(actual), np.array(wanted)) == pytest.approx(difference)
