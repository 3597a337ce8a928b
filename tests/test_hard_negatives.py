"""The code and the YAML of docs/search.md about hard negatives: mined by an export, trained on."""

import random
import re
from pathlib import Path

import pytest
import yaml

import run_multitask
from tests.conftest import ROOT, WORDS, save_tiny_encoder
from tests.support.exports import trained
from tests.support.run_files import report_of

PAGE = (ROOT / "docs" / "search.md").read_text()
SECTION = PAGE.partition("## Hard negatives")[2].partition("\n## ")[0]


@pytest.mark.slow
def test_negatives_are_mined_by_an_export_and_trained_on(course_files, tmp_path, monkeypatch):
    pytest.importorskip("sentence_transformers", reason="an extra of `export`")
    encoder = save_tiny_encoder(tmp_path / "encoder")
    run = trained(tmp_path / "run", encoder, course_files)
    monkeypatch.chdir(tmp_path)
    words = ["export", str(run), "exports/sts", "--format", "sentence-transformers"]
    assert run_multitask.main([*words, "--task", "sts"]) == 0
    Path("data").mkdir()
    rng = random.Random(0)
    lines = [" ".join(rng.sample(WORDS[:40], 6)) for _ in range(80)]
    pairs = "".join(f"{line}\t{line.partition(' ')[2]}\n" for line in lines)
    Path("data/pairs.tsv").write_text(f"text\ttext2\n{pairs}")
    (code,) = re.findall(r"```python\n(.*?)```", SECTION, re.DOTALL)
    exec(code.replace("relative_margin=0.05, ", ""), {})  # random weights: all cosines are near 1
    found = Path("data/triplets.tsv").read_text().splitlines()
    assert found[0].split("\t") == ["text", "text2", "text3"] and len(found) > 10
    (config,) = re.findall(r"```yaml\n(.*?)```", SECTION, re.DOTALL)
    settings = yaml.safe_load(config)
    settings |= {"data_dir": "data", "encoder": {"name": str(encoder)}}
    settings |= {"training": {"max_steps": 2, "frozen_baseline": False, "precision": "fp32"}}
    Path("run.yaml").write_text(yaml.safe_dump(settings))
    assert run_multitask.main(["run.yaml", "output_dir=mined", "defaults.max_length=40"]) == 0
    assert report_of(Path("mined"))["tasks"].keys() == {"contrastive"}
