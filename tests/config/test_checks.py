"""Checks over the whole config: names of methods, and of other tasks."""

from pathlib import Path
from types import SimpleNamespace

import pytest

from multitask.config import load_config
from multitask.config.checks import check_task
from multitask.utils.errors import UserError
from tests.support.messages import refusal


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tasks.t.pooling=men", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.t.pooling={name: men}", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.t.projection=tan", "unknown projection 'tan' (did you mean 'tanh'?)"),
        ("tasks.t.head=clasification", "did you mean 'classification'?"),
        ("training.sampler=round", "unknown sampler 'round' (did you mean 'round_robin'?)"),
        ("tasks.t.pooling={features: 1}", "the key 'name' is missing"),
        ("tasks.t.pooling=5", "expected a name, or a name and options, not 5"),
        ("tasks.t.pooling={name: 5}", "expected text, not 5"),
        ("tasks.my-task={data: {}, head: binary}", "must be letters, digits and '_'"),
        (f"tasks.{'é' * 76}={{data: {{}}, head: binary}}", "longer than 150 bytes"),
    ],
)
def test_names(override, message, base):
    result = refusal(base, override)
    assert result.startswith(f"command line: {override}: {override.partition('=')[0]}")
    assert message in result


@pytest.mark.parametrize(
    ("overrides", "path", "part"),
    [
        (["tasks.t.input=siamese"], "tasks.t.input", "input siamese needs `data.text2`"),
        (["tasks.t.input=cross"], "tasks.t.input", "input cross needs `data.text2`"),
        (["tasks.pair.input=single"], "tasks.pair.input", "needs no `data.text2`"),
        (["tasks.t.data.format=hub"], "tasks.t.data.format", "needs `path`"),
        (["tasks.t.data.format=disk"], "tasks.t.data.format", "needs `path`"),
        (
            ["tasks.t.data.labels=[a, b]", "tasks.t.data.label_range=[0, 1]"],
            "tasks.t.data.label_range",
            "exclude each other",
        ),
        (["tasks.new.pooling=mean"], "tasks.new", "'data' is missing; to change a task, name one"),
        (["tasks.t.course_file={name: x}"], "tasks.t.course_file", "'column' is missing"),
        (["tasks.t=null", "tasks.pair=null"], "tasks", "at least one task is needed"),
        (["stages=[{}, {tasks: []}]"], "stages.1.tasks", "at least one task is needed"),
        (["tasks={}"], "tasks", None),  # merged with what is there: no change
    ],
)
def test_relations(overrides, path, part, base):
    if part is None:
        assert list(load_config(base, overrides).tasks) == ["t", "pair"]
        return
    result = refusal(base, *overrides)
    assert f": {path}: " in result
    assert part in result
    if len(overrides) == 1:
        assert result.startswith(f"command line: {overrides[0]}: ")


THREE = """\
tasks:
  a: {data: {train: a, dev: a}, head: classification}
  b: {data: {train: b, dev: b}, head: classification}
  scored: {data: {dev: c}, share_head: a}
"""


@pytest.mark.parametrize(
    ("overrides", "path", "part"),
    [
        (["stages=[{tasks: [aa]}]"], "stages.0.tasks.0", "no task 'aa' (did you mean 'a'?)"),
        (["stages=[{tasks: [a, scored]}]"], "stages.0.tasks.1", "it is only scored"),
        (["training.epoch=c"], "training.epoch", "expected longest, a task or a number of steps"),
        (["stages=[{epoch: bb}]"], "stages.0.epoch", "did you mean 'b'?"),
        (["training.schedule_power=2"], "training.schedule_power",
         "a linear schedule has no power: set `schedule: polynomial`"),
        (["stages=[{schedule: polynomial}, {schedule: cosine, schedule_power: 2}]"],
         "stages.1.schedule_power", "a cosine schedule has no power"),
        (["training.schedule_power=2", "training.schedule=polynomial",
          "stages=[{schedule: linear}, {schedule: cosine}]"],
         "training.schedule_power", "no stage has a polynomial schedule: set it in one"),
        (["training.schedule_power=2", "stages=[{schedule: cosine}, {}]"],
         "training.schedule_power", "a linear schedule has no power: set `schedule: polynomial`"),
        (["training.select=joined"], "training.select", "did you mean 'joint'?"),
        (["training.select=scored"], "training.select", "is scored at the end only"),
        (["tasks.b.data={texts_of: [c], train: null, dev: null}"], "tasks.b.data.texts_of.0",
         "expected a task that reads training rows"),
        (["tasks.scored.smart={}"], "tasks.scored.smart", "never trained"),
        (["tasks.a.smart.dropout=eval", "encoder.gradient_checkpointing=true"],
         "tasks.a.smart.dropout", "computed again with dropout"),
        (["tasks.a.course_file={name: x, column: c}", "tasks.b.course_file={name: x, column: c}"],
         "tasks.b.course_file.name", "a and b would both write x-dev-output.csv"),
        (["tasks.a.glue_file=SST-2", "tasks.b.glue_file=SST-2"], "tasks.b.glue_file",
         "a and b would both write SST-2.tsv"),
    ],
)  # fmt: skip
def test_references(overrides, path, part, files):
    files(a=THREE)
    result = refusal("a.yaml", *overrides)
    assert f": {path}: " in result
    assert part in result


