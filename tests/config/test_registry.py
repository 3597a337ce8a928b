"""Every registered name resolves; wrong names and options are user errors."""

import inspect

import pytest

from heads.base import Head
from heads.binary import BinaryHead
from multitask.config import registry
from multitask.config.registry import INPUTS, TASK_TYPES, input_type
from multitask.utils.errors import UserError

NAMES = [(kind, name) for kind, names in registry.KINDS.items() for name in names]


@pytest.mark.parametrize(("kind", "name"), NAMES)
def test_every_name_is_documented(kind, name):
    result = registry.resolve(kind, name)
    assert inspect.isfunction(result) if kind == "gradient_surgery" else inspect.isclass(result)
    assert result.__doc__
    assert inspect.getmodule(result).__doc__
    if kind == "head":
        forms = [input_type(form) for form in INPUTS]
        assert any(result.reads(form, how) for form in forms for how in (True, False))
        assert result.task_type in TASK_TYPES


@pytest.mark.parametrize(
    ("kind", "name", "part"),
    [
        ("adapter", "pall", "unknown adapter 'pall' (did you mean 'pal'?)"),
        ("pooling", "men", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("head", "clasification", "did you mean 'classification'?"),
        ("projection", "qqqq", "(known: linear, tanh, bert_pooler, mlp, mlp_batchnorm)"),
        ("sampler", "", "unknown sampler ''"),
    ],
)
def test_unknown_name(kind, name, part):
    for act in (registry.check_name, registry.resolve):
        with pytest.raises(UserError) as caught:
            act(kind, name)
        assert part in str(caught.value)


def test_an_option_without_a_default_is_asked_for():
    with pytest.raises(UserError, match="sampler 'fixed': the option 'weights' is missing"):
        registry.build("sampler", "fixed", {}, {"sizes": {"a": 3}, "joint": False})


class Stub:
    """A method with options of every type."""

    def __init__(
        self,
        dim: int,
        size: int = 1,
        share: float = 0.5,
        switch: bool = False,
        words: list[str] | tuple[str, ...] = ("a",),
        anything=None,  # type: ignore[no-untyped-def]
        how: str | None = None,
        shares: list[float] | dict[str, float] | None = None,
    ) -> None:
        if size < 1:
            raise ValueError("size must be\nat least 1")
        if how == "crash":
            raise RuntimeError("negative dimension")
        self.given = (dim, size, share, switch, list(words), anything, how)


class NoOptions:
    """A method without options."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


@pytest.fixture
def stubs(monkeypatch: pytest.MonkeyPatch) -> None:
    classes = {"stub": Stub, "plain": NoOptions}
    monkeypatch.setattr(registry, "resolve", lambda kind, name: classes[name])


CONTEXT = {"dim": 8, "unused": 1}


def test_options_and_context_reach_the_constructor(stubs):
    options = {"size": 2, "share": 1, "switch": True, "words": ["b"], "anything": [1], "how": None}
    made = registry.build("head", "stub", options, CONTEXT)
    assert made.given == (8, 2, 1.0, True, ["b"], [1], None)
    assert registry.build("head", "stub", {}, CONTEXT).given == (
        8,
        1,
        0.5,
        False,
        ["a"],
        None,
        None,
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"sise": 2}, "head 'stub' has no option 'sise' (did you mean 'size'?)"),
        ({"dim": 2}, "head 'stub' has no option 'dim'"),  # supplied by the program
        ({"size": 0}, "head 'stub': size must be at least 1"),
        ({"how": "crash"}, "head 'stub': negative dimension"),
        ({"size": 2.5}, "head 'stub': size must be a whole number, not 2.5"),
        ({"size": True}, "head 'stub': size must be a whole number, not True"),
        ({"share": "much"}, "head 'stub': share must be a number, not 'much'"),
        ({"switch": "no"}, "head 'stub': switch must be true or false, not 'no'"),
        ({"words": "ab"}, "head 'stub': words must be a list of texts, not 'ab'"),
        ({"words": [1]}, "head 'stub': words must be a list of texts, not [1]"),
        ({"how": 5}, "head 'stub': how must be a text or null, not 5"),
        ({"size": -(10**9)}, "head 'stub': size: expected a number"),
        ({"share": 1e38}, "head 'stub': share: expected a number"),
        ({"shares": [1, 1e38]}, "head 'stub': shares: expected a number"),
        ({"shares": {"a": 1e-38}}, "head 'stub': shares: expected a number"),
    ],
)
def test_option_that_does_not_fit(options, message, stubs):
    with pytest.raises(UserError) as caught:
        registry.build("head", "stub", options, CONTEXT)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert caught.value.key == tuple(options)


def test_a_method_without_options_says_so(stubs):
    with pytest.raises(UserError, match=r"has no option 'x' \(it has no options\)"):
        registry.build("head", "plain", {"x": 1}, CONTEXT)


def test_real_head_refuses_through_the_registry():
    context = {"dim": 4, "num_labels": 3, "class_counts": [1, 1, 1]}
    with pytest.raises(UserError, match="'classification': label_smoothing must be"):
        registry.build("head", "classification", {"label_smoothing": 2.0}, context)
    with pytest.raises(UserError, match="'cosine_regression': linear must be true or false"):
        options = {"linear": "no"}
        registry.build("head", "cosine_regression", options, {"dim": 4, "low": 0.0, "high": 5.0})


def test_a_head_that_lacks_a_part_or_its_module_is_one_line(monkeypatch):
    class NoHead:
        task_type = "class"

    class Incomplete(Head):
        task_type = "class"

    class NoType(BinaryHead):
        task_type = ""

    monkeypatch.setitem(registry.HEADS, "mine", "heads.nowhere:Head")
    with pytest.raises(UserError, match=r"heads.nowhere:Head: no module 'heads.nowhere'"):
        registry.head_type("mine")
    monkeypatch.setitem(registry.HEADS, "mine", "heads.binary:Nothing")
    with pytest.raises(UserError, match=r"heads.binary:Nothing: .*has no attribute 'Nothing'"):
        registry.head_type("mine")
    reasons = {NoHead: "is no .*Head", Incomplete: "no `criterion`", NoType: "no `task_type`"}
    for made, reason in reasons.items():
        monkeypatch.setattr(registry, "resolve", lambda kind, name, made=made: made)
        with pytest.raises(UserError, match=rf"head 'mine' .* {reason}"):
            registry.head_type("mine")


def test_what_commands_without_torch_know_of_a_head_is_what_its_class_says():
    for name in registry.HEADS:
        head = registry.resolve("head", name)
        assert registry.HEAD_TYPES.get(name, head.task_type) == head.task_type
        assert registry.is_ordered(name) == head.ordered


def test_a_class_of_an_allowed_package_may_be_named(monkeypatch):
    name = "heads.binary:BinaryHead"
    with pytest.raises(UserError, match="unknown head"):
        registry.resolve("head", name)
    monkeypatch.setenv("MULTITASK_MODULES", "mine,heads")
    assert registry.head_type(name).name == "binary"
    with pytest.raises(UserError, match="unknown head"):
        registry.resolve("head", "headsmine.binary:BinaryHead")


NO_NAMES = [":x", ".a:b", "a.:B", "mine:", "mine.:C", "mine..b:C", " mine:C", "mine :C", "mine:C "]
NO_NAMES += [":", ".", "..:C", "mine:C:D", "mine\n:C", "", ",:C", "mine,heads:C", ".mine:C"]


@pytest.mark.parametrize("kind", list(registry.KINDS))
@pytest.mark.parametrize("packages", [None, "", ",", "mine", ".", "mine,,heads"])
def test_a_malformed_name_is_unknown_whatever_is_allowed(kind, packages, monkeypatch):
    if packages is not None:
        monkeypatch.setenv("MULTITASK_MODULES", packages)
    for name in NO_NAMES:
        with pytest.raises(UserError) as caught:
            registry.resolve(kind, name)
        assert repr(name) in str(caught.value), name


@pytest.mark.parametrize("text", ["import nothing_there", "from os import nothing", "x = = 1"])
def test_a_module_that_cannot_be_imported_is_one_line(text, tmp_path, monkeypatch):
    (tmp_path / "mine_broken.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setenv("MULTITASK_MODULES", "mine_broken")
    with pytest.raises(UserError) as caught:
        registry.resolve("head", "mine_broken:Head")
    assert "mine_broken:Head" in str(caught.value) and "\n" not in str(caught.value)
