# Tested by tests/config/test_schema.py
"""The base classes and helpers of all config models."""

from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, ClassVar, Self, get_args

from pydantic import AfterValidator, BaseModel, ConfigDict, ValidationError, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

from multitask.config.yaml_reader import KeyPath
from multitask.utils.errors import UserError
from multitask.utils.limits import LARGEST_NUMBER
from multitask.utils.names import EMBEDDED
from multitask.utils.paths import check_utf8, expand_home

SMALLEST = 1e-30  # training in fp32 makes a smaller number 0
# a method inside an option: its name, or {name: ..., options}
Method = Annotated[str | dict[str, Any], "method"]
EMBEDDED_DIR = Path(__file__).parent.parent / "data" / "embedded"
_EXPECTED = {
    "int_type": "expected a whole number",
    "int_from_float": "expected a whole number",
    "float_type": "expected a number",
    "string_type": "expected text",
    "bool_type": "expected true or false",
    "list_type": "expected a list",
    "dict_type": "expected keys and values",
    "model_type": "expected keys and values",
}


def mistake(key: str, message: str) -> PydanticCustomError:
    """Return the error for keys that do not fit together; it is reported at ``key``."""
    return PydanticCustomError("at_key", "{message}", {"key": key, "message": message})


def describe(error: ValidationError) -> tuple[KeyPath, str, str]:
    """Return the key path, the message and pydantic's type of the first mistake that it found.

    An unknown key is the first: it is often a misspelling of one that is missing.
    """
    problems = error.errors(include_url=False)
    problem = next((p for p in problems if p["type"] == "extra_forbidden"), problems[0])
    if problem["type"].endswith("_type"):  # of the types that a value may have: the last
        above = problem["loc"][:-1]
        problem = [p for p in problems if p["loc"][:-1] == above][-1]
    path, kind, message = tuple(problem["loc"]), problem["type"], problem["msg"]
    context, shown = problem.get("ctx", {}), repr(problem["input"])
    shown = {"None": "null", "True": "true", "False": "false"}.get(shown, shown[:80])
    if kind == "at_key":
        return (*path, *context["key"].split(".")), message, kind
    if kind == "value_error":
        path = tuple(key for key in path if key != "[key]")
        return path, message.removeprefix("Value error, "), kind
    if kind == "too_long":
        return path, f"at most {context['max_length']:,} are possible", kind
    if kind == "too_short":
        return path, f"at least {context['min_length']} needed", kind
    message = _EXPECTED.get(kind, message.replace("Input should be", "should be"))
    if context.get("class_name") == "Choice":
        message = "expected a name, or a name and options"
    return path, f"{message}, not {shown}", kind


def checked(function: Callable[[Any], Any]) -> AfterValidator:
    """Return a validator of a key: what ``function`` returns, or the value if that is None.

    A UserError is reported at the key.
    """

    def validate(value: Any) -> Any:
        try:
            result = function(value)
        except UserError as error:
            raise ValueError(str(error)) from None
        return value if result is None else result

    return AfterValidator(validate)


def path_text(name: str) -> str:
    """Replace ``~`` in a path by the home directory. Raises UserError if no file can be there."""
    expanded = str(expand_home(name))
    check_utf8(expanded)
    return expanded if name.startswith("~") else name  # `a/../b` and hub ids stay as written


def _absolute(name: str) -> str:
    return name if name == EMBEDDED else path_text(str(expand_home(name).absolute()))


PathText = Annotated[str, checked(path_text)]
AbsolutePath = Annotated[str, checked(_absolute)]


class Strict(BaseModel):
    """A model that refuses unknown keys, values of another type, NaN and infinite numbers.

    It is frozen: a config does not change after it is loaded.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)
    largest: ClassVar[int] = LARGEST_NUMBER

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for key in self.model_fields_set:
            value = getattr(self, key)
            inside = value.values() if isinstance(value, dict) else value
            for number in inside if isinstance(value, dict | list) else [value]:
                if not isinstance(number, int | float) or key == "seed":
                    continue
                if abs(number) > self.largest or 0 < abs(number) < SMALLEST:
                    message = f"expected a number of at most {self.largest:,}, and not nearer to 0"
                    raise mistake(key, f"{message} than {SMALLEST:g}, not {number:g}")
        return self


class Choice(BaseModel):
    """A method: its name (``pooling: mean``), or name and options (``{name: ..., ...}``)."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    name: str
    """A registered name."""

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """All keys except ``name``: any YAML, the constructor arguments of the method."""
        return dict(self.model_extra or {})


def fields_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by the keys that YAML has."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside a field's annotation: ``Model`` for ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (model_in(inner) for inner in get_args(annotation))
    return next((model for model in models if model is not None), None)
