"""The base class of the models of a run's JSON files, and how one is read."""

from pathlib import Path
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from multitask.utils.errors import UserError
from multitask.utils.files import read_json, without_nan

Number = int | float  # an int stays an int in the file
Score = Number | None  # None: undefined; NaN before it is saved

Model = TypeVar("Model", bound=BaseModel)


class Saved(BaseModel):
    """An object of a JSON file. Keys of other versions are kept."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)

    def content(self) -> dict[str, Any]:  # any JSON object, also with keys of other versions
        """Return the keys that were set, in the order of the fields."""
        return self.model_dump(exclude_unset=True)

    def defined(self) -> Self:
        """Return a copy with None in place of NaN, as it is read from the file."""
        return self.model_validate(without_nan(self.content()))


def read_saved(file: Path, model: type[Model], damage: str) -> Model:
    """Read a JSON file of a run.

    ``damage`` is the end of the message about a damaged file; it contains ``{}`` for what is wrong,
    with the key. Raises UserError for a damaged file, and OSError if it cannot be read.
    """
    try:
        return model.model_validate(read_json(file))
    except ValidationError as error:
        raise UserError(f"{file}{damage.format(_first_problem(error))}") from error
    except ValueError as error:
        raise UserError(f"{file}{damage.format(error)}") from error


def _first_problem(error: ValidationError) -> str:
    problem = error.errors(include_url=False)[0]
    key = ".".join(map(str, problem["loc"]))
    if problem["type"] == "missing":
        return f"it has no {key}"
    no_object = problem["type"] in ("model_type", "dict_type")
    message = "expected an object" if no_object else problem["msg"].removeprefix("Value error, ")
    return f"{key}: {message}" if key else message
