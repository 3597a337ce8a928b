"""The losses of a step, as ``train_step`` computes them."""

from multitask.training.loss import Objective


def task_losses(model, batches, smart=None, teacher=None, r_drop=None):
    """Each task's outcome; ``smart`` and ``r_drop`` have the settings by task."""
    objective = Objective({}, smart or {}, teacher, r_drop=r_drop or {})
    return objective.losses(model, batches)