@pytest.mark.parametrize(
    ("overrides", "path", "part"),
    [
        (["tasks.a.evaluate_only=true", "tasks.b=null", "tasks.scored=null"],
         "tasks.a.evaluate_only", "no task is left to train"),
        (["tasks.b.evaluate_only=true"], "tasks.b.evaluate_only", "name the task whose vectors"),
        (["tasks.scored.evaluate_only=true", "tasks.scored.data.dev=null"],
         "tasks.scored.data.dev", "name the rows"),
        (["tasks.scored.evaluate_only=true", "tasks.scored.data.train=c"],
         "tasks.scored.data.train", "leave this out"),
        (["tasks.scored.evaluate_only=true", "tasks.b.share_head=scored"], "tasks.b.share_head",
         "'scored' is only evaluated: name a task that trains"),
        (["tasks.scored.evaluate_only=true", "training.select=scored", "training.holdout=0.1"],
         "training.select", "has no rows but dev to select by"),
    ],
)  # fmt: skip
def test_a_task_that_is_only_evaluated(overrides, path, part, files):
    files(a=THREE)
    result = refusal("a.yaml", *overrides)
    assert f": {path}: " in result
    assert part in result


def test_smart_of_the_defaults_is_for_tasks_that_train(files):
    files(a=THREE)
    tasks = load_config("a.yaml", ["defaults.smart={weight: 2.0}"]).tasks
    assert tasks["a"].smart.weight == tasks["b"].smart.weight == 2.0
    assert tasks["scored"].smart is None


@pytest.mark.parametrize(
    ("first", "second"),
    [
        ("mood", "Mood"),
        ("strasse", "straße"),
        ("\xe9tat", "e\u0301tat"),  # composed and decomposed
        ("\xc9tat", "e\u0301tat"),
        ("fin", "\ufb01n"),  # a ligature
        ("task_1", "task_\uff11"),  # a digit of another width
    ],
)
def test_task_names_that_are_one_file_name_on_some_disks(first, second, files):
    assert first.isidentifier() and second.isidentifier()
    task = "{data: {train: t.csv, dev: d.csv}, head: classification}"
    files(a=f'tasks: {{"{first}": {task}, other: {task}, "{second}": {task}}}\n')
    line = refusal("a.yaml")
    assert line.startswith(f"a.yaml:1: tasks.{second}: {first} ")
    assert "differ only in case or Unicode form" in line and second in line.partition(" and ")[2]
    if not first.isascii():
        assert ascii(first) in line and ascii(second) in line
    files(a=f'tasks: {{"{first}": {task}, other: {task}}}\n')
    assert list(load_config("a.yaml").tasks) == [first, "other"]


@pytest.mark.parametrize(("first", "second"), [("para", "Para"), ("\xe9.a-b", "e\u0301.A-B")])
def test_course_files_that_are_one_file_on_some_disks(first, second, files):
    task = "data: {{train: t.csv, dev: d.csv}}, head: binary, course_file: {{name: {}, column: c}}"
    files(a=f"tasks: {{a: {{{task.format(first)}}}, b: {{{task.format(second)}}}}}\n")
    message = f"a and b would both write {second}-dev-output.csv, which some disks take for {first}"
    assert f"a.yaml:1: tasks.b.course_file.name: {message}-dev-output.csv" == refusal("a.yaml")


def test_a_task_that_the_run_lacks():
    config = SimpleNamespace(tasks={"sst": None, "sts": None})
    check_task(Path("runs/a"), config, "sts")
    with pytest.raises(UserError, match=r"runs/a: no task 'stst' \(did you mean 'sts'\?\)"):
        check_task(Path("runs/a"), config, "stst")
