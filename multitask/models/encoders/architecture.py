# Tested by tests/faults/test_foreign_runs.py
"""Load an encoder's config.json, after its sizes are checked against the limits."""

import json
import re
from pathlib import Path
from typing import Any

from multitask.models.encoders.hf_layout import layout_of
from multitask.utils.errors import UserError, reading
from multitask.utils.limits import JSON_BYTES, LABELS, LAYERS, MOST_DROPOUT, SIZE, read_bounded

_SIZES = re.compile("layer|size|dim|position|head|embed|width|length|expert|label")


def load_architecture(name: str, revision: str | None = None) -> Any:
    """Load the `transformers` config of a hub id or a directory.

    Raises:
        OSError: no config.json there.
        OtherArchitecture: a model type that no code here runs.
        UserError: a config.json that is too large or damaged, a size beyond the limits, or an
            architecture that `transformers` does not know.
    """
    from transformers import AutoConfig
    from transformers.utils.hub import cached_file

    file = Path(cached_file(name, "config.json", revision=revision))
    with reading(file):
        values = json.loads(read_bounded(file, JSON_BYTES))
    if isinstance(values, dict) and isinstance(values.get("model_type"), str):
        layout_of(values["model_type"])  # first: the sizes of other types have other rules
    with reading(file):
        _check_sizes(file, values)
        return AutoConfig.from_pretrained(name, revision=revision, trust_remote_code=False)


def _check_sizes(file: Path, values: Any) -> None:
    if isinstance(values, list):
        for value in values:
            _check_sizes(file, value)
    if not isinstance(values, dict):
        return
    for key, value in values.items():
        most = LAYERS if "layers" in key else LABELS if "label" in key else SIZE
        if isinstance(value, int | float) and _SIZES.search(key) and value > most:
            raise UserError(f"{file}: {key} is {value:,}, the largest is {most:,}: correct it")
        bounded = _SIZES.search(key) or "dropout" in key
        unbounded = key == "max_relative_positions" and value == -1  # DeBERTa: no other limit
        if isinstance(value, int | float) and bounded and not (value >= 0 or unbounded):
            raise UserError(f"{file}: {key} is {value}, expected at least 0: correct it")
        if isinstance(value, int | float) and "dropout" in key and value > MOST_DROPOUT:
            raise UserError(f"{file}: {key} is {value}, the largest is {MOST_DROPOUT}: correct it")
        _check_sizes(file, value)
