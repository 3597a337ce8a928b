"""Distillation in runs: against a plain loop, killed and resumed without teachers, refused ones."""

import json
import shutil

import numpy as np
import pytest

import run_multitask
from multitask import load
from multitask.training import trainer
from multitask.training.distillation import Distillation, distilled
from multitask.utils.errors import UserError
from multitask.utils.terminal import silent
from tests.conftest import save_tiny_encoder
from tests.support.kill import kill_inside
from tests.support.messages import complaint
from tests.support.processes import check_two_processes
from tests.support.run_files import events, results

TEACHER = ["training.max_steps=4", "training.holdout=0.2"]
STUDENT = ["training.max_steps=6", "training.holdout=0.2", "training.checkpoint_steps=2"]
OTHER_STEPS = ["training.combine=joint", "training.gradient_surgery=pcgrad"]


def command(overrides, run, *more):
    return ["configs/cs224n.yaml", *overrides, *more, f"output_dir={run}"]


@pytest.fixture
def teachers(tiny_overrides, tmp_path):
    made = [tmp_path / f"teacher-{seed}" for seed in (1, 2)]
    for seed, run in enumerate(made):
        changes = [f"seed={seed}", "tasks.sst.pooling=mean", *TEACHER]
        assert run_multitask.main(command(tiny_overrides, run, *changes)) == 0
    return made


def learns(task, teachers, **options):
    settings = {"from": [str(run) for run in teachers], **options}
    return f"tasks.{task}.distill={json.dumps(settings)}"


def test_scores_are_the_mean_of_the_teachers_on_the_rows_that_train(teachers, planned):
    taught = [learns("sst", teachers, weight=0.5), learns("sts", teachers[:1])]
    plan = planned(*taught, *STUDENT)
    Distillation(plan, distilled(plan.config)).ask(silent)
    for task, members in (("sst", teachers), ("sts", teachers[:1])):
        rows = plan.data.splits[task]["train"].rows.texts
        texts = [row[0] if len(row) == 1 else tuple(row) for row in rows]
        each = [[r["scores"] for r in load(run).predict(task, texts)] for run in members]
        each = [[list(s.values()) if isinstance(s, dict) else [s] for s in run] for run in each]
        expected = np.mean(np.array(each, dtype=np.float64), axis=0)
        given = plan.loaders[task].teachers[task].scores
        assert np.abs(given.reshape(expected.shape) - expected).max() < 1e-5
    assert "qqp" not in plan.loaders["qqp"].teachers


def test_a_teacher_that_holds_out_other_rows_is_said(teachers, planned, course_files, tmp_path):
    """Equal shares of other training rows are other rows."""
    lines = (course_files / "ids-sst-train.csv").read_text().splitlines(keepends=True)
    (tmp_path / "fewer.csv").write_text("".join(lines[:-1]))
    fewer = f"tasks.sst.data.train={tmp_path / 'fewer.csv'}"

    def said(*changes):
        plan = planned(learns("sst", teachers), *STUDENT, *changes)
        return [line for line in plan.warnings if "held out" in line]

    assert said() == []
    warnings = said(fewer)
    assert len(warnings) == 2 and all(line.startswith("sst: ") for line in warnings)
    saved = teachers[1] / "predictions" / "sst.holdout.jsonl"
    content = saved.read_text()
    saved.write_text("{\n")
    with pytest.raises(UserError, match=r"tasks\.sst\.distill\.from\.1: .*holdout\.jsonl"):
        said(fewer)
    saved.write_text(content)
    shutil.rmtree(teachers[0])  # a resumed run needs no teacher
    assert len(said(fewer)) == 1


@pytest.mark.parametrize("more", [[], OTHER_STEPS], ids=["alternate", "joint"])
@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_numbers_without_teachers(
    more, teachers, tiny_overrides, tmp_path
):
    changes = [
        *STUDENT,
        *more,
        learns("sst", teachers, temperature=2.0),
        learns("qqp", teachers, weight=0.4),
        "tasks.qqp.r_drop={weight: 2}",
        learns("sts", teachers),
        "tasks.sts.smart={}",
        "training.select=last",
    ]
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    assert run_multitask.main(command(tiny_overrides, whole, *changes)) == 0
    kill_inside(
        f"{trainer.__name__}:train_step", "after", 3, command(tiny_overrides, killed, *changes)
    )
    for run in teachers:
        shutil.rmtree(run)
    given = command(tiny_overrides, killed, *changes)
    assert run_multitask.main([*given, "--resume"]) == 0
    assert results(killed) == results(whole)
    report = json.loads((killed / "report.json").read_text())
    last = {entry["selected_step"] for entry in report["tasks"].values()}
    assert last == {report["steps"]["done"]}
    assert load(killed).predict("sst", ["a good film"])
    exported = ["export", str(killed), str(tmp_path / "onnx"), "--format", "onnx", "--task", "qqp"]
    assert run_multitask.main(exported) == 0
    assert run_multitask.main(["evaluate", str(killed)]) == 0


