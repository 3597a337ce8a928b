# Tested by tests/config/test_schema.py
"""The base classes and helpers of all config models."""

from pathlib import Path
from typing import Annotated, Any, Self, get_args

from pydantic import BaseModel, ConfigDict, model_validator
from pydantic_core import PydanticCustomError

from multitask.utils.limits import LARGEST_NUMBER

SMALLEST = 1e-30
# a method inside an option: its name, or {name: ..., options}
Method = Annotated[str | dict[str, Any], "method"]
EMBEDDED_DIR = Path(__file__).parent.parent / "data" / "embedded"


def mistake(key: str, message: str) -> PydanticCustomError:
    """Return the error for keys that do not fit together; it is reported at ``key``."""
    return PydanticCustomError("at_key", "{message}", {"key": key, "message": message})


def out_of_bounds(value: Any) -> str:
    """Say why a number is too large, or too close to 0, for training in fp32; "" if it is not."""
    if not isinstance(value, int | float):
        return ""
    if abs(value) > LARGEST_NUMBER:
        return f"expected a number of at most {LARGEST_NUMBER:,}, not {value:g}"
    if 0 < abs(value) < SMALLEST:
        return f"expected 0 or a number of at least {SMALLEST:g}, not {value:g}"
    return ""


class Strict(BaseModel):
    """A model that refuses unknown keys, values of another type, NaN and infinite numbers.

    It is frozen: a config does not change after it is loaded.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for key, value in self:
            problems = map(out_of_bounds, value if isinstance(value, list) else [value])
            if key != "seed" and (problem := next(filter(None, problems), "")):
                raise mistake(key, problem)
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


def model_in(annotation: Any) -> type[BaseModel] | None:
    """Return the model inside a field's annotation: ``Model`` for ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (model_in(inner) for inner in get_args(annotation))
    return next((model for model in models if model is not None), None)
