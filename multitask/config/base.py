# Tested by tests/config/test_schema.py
"""What the models of a config share."""

from pathlib import Path
from typing import Any, Self, get_args

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    model_validator,
)
from pydantic_core import PydanticCustomError

from multitask.utils.limits import LARGEST_NUMBER

EMBEDDED_DIR = Path(__file__).parent.parent / "data" / "embedded"


def mistake(key: str, message: str) -> PydanticCustomError:
    """A mistake in the relation between keys, to be reported at ``key``."""
    return PydanticCustomError("at_key", "{message}", {"key": key, "message": message})


class Strict(BaseModel):
    """Keys of a config: no unknown one, no value of another type, no endless number.

    A config does not change after it is loaded.
    """

    model_config = ConfigDict(extra="forbid", strict=True, allow_inf_nan=False, frozen=True)

    @model_validator(mode="after")
    def _bounded(self) -> Self:
        for key, value in self:
            wide = isinstance(value, int) and abs(value) > LARGEST_NUMBER
            if wide and key != "seed":
                raise mistake(key, f"expected a whole number of at most {LARGEST_NUMBER:,}")
        return self


class Choice(BaseModel):
    """A method by name (``pooling: mean``), or by name with options (``{name: ..., ...}``)."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)
    name: str = Field(description="A registered name.")

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: Any) -> Any:
        return {"name": value} if isinstance(value, str) else value

    @property
    def options(self) -> dict[str, Any]:
        """Every key beside ``name``: constructor arguments of the method."""
        return dict(self.model_extra or {})


def model_in(annotation: Any) -> type[BaseModel] | None:
    """The model inside a field's annotation, such as that of ``list[Model] | None``."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    found = (model_in(inner) for inner in get_args(annotation))
    return next((model for model in found if model is not None), None)