def test_anneal_goes_from_the_teacher_to_the_labels(teachers, tiny_overrides, tmp_path):
    """The first step sees only the teacher, so other labels of the same rows change nothing."""
    losses = {}
    for name, weight in (("anneal", "anneal"), ("all", 1.0), ("none", None)):
        run = tmp_path / name
        taught = [] if weight is None else [learns("sst", teachers, weight=weight)]
        changes = [*STUDENT, "stages=[{tasks: [sst]}]", "training.schedule=constant", *taught]
        assert run_multitask.main(command(tiny_overrides, run, *changes)) == 0
        losses[name] = [line["loss"] for line in events(run, "step")]
    assert losses["anneal"][0] == losses["all"][0] != losses["none"][0]
    assert losses["anneal"][-1] != losses["all"][-1]


MORE = "tasks.more={data: {train: ids-sst-dev.csv, dev: ids-sst-dev.csv, text: sentence,"
MORE += " label: sentiment}, head: classification, max_length: 48}"


@pytest.mark.parametrize(
    ("change", "removed", "task"),
    [
        ("training.holdout=0.3", [], "sst"),
        ("tasks.sst.data.labels={0: a, 1: b, 2: c, 3: d, 4: e}", [], "sst"),
        (MORE, [], "more"),
        ("seed=1", ["weights", "checkpoints"], "sst"),
        ("seed=1", ["report.json"], "sst"),
        ("seed=1", ["."], "sst"),
    ],
    ids=["holdout", "classes", "task", "weights", "unfinished", "missing"],
)
def test_a_teacher_that_does_not_fit_is_one_line(
    change, removed, task, teachers, tiny_overrides, tmp_path, capsys
):
    for name in removed:
        path = teachers[1] / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    words = command(tiny_overrides, tmp_path / "run", *STUDENT, change, learns(task, teachers))
    place = 1 if removed else 0
    for more in ([], ["check"]):
        said = complaint(capsys, *more, *words)
        assert f"tasks.{task}.distill.from.{place}" in said and str(teachers[place]) in said
    assert not (tmp_path / "run" / "checkpoints").exists()


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["tasks.sst.distill={from: []}"], "tasks.sst.distill.from"),
        (["tasks.sst.distill={from: [a], weight: 0}"], "tasks.sst.distill.weight"),
        (["tasks.sst.distill={form: [a]}"], "from"),
        (["tasks.sts.distill={from: [a], temperature: 2}"], "tasks.sts.distill.temperature"),
        (
            [
                "tasks.sst.head=token_classification",
                "tasks.sst.pooling=tokens",
                "tasks.sst.distill={from: [a]}",
            ],
            "tasks.sst",
        ),
    ],
    ids=["none", "weight", "misspelt", "numbers", "head"],
)
def test_where_it_does_not_fit(changes, key, tiny_overrides, tmp_path, capsys):
    assert key in complaint(capsys, *command(tiny_overrides, tmp_path / "run", *changes))


@pytest.mark.slow
def test_two_processes_learn_the_same_scores(teachers, tiny_overrides, tmp_path):
    still = save_tiny_encoder(tmp_path / "still", attention_probs_dropout_prob=0.0)
    dropout = [f"tasks.{task}.dropout=0" for task in ("sst", "qqp", "sts")]
    changes = ["training.holdout=0.2", "encoder.dropout=0", f"encoder.name={still}", *dropout]
    taught = [learns("sst", teachers), learns("sts", teachers, weight=0.5)]
    given = ["configs/cs224n.yaml", *tiny_overrides, *changes, *taught]
    check_two_processes(given, tmp_path, {"sst": "accuracy", "sts": "pearson"})
