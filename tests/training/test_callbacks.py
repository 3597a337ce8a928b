"""When the trainer calls its callbacks, and what the small ones do.

The metric log, TensorBoard and checkpoints are tested elsewhere.
"""

from types import SimpleNamespace

import pytest

from multitask.models.encoders.bitlinear import bit_layers
from multitask.training.callbacks import (
    BitLinearStrength,
    Callback,
    GradientConflict,
    ProgressBar,
)
from multitask.training.checkpoints import Checkpoints
from multitask.training.metric_log import MetricLog
from multitask.training.step import Stepped
from multitask.training.trainer import Trainer
from multitask.utils.terminal import silent
from tests.support.run_files import events


class Diary(Callback):
    """Writes down its calls."""

    def __init__(self):
        self.calls = []

    def on_start(self, trainer):
        self.calls.append(("start", trainer.step))

    def before_step(self, trainer):
        self.calls.append(("before", trainer.step))

    def on_step(self, trainer, tasks, done):
        self.calls.append(("step", trainer.step, *tasks, *done.losses))

    def on_evaluation(self, trainer, evaluation):
        self.calls.append(("evaluation", trainer.step, *evaluation.values, *evaluation.stopped))

    def on_end(self, trainer):
        self.calls.append(("end", trainer.step, trainer.finished))


@pytest.fixture
def make(planned, tmp_path):
    """A trainer of four steps whose first callbacks are these."""

    def make(*changes, callbacks=()):
        plan = planned("training.max_steps=4", "training.eval_steps=3", *changes)
        trainer = Trainer(plan, tmp_path, silent)
        trainer.callbacks = [*callbacks, *trainer.callbacks]
        return trainer

    return make


def test_callbacks_are_told_of_every_step_and_evaluation(make):
    diary = Diary()
    stop = "tasks.sst.early_stopping={patience: 1, min_delta: 9}"
    make(stop, "training.eval_steps=1", callbacks=[diary]).run()
    tasks = ("sst", "qqp", "sts")
    # sst stops at the second evaluation: its next turn, the fourth, is empty
    assert diary.calls == [
        ("start", 0),
        ("before", 0), ("step", 1, "sst", "sst"), ("evaluation", 1, *tasks),
        ("before", 1), ("step", 2, "qqp", "qqp"), ("evaluation", 2, *tasks, "sst"),
        ("before", 2), ("step", 3, "sts", "sts"), ("evaluation", 3, *tasks),
        ("step", 4, "sst"), ("evaluation", 4, *tasks),
        ("end", 4, True),
    ]  # fmt: skip


def test_the_end_is_told_after_an_error_too(make):
    class Failing(Callback):
        def on_step(self, trainer, tasks, done):
            raise RuntimeError("broken")

    diary = Diary()
    with pytest.raises(RuntimeError, match="broken"):
        make(callbacks=[Failing(), diary]).run()
    assert diary.calls == [("start", 0), ("before", 0), ("end", 1, False)]


def test_a_run_has_the_callbacks_that_its_config_asks_for(make):
    plain = [type(one) for one in make().callbacks]
    assert plain == [MetricLog, ProgressBar, Checkpoints]
    made = make("training.conflict_steps=2", "encoder.bitlinear={gradual: 0.5}")
    more = made.callbacks
    (strength,) = (each for each in more if isinstance(each, BitLinearStrength))
    assert strength.models[0] is made.model  # a discriminator's layers are not in its encoder
    assert {type(one) for one in more} - set(plain) == {BitLinearStrength, GradientConflict}
    assert type(more[0]) is MetricLog and type(more[-1]) is Checkpoints


def test_the_strength_of_bitlinear_layers_grows_before_each_step(make):
    result = []

    class Watch(Callback):
        def on_step(self, trainer, tasks, done):
            layers = bit_layers(trainer.model.encoder).values()
            result.append({layer.strength for layer in layers})

    make("encoder.bitlinear={gradual: 0.5}", callbacks=[Watch()]).run()
    assert result == [{0.0}, {0.5}, {1.0}, {1.0}]


def test_conflict_is_measured_between_the_tasks_that_train(make, tmp_path):
    stop = "tasks.sst.early_stopping={patience: 1, min_delta: 9}"
    make(stop, "training.conflict_steps=2", "training.eval_steps=1").run()
    lines = [event for event in events(tmp_path) if event["event"] == "conflict"]
    assert [line["step"] for line in lines] == [2, 4]
    assert set(lines[0]["cosines"]["all"]) == {"sst-qqp", "sst-sts", "qqp-sts"}
    assert set(lines[1]["cosines"]["all"]) == {"qqp-sts"}  # sst has stopped


@pytest.fixture
def lines(monkeypatch):
    """The lines of a run of 100 steps of 8 rows and 10 seconds each, after step 20."""

    def lines(terminal):
        nothing = {"write": lambda text: None, "flush": lambda: None}
        monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: terminal, **nothing))
        now, said = [0.0], []
        callback = ProgressBar(said.append, lambda: now[0])
        trainer = SimpleNamespace(step=20, stages=SimpleNamespace(total_steps=100))
        callback.on_start(trainer)
        for step in range(21, 28):
            now[0] += 10
            trainer.step, task = step, "sst" if step % 2 else "qqp"
            callback.on_step(trainer, [task], Stepped(losses={task: step / 10}, rows={task: 8}))
        return said

    return lines


def test_without_a_terminal_a_line_every_30_seconds(lines):
    assert lines(terminal=False) == [
        "step 23/100: loss sst 2.300  qqp 2.200; 0.8 rows/s, 12 min 50 s left",
        "step 26/100: loss sst 2.500  qqp 2.600; 0.8 rows/s, 12 min 20 s left",
    ]


def test_on_a_terminal_the_bar_is_enough(lines):
    assert lines(terminal=True) == []
