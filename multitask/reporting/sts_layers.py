# Tested by tests/commands/test_sts.py
"""Read what ``sts --layers`` wrote for other encoders, to draw their curves too."""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from multitask.config.saved.base import read_saved
from multitask.reporting.sts_json import SavedLayers
from multitask.utils.errors import UserError, no_file

Suites = Mapping[str, Collection[str]]  # the subsets of each suite that is scored now


def read_layers(files: Sequence[Path], suites: Suites) -> dict[str, Any]:
    """Read the scores of layers by the name of the encoder, then by suite, as in ``layers.json``.

    Raises UserError for a file that is missing or damaged, that has no suite of ``suites`` or
    another version of one, or whose encoder is that of another file.
    """
    layers: dict[str, Any] = {}
    for file in files:
        saved = _read(file)
        if saved.of in layers:
            message = f"--with: {file} is of {saved.of!r}, as another file is: leave one out"
            raise UserError(f"{message}, or change the `of` of one")
        if not set(saved.suites) & set(suites):
            message = f"--with: {file} has no scores of {', '.join(suites)}"
            raise UserError(f"{message}, which are scored now: leave it out")
        for name in suites:
            if name in saved.suites and set(saved.suites[name].subsets) != set(suites[name]):
                theirs, ours = (
                    ", ".join(one) for one in (saved.suites[name].subsets, suites[name])
                )
                message = f"--with: {file}: its {name} is of {theirs}, not of {ours}"
                raise UserError(f"{message}: score both encoders with the same --data and --stsb")
        layers[saved.of] = saved.model_dump(by_alias=True)["suites"]
    return layers


def _read(file: Path) -> SavedLayers:
    advice = "give a layers.json that `sts --layers` wrote"
    if not file.is_file():
        raise UserError(f"--with: {no_file(file)}: {advice}")
    return read_saved(file, SavedLayers, f": damaged: {{}}; {advice}")


def missing_notes(suites: Suites, others: Mapping[str, Any]) -> Iterator[str]:
    """Say which curves of other encoders are not in the figure, or not in all its panels."""
    for name, layers in others.items():
        if absent := [suite for suite in suites if suite not in layers]:
            yield f"--with: {name} has no scores of {', '.join(absent)}"
        if more := [suite for suite in layers if suite not in suites]:
            yield f"--with: {', '.join(more)} of {name}: not drawn, as not scored now"
