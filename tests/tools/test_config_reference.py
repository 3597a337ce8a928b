"""docs/configuration.md says what the code says."""

import importlib
import inspect
import re

import pytest
from pydantic import BaseModel

import multitask.models.build
from multitask.config import Choice, fields_of, load_config, registry
from multitask.models.encoders.bert_weights import encoder_from_config
from tests.conftest import ROOT
from tools.config_reference import _anchor, _models, page

PAGE = ROOT / "docs" / "configuration.md"


def test_page_is_in_step_with_the_code():
    again = "python -m tools.config_reference > docs/configuration.md"
    assert PAGE.read_text(encoding="utf-8") == page(), f"run: {again}"


def sections() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def models(model: type[BaseModel]) -> set[type[BaseModel]]:
    """Every model that a field mentions, however deep."""
    result = {model}
    for field in model.model_fields.values():
        for room, inner in re.findall(r"(multitask\.config\.\w+)\.(\w+)", str(field.annotation)):
            result |= models(getattr(importlib.import_module(room), inner))
    return result


def test_every_block_and_every_key_has_its_row():
    blocks = dict(_models("", multitask.config.Config))
    assert set(blocks.values()) == models(multitask.config.Config) - {Choice}
    for path, model in blocks.items():
        text = sections()[f"`{path}`" if path else "Top level"]
        rows = re.findall(r"^\| `(\w+)` \| (.*) \| (.*) \| (.*) \|$", text, re.MULTILINE)
        assert [row[0] for row in rows] == list(fields_of(model))
        assert all(cell.strip() for row in rows for cell in row), "an empty cell"


@pytest.mark.parametrize("kind", registry.KINDS)
def test_every_method_and_every_option_is_explained(kind):
    text = sections()[f"`{kind}`"]
    for name in registry.KINDS[kind]:
        (row,) = [line for line in text.splitlines() if line.startswith(f"| `{name}` |")]
        for option in inspect.signature(registry.resolve(kind, name)).parameters:
            if option not in registry.SUPPLIED[kind]:
                assert re.search(rf"`{option}` \([^)]+, (default `[^`]*`|required)\): \w", row), (
                    option
                )


def test_links_lead_to_headings():
    anchors = {_anchor(title) for title in sections()}
    links = re.findall(r"\]\(#([^)]*)\)", PAGE.read_text(encoding="utf-8"))
    assert links
    assert set(links) <= anchors


def test_supplied_arguments_are_those_that_the_program_supplies(tiny_encoder, monkeypatch):
    """The page leaves out of the options only what a model is built with."""
    seen: dict[str, set[str]] = {}

    def building(kind, name, options, context):
        seen.setdefault(kind, set()).update(context)
        return registry.build(kind, name, options, context)

    monkeypatch.setattr(multitask.models.build, "build", building)
    overrides = [
        "tasks.sst.projection=tanh",
        "tasks.sst.adapter=pal",
        f"encoder.name={tiny_encoder}",
    ]
    config = load_config(ROOT / "configs" / "cs224n.yaml", overrides)
    labels = {"num_labels": 5, "class_counts": [1] * 5, "row_count": 9, "low": 0.0, "high": 5.0}
    encoder = encoder_from_config(str(tiny_encoder))
    multitask.models.build.assemble(config, encoder, dict.fromkeys(config.tasks, labels))
    assert seen == {
        kind: set(registry.SUPPLIED[kind]) for kind in ("adapter", "pooling", "projection", "head")
    }
