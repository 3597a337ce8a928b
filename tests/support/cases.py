"""The facts that the contract tests need about a registered method, found by its name."""

from functools import cache
from importlib import import_module
from types import ModuleType

from multitask.config.registry import TASK_TYPES, resolve
from tests.conftest import ROOT


@cache
def type_case(name: str) -> ModuleType:
    """The case of a task type, named as the type's file.

    It has:
        DATA: the keys of `data` for a task of the type, such as its label column.
        cell(number): the label cell of a row; if DATA has a label column that other types lack.
        VALUES: what `read` takes, for the classes p, q and r; if rows have one label each.
        SELECTS: the metrics that may select weights.
        columns(rows, seed): random labels, predictions and scores.
        naive(labels, predictions, scores): every metric as a plain formula.
    For heads on vectors also:
        LABELS: valid labels of 5 rows; 3 classes, numbers from 1 to 5.
        naive_loss(scores, labels, **options): the loss as a plain formula.
        check_predictions(head, scores, predictions, shown): what a prediction must be.
    """
    file = TASK_TYPES[name].partition(":")[0].rpartition(".")[2]
    return _case(f"task type {name!r}", f"tests/tasks/cases/{file}.py")


@cache
def head_case(name: str) -> ModuleType:
    """The case of a head on vectors, named as the head.

    It has ``naive_scores(head, *vectors, **options)``, the scores of one row as a plain formula.
    It may have VARIANTS, a list of options that change the computation, and ``naive_loss`` if the
    loss is not that of other heads of the type.
    """
    return _case(f"head {name!r}", f"tests/heads/cases/{name}.py")


@cache
def sampler_case(name: str) -> ModuleType:
    """The case of a task sampler, named as the sampler.

    It has ``weights(rows, epoch, epochs, **options)``, the formula of the tasks' weights, if the
    sampler is one of ``Shares``. It may have:
        options(rows): options that the sampler needs.
        VARIED: hypothesis strategies for other options, by name.
    """
    return _case(f"sampler {name!r}", f"tests/data/cases/{name}.py")


@cache
def adapter_case(name: str) -> ModuleType:
    """The case of an adapter, named as the adapter.

    It has:
        OPTIONS: options for a small encoder.
        FORMULAS: what attention adds, what the feed-forward part adds, the term added to both; each
            a function of (adapter's state, layer, hidden states of a sentence).
        STARTS_AS_THE_ENCODER: False if it changes the output a little before the first step.
        parameters(d, layers): their number.
        learns_at_once(key): True if a parameter has a gradient in the first step.
    And it may have:
        weights(bert, state, acts_in): the encoder's state dict as the adapter changes it.
    """
    return _case(f"adapter {name!r}", f"tests/pals/cases/{name}.py")


@cache
def surgery_case(name: str) -> ModuleType:
    """The case of a method of gradient surgery, named as the method.

    It has ``reference()``, a function from the gradients [tasks, d] to the combined one [d] of an
    independent library. It may have NEEDS, a package to skip the method without.
    """
    return _case(f"gradient surgery {name!r}", f"tests/training/cases/{name}.py")


def loss_of(name: str) -> ModuleType:
    """The case that has the head's ``naive_loss``: its own or that of its task type."""
    own = head_case(name)
    return own if hasattr(own, "naive_loss") else type_case(resolve("head", name).task_type)


def _case(what: str, file: str) -> ModuleType:
    """Import a case; AssertionError if nobody has written it."""
    assert (ROOT / file).is_file(), f"{what}: write {file}, see tests/support/cases.py"
    return import_module(file.removesuffix(".py").replace("/", "."))
