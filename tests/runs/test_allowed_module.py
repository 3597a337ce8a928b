"""A head and a pooler of the user's own package, from training to a sweep (`--allow-module`)."""

import json
import os
import subprocess
import sys

import pytest

from multitask.config.yaml_reader import dump_yaml
from tests.conftest import ROOT
from tests.support.run_files import report_of

OWN = '''
"""The user's own classes."""

from torch import nn

from heads.base import ClassScores
from multitask.models.poolers.mean import MeanPooler


class Pooler(MeanPooler):
    """As the mean."""


class Head(ClassScores):
    """Linear layers."""

    def __init__(self, dim: int, num_labels: int, width: int = 8) -> None:
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(dim, width), nn.Tanh(), nn.Linear(width, num_labels))

    def forward(self, vector):
        return self.layers(vector)

    def criterion(self, scores, labels):
        return nn.functional.cross_entropy(scores, labels)
'''


@pytest.fixture(scope="module")
def desk(tiny_encoder, course_files, tmp_path_factory):
    """A directory with a package, a config that names its classes, and a grid."""
    directory = tmp_path_factory.mktemp("desk")
    (directory / "mine").mkdir()
    (directory / "mine" / "__init__.py").touch()
    (directory / "mine" / "parts.py").write_text(OWN)
    config = {
        "extends": str(ROOT / "configs" / "cs224n.yaml"),
        "data_dir": str(course_files),
        "encoder": {"name": str(tiny_encoder)},
        "training": {"max_steps": 3, "frozen_baseline": False},
        "defaults": {"max_length": 48},
        "tasks": {
            "sst": {
                "pooling": "mine.parts:Pooler",
                "head": {"name": "mine.parts:Head", "width": 4},
            },
            "qqp": None,
        },
    }
    (directory / "own.yaml").write_text(dump_yaml(config))
    (directory / "grid.yaml").write_text(
        "base: own.yaml\nseeds: [1]\ngrid: {tasks.sst.head.width: [4, 6]}\n"
    )
    return directory


def run(desk, *arguments):
    """Run the command in the directory; return its exit code, stdout and stderr."""
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    environment.pop("MULTITASK_MODULES", None)
    done = subprocess.run(
        [sys.executable, str(ROOT / "run_multitask.py"), *map(str, arguments)],
        cwd=desk,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr


def test_without_the_option_the_name_is_unknown(desk):
    code, _, complaint = run(desk, "check", "own.yaml")
    assert code == 2 and "own.yaml" in complaint and "unknown" in complaint
    assert len(complaint.splitlines()) == 1


@pytest.mark.slow
def test_train_evaluate_predict_and_a_sweep(desk):
    allow = ("--allow-module", "mine")
    code, said, complaint = run(desk, "check", "own.yaml", *allow)
    assert code == 0, complaint
    assert "mine.parts:Head (width 4)" in said and "sst: 16 rows, loss" in said
    assert run(desk, "train", "own.yaml", *allow)[0] == 0
    finished = desk / "runs" / "own"
    assert "mine.parts:Head" in (finished / "report.md").read_text()
    assert run(desk, "evaluate", "runs/own", *allow)[0] == 0
    report = report_of(finished)
    evaluated = json.loads((finished / "evaluation-dev.json").read_text())
    assert evaluated["sst"]["metrics"]["accuracy"] == report["tasks"]["sst"]["dev"]["accuracy"]
    code, said, _ = run(
        desk, "predict", "runs/own", "--task", "sst", "--text", "a good film", *allow
    )
    assert code == 0 and any(name in said for name in report["tasks"]["sst"]["classes"])
    code, _, complaint = run(desk, "evaluate", "runs/own")
    assert code == 2 and "mine.parts:Pooler" in complaint
    code, said, complaint = run(desk, "ablate", "grid.yaml", "--output", "runs/grid", *allow)
    assert code == 0, complaint
    assert "cell 2/2" in said and (desk / "runs" / "grid" / "table.md").is_file()
