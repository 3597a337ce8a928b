"""Real processes under torchrun and accelerate: the same numbers as one process, no row twice."""

import json
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.store.run_directory import RunDirectory
from multitask.training.checkpoints import load_checkpoint
from multitask.training.loss import Objective
from multitask.training.setup import set_up
from multitask.training.step import train_step
from multitask.utils import distributed
from multitask.utils.device import pick_device
from tests.conftest import save_tiny_encoder
from tests.support.kill import interrupt_at
from tests.support.processes import TORCHRUN, launch
from tests.support.run_files import events, report_of

ACCELERATE = [
    "-m",
    "accelerate.commands.launch",
    "--multi_gpu",
    "--num_processes=2",
    "--num_machines=1",
]
ACCELERATE += ["--mixed_precision=no", "--dynamo_backend=no", "--main_process_port=0"]

# one rank kills itself -9 in the 14th step
DYING = """
import os, signal, sys
from multitask.training import trainer
original, calls = trainer.train_step, []
def dying(*args, **more):
    calls.append(1)
    if len(calls) == 14 and os.environ["RANK"] == os.environ["DYING_RANK"]:
        os.kill(os.getpid(), signal.SIGKILL)
    return original(*args, **more)
trainer.train_step = dying
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""

# noise of SMART's ascent that a row alone decides, whatever rank it is on
SAME_NOISE = """
import sys
import torch
torch.randn_like = torch.clone
import run_multitask
sys.exit(run_multitask.main(sys.argv[1:]))
"""


@pytest.fixture(scope="module")
def command(tmp_path_factory, course_files):
    """Without dropout, whose noise each rank draws for itself."""
    encoder = save_tiny_encoder(
        tmp_path_factory.mktemp("no-dropout"), attention_probs_dropout_prob=0.0
    )
    tasks = ("sst", "qqp", "sts")
    return [
        "configs/cs224n.yaml",
        f"data_dir={course_files}",
        f"encoder.name={encoder}",
        "encoder.dropout=0",
        "training.precision=fp32",
        "training.epochs=3",
        "training.checkpoint_steps=4",
        "training.eval_steps=27",  # once: the best of equal ones would hang on the last digit
        "training.eval_batch_size=5",
        *(f"tasks.{task}.max_length=48" for task in tasks),
        *(f"tasks.{task}.dropout=0" for task in tasks),
    ]


@pytest.fixture(scope="module")
def alone(command, tmp_path_factory):
    """The run of one process."""
    directory = tmp_path_factory.mktemp("alone") / "run"
    assert run_multitask.main([*command, f"output_dir={directory}"]) == 0
    return directory


CLOSE = (("loss", 1e-6, 0.0), ("grad_norm", 1e-4, 0.0))


def check_steps(directory, reference, count, bounds=CLOSE):
    """Two logs have so many steps, whose numbers (up to the 20th) are within these bounds."""
    steps, expected = (events(run, "step") for run in (directory, reference))
    assert len(steps) == len(expected) == count
    for key, relative, absolute in bounds:
        values, right = ([step[key] for step in log[:20]] for log in (steps, expected))
        np.testing.assert_allclose(values, right, rtol=relative, atol=absolute)
    return steps, expected


def assert_same_training(directory, reference):
    for one, other in zip(*check_steps(directory, reference, 27), strict=True):
        assert one == {**other, "loss": one["loss"], "grad_norm": one["grad_norm"]}


def assert_same_report(directory, reference):
    for task in ("sst", "qqp", "sts"):
        for split in ("dev", "test"):
            name = f"predictions/{task}.{split}.jsonl"
            rows, expected = (
                [json.loads(line) for line in (d / name).open()] for d in (directory, reference)
            )
            assert [row["id"] for row in rows] == [row["id"] for row in expected]
            scores, right = ([row["scores"] for row in actual] for actual in (rows, expected))
            np.testing.assert_allclose(scores, right, rtol=1e-3, atol=1e-4)


@pytest.mark.slow
@pytest.mark.parametrize("launcher", [TORCHRUN, ACCELERATE], ids=["torchrun", "accelerate"])
def test_two_processes_equal_one_with_the_joined_batch(launcher, command, alone, tmp_path):
    result = launch(launcher, "run_multitask.py", *command, f"output_dir={tmp_path / 'run'}")
    assert result.returncode == 0, result.stderr
    assert_same_training(tmp_path / "run", alone)
    assert_same_report(tmp_path / "run", alone)
    report = report_of(tmp_path / "run")
    assert report["processes"] == 2
    assert result.stdout.count("report: ") == 1  # one rank speaks


NO_THREAD_IS_LEFT = """
import pathlib, torch
from multitask.utils import distributed

