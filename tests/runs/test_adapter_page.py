"""docs/pals.md and the presets with adapters say what is built."""

import re

import pytest
import torch

from multitask.config import load_config
from multitask.config.registry import build
from multitask.models.encoders import BertEncoder
from multitask.training.setup import set_up
from tests.conftest import ROOT

PRESET = ROOT / "configs" / "cs224n.yaml"


PAGE = (ROOT / "docs" / "pals.md").read_text(encoding="utf-8")


def test_the_pages_example_is_read_as_it_says(tmp_path):
    (block,) = re.findall(r"```yaml\n(.*?)```", PAGE, re.DOTALL)
    (tmp_path / "page.yaml").write_text(f"extends: {PRESET}\n{block}")
    tasks = load_config(tmp_path / "page.yaml").tasks
    chosen = {name: task.adapter for name, task in tasks.items()}
    assert chosen["qqp"] is None
    assert (chosen["sst"].name, chosen["sst"].options) == ("lora", {"r": 8})
    assert chosen["sts"].options == {"size": 204, "heads": 12, "layers": [4, 5, 6]}


def test_the_pages_parameter_table_is_what_is_built():
    rows = re.findall(
        r"^\| `(\w+)`, (size|r) (\d+) \| [^|]* \| (.*?) \| (.*?) \| (.*?) % \|$", PAGE, re.M
    )
    assert len(rows) == 6
    with torch.device("meta"):
        encoders = [
            BertEncoder(vocab_size=30522, dim=dim, num_layers=layers, heads=12)
            for dim, layers in ((384, 6), (768, 12))
        ]
    parameters = sum(parameter.numel() for parameter in encoders[1].parameters())
    for name, option, size, *shown, share in rows:
        for encoder, number in zip(encoders, shown, strict=True):
            context = {"dim": encoder.dim, "num_layers": encoder.num_layers}
            context["maps"] = encoder.linear_maps()
            with torch.device("meta"):
                made = build("adapter", name, {option: int(size)}, context)
            count = sum(parameter.numel() for parameter in made.parameters())
            assert f"{count:,}" == number
        assert f"{count / parameters:.1%}" == f"{share}%"


@pytest.mark.parametrize("preset", ["cs224n_pals", "cs224n_pals_staged"])
def test_presets_and_their_alternatives_are_plans(preset, tiny_overrides, tmp_path):
    """The commented alternatives, too, once their comment signs are gone."""
    file = ROOT / "configs" / f"{preset}.yaml"
    text = file.read_text()
    blocks = re.findall(r"(?:^# (?:stages|encoder):.*\n)(?:^# +\S.*\n|^# \w.*\n)*", text, re.M)
    assert len(blocks) == {"cs224n_pals": 1, "cs224n_pals_staged": 2}[preset]
    for number, block in enumerate(["", *blocks]):
        one = tmp_path / f"{number}.yaml"
        one.write_text(f"extends: {file}\n" + re.sub(r"^# ", "", block, flags=re.M))
        config = load_config(one, tiny_overrides)
        adapters = [task.adapter for task in config.tasks.values()]
        assert {(a.name, a.options["size"]) for a in adapters} == {("pal", 60)}
        made = set_up(config, torch.device("cpu"), lambda line: None)
        assert all(stage.tasks for stage in made.stages)
        assert config.encoder.freeze == ("encoder" in block.split(":")[0])