def threads():
    return [file.read_text().strip() for file in pathlib.Path("/proc/self/task").glob("*/comm")]

with distributed.processes(torch.device("cpu")):
    import transformers.modeling_utils
    assert distributed.gather(distributed.rank()) == [0, 1]
    assert any("gloo" in name for name in threads()), threads()
assert not any("gloo" in name for name in threads()), threads()
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_no_thread_of_the_process_group_is_left(tmp_path):
    """One that is left may ask for Python's lock when Python has ended: the process aborts."""
    script = tmp_path / "script.py"
    script.write_text(NO_THREAD_IS_LEFT)
    result = launch(TORCHRUN, script)
    assert result.returncode == 0, result.stderr


@pytest.mark.slow
def test_surgery_and_learned_weights_on_two_processes_equal_one(command, tmp_path):
    """The tasks' gradients are summed over the ranks before they are operated on."""
    pytest.importorskip("torchjd")
    joint = [*command, "training.combine=joint", "training.loss_weighting=uncertainty"]
    joint += ["training.gradient_surgery=pcgrad", "training.max_steps=8"]
    alone, both = tmp_path / "alone", tmp_path / "both"
    # two tasks of three: the order in which PCGrad takes more would be drawn at random
    pair = ["tasks.sts=null"]
    joint = [word for word in joint if not word.startswith("tasks.sts")] + pair
    assert run_multitask.main([*joint, f"output_dir={alone}"]) == 0
    result = launch(TORCHRUN, "run_multitask.py", *joint, f"output_dir={both}")
    assert result.returncode == 0, result.stderr
    check_steps(both, alone, 16)


@pytest.mark.slow
def test_smart_on_two_processes_equals_one(command, tmp_path, monkeypatch):
    """Losses, penalties and gradients are those of the joined batch, and so is the teacher.

    It holds without dropout and with noise that is a function of the row alone, here a multiple of
    its embeddings: a drawn one would be each rank's own. The ascent's step is next to none, for
    its direction hangs on rounding errors where two sentences of a pair are equal.
    """
    smart = "defaults.smart={eps: 0.1, noise: 0.1, step_size: 1e-9, bregman: 1.0, weight: 3.0}"
    quick = ["training.max_steps=9", "training.lr=1e-3", "training.frozen_baseline=false"]
    settings = [*command, smart, *quick]
    alone, both, script = tmp_path / "alone", tmp_path / "both", tmp_path / "same_noise.py"
    script.write_text(SAME_NOISE)
    monkeypatch.setattr(torch, "randn_like", torch.clone)
    assert run_multitask.main([*settings, f"output_dir={alone}"]) == 0
    result = launch(TORCHRUN, script, *settings, f"output_dir={both}")
    assert result.returncode == 0, result.stderr
    # 1e-8: a small penalty is the square of a small difference of fp32 scores
    _, expected = check_steps(both, alone, 9, (*CLOSE, ("penalty", 1e-4, 1e-8)))
    assert min(step["penalty"] for step in expected) > 1e-6
    teachers = [
        load_checkpoint(run, run.saved_checkpoints()[-1])["teacher"]
        for run in map(RunDirectory, (both, alone))
    ]
    torch.testing.assert_close(*teachers, rtol=1e-4, atol=1e-6)


@pytest.mark.slow
@pytest.mark.parametrize("rank", ["0", "1"])
def test_a_killed_rank_leaves_a_checkpoint_that_one_process_resumes(
    rank, command, alone, tmp_path, monkeypatch
):
    monkeypatch.setenv("DYING_RANK", rank)
    script = tmp_path / "dying.py"
    script.write_text(DYING)
    run_dir = tmp_path / "run"
    result = launch(TORCHRUN, script, *command, f"output_dir={run_dir}")
    assert result.returncode != 0
    (line,) = [ln for ln in result.stderr.splitlines() if ln.startswith("error: ")]
    assert "another process of this run has ended" in line and "--resume" in line
    last = RunDirectory(run_dir).saved_checkpoints()[-1]
    assert load_checkpoint(RunDirectory(run_dir), last)["progress"]["step"] == 12
    assert run_multitask.main([*command, f"output_dir={run_dir}", "--resume"]) == 0
    assert_same_training(run_dir, alone)
    assert_same_report(run_dir, alone)


@pytest.mark.slow
def test_a_checkpoint_of_one_process_resumes_on_two(command, alone, tmp_path, monkeypatch):
    interrupt_at(monkeypatch, 14)
    run_dir = tmp_path / "run"
    assert run_multitask.main([*command, f"output_dir={run_dir}"]) == 75  # try again
    result = launch(TORCHRUN, "run_multitask.py", *command, f"output_dir={run_dir}", "--resume")
    assert result.returncode == 0, result.stderr
    assert_same_training(run_dir, alone)


@pytest.mark.slow
def test_bad_input_is_said_once(command, tmp_path):
    result = launch(TORCHRUN, "run_multitask.py", *command, "tasks.qqp.batch_size=1")
    assert result.returncode != 0
    (line,) = [ln for ln in result.stderr.splitlines() if ln.startswith("error: ")]
    assert "tasks.qqp.batch_size: 1 rows cannot be shared out to 2 processes" in line
    assert not Path("runs/cs224n").exists() or not (tmp_path / "run").exists()


@pytest.mark.parametrize("name", ["auto", "cuda"])
def test_one_process_sets_its_gpu(name, monkeypatch):
    """With the real ``torch.cuda.set_device``, which a CPU build has too."""
    numbers = []
    monkeypatch.setattr(torch._C, "_cuda_setDevice", numbers.append, raising=False)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)
    with distributed.processes(pick_device(name)):
        assert numbers == [0]


def test_no_two_processes_of_any_seeds_draw_the_same_masks(monkeypatch):
    drawn = set()
    for rank in range(4):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        drawn |= {distributed.own_seed(seed) for seed in range(50)}
        assert rank or drawn == set(range(50))  # one process: the run's seed
    assert len(drawn) == 200


@pytest.mark.parametrize("world", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [1, 2, 4, 7, 16])
def test_shards_hold_every_row_once(monkeypatch, world, rows):
    monkeypatch.setattr(distributed, "world", lambda: world)
    seen = []
    for rank in range(world):
        monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
        part, counted = distributed.shard(np.arange(rows))
        assert len(part) >= 1 and counted in (0, len(part))
        seen += part[:counted].tolist()
    assert sorted(seen) == list(range(rows))


def test_a_batch_of_fewer_rows_than_processes_is_watched_once(tiny_overrides, monkeypatch):
    """A rank for which no row is left trains on another's, which has been watched there."""
    config = load_config("configs/cs224n.yaml", [*tiny_overrides, "tasks.sst.batch_size=39"])
    made = set_up(config, torch.device("cpu"), lambda line: None)
    stream = made.loaders["sst"].stream
    optimizer = torch.optim.SGD(made.model.parameters(), lr=0.0)
    start, watched = stream.state_dict(), []
    for rank in (0, 1):
        stream.load_state_dict(start)
        for _ in range(2):  # 39 rows and 1
            with monkeypatch.context() as two:
                two.setattr(distributed, "world", lambda: 2)
                two.setattr(distributed, "rank", lambda rank=rank: rank)
                passes = made.loader.next(["sst"])
            watch = lambda task, scores, labels: watched.append((scores, labels))  # noqa: E731
            train_step(made.model, passes, optimizer, Objective({"sst": 1.0}), watch=watch)
    assert [len(scores) for scores, _ in watched] in ([20, 1, 19, 0], [1, 20, 0, 19])
    labels = torch.cat([labels for _, labels in watched])
    expected = made.data.splits["sst"]["train"].rows.labels
    assert sorted(labels.tolist()) == sorted(expected.tolist())
