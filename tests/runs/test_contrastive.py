"""Contrastive learning as a task: evaluation, real runs, mistakes."""

import json

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.data.collate import by_task, separate
from multitask.inference.scoring import measure
from multitask.training.loss import Objective
from multitask.training.step import train_step
from multitask.utils.errors import UserError
from tests.support.contrastive_run import batch_of, prepared, write_config
from tests.support.run_files import events, report_of

# ---- evaluation


def test_the_pooling_shared_with_sts_is_the_same_weights(contrastive_config):
    made = prepared(contrastive_config("siamese", pooling="layer_attention"))
    model = made.model.eval()
    assert "views" in model.owned("sts") and not list(model.tasks["sts"].parameters())
    batch = by_task(batch_of(made))["views"]
    z = model(separate({"views": batch}))["views"]
    cosine = torch.nn.functional.cosine_similarity(z[:, 0], z[:, 1])
    torch.testing.assert_close(model(separate({"sts": batch}))["sts"], 5 * cosine)


@pytest.mark.parametrize("trained", [["sts"], ["views", "sts"]])
def test_a_shared_pooling_is_trained_once_by_whoever_trains(contrastive_config, trained):
    file = contrastive_config("siamese", pooling="layer_attention")
    stages = f"stages=[{{tasks: [{', '.join(trained)}], warmup: 0}}]"
    made = prepared(file, stages, "tasks.sts.head_lr=0.5")
    optimizer, _ = made.stages[0].begin(made.model)
    inside = [id(p) for group in optimizer.param_groups for p in group["params"]]
    module = made.model.tasks["views"]
    assert all(inside.count(id(p)) == 1 for p in module.parameters())
    rates = {group["lr"] for group in optimizer.param_groups if group["name"] == "views"}
    assert rates == {0.5 if trained == ["sts"] else 1e-3}
    (batches,) = made.loader.next(["sts"])
    before = module.projection.dense.weight.clone()
    train_step(made.model.train(), [batches], optimizer, Objective({"sts": 1.0}))
    assert not torch.equal(module.projection.dense.weight, before)
    assert all(p.grad is None for p in made.model.parameters())


@pytest.mark.parametrize("only_train", [True, False])
def test_mlp_only_train_is_a_matter_of_evaluation(contrastive_config, only_train):
    head = f"{{name: contrastive, mlp_only_train: {str(only_train).lower()}}}"
    made = prepared(contrastive_config("single", head, dropout=0))
    model, shared = made.model, batch_of(made)
    batch = by_task(shared)["views"]
    projection = model.tasks["views"].projection
    pooled = model.eval().pooled(shared)["views"]
    behind = projection(pooled)
    assert torch.equal(model.vectors("views", batch), pooled if only_train else behind)
    assert torch.equal(model.vectors("sts", batch), pooled if only_train else behind)
    for layer in model.encoder.layers:
        layer.attention.dropout.rate = 0.0
    trained = model.train()(shared)["views"]
    torch.testing.assert_close(torch.cat(trained.unbind(1)), behind)


def test_eval_pooling_stands_in_for_pooling_and_mlp(contrastive_config):
    file = contrastive_config("single", pooling="layer_attention")
    plain, other = prepared(file), prepared(file, "tasks.views.eval_pooling=mean")
    mean = prepared(
        contrastive_config("single", "{name: contrastive, mlp_only_train: true}", pooling="mean")
    )
    batch = by_task(batch_of(plain))["views"]
    expected = mean.model.eval().vectors("views", batch)
    for task in ("views", "sts"):
        torch.testing.assert_close(other.model.eval().vectors(task, batch), expected)
    assert plain.model.eval().vectors("views", batch).shape == expected.shape
    weights = [set(made.model.state_dict()) for made in (plain, other)]
    assert weights[0] == weights[1]
    torch.manual_seed(0)
    trained = plain.model.train().pooled(separate({"views": batch}))["views"]
    torch.manual_seed(0)
    assert torch.equal(other.model.train().pooled(separate({"views": batch}))["views"], trained)


SHARING = """
data_dir: {files}
encoder: {{name: {encoder}}}
training: {{epochs: 1, frozen_baseline: false, precision: fp32, max_steps: 2}}
defaults: {{max_length: 40}}
tasks:
  sts:
    data: {{format: tsv, train: sts-train.csv, dev: sts-dev.csv, text: sentence1, text2: sentence2,
           label: similarity, label_range: [0, 5]}}
    input: siamese
    pooling: mean
    projection: tanh
    head: cosine_regression
  views: {{data: {{texts_of: [sts]}}, share_pooling: sts, head: contrastive}}
"""


def test_a_contrastive_task_may_share_anothers_pooling(contrastive_files, tiny_encoder, tmp_path):
    """In evaluation its rows stand once; its vectors are what its head compares."""
    file = tmp_path / "c.yaml"
    file.write_text(SHARING.format(files=contrastive_files, encoder=tiny_encoder))
    assert run_multitask.main([str(file), f"output_dir={tmp_path / 'run'}"]) == 0
    run = load(tmp_path / "run")
    texts = ["a good film", "the cat sees a dog", "a bad film"]
    pooled, compared = (torch.from_numpy(run.encode(texts, task=t)) for t in ("sts", "views"))
    with torch.no_grad():
        torch.testing.assert_close(compared, run.model.tasks["sts"].projection(pooled))
    assert not torch.allclose(compared, pooled)


# ---- runs


@pytest.mark.parametrize(
    ("input", "pooling"),
    [
        ("single", "mean"),
        pytest.param("siamese", "mean", marks=pytest.mark.slow),
        ("triplet", "{name: layer_attention, variant: avg_all, concat_cls_last: false}"),
    ],
)
def test_a_run_learns_reports_and_exports(contrastive_config, input, pooling, tmp_path, capsys):
    head = "{name: contrastive, chunk: 12, hard_negative_weight: 0.0}"
    directory = tmp_path / "run"
    arguments = [contrastive_config(input, head, pooling=pooling), f"output_dir={directory}"]
    assert run_multitask.main(["check", *arguments]) == 0
    out = capsys.readouterr().out
    assert ("each text with itself" if input == "single" else "all other texts") in out
    assert "sts: in no stage: only evaluated" in out
    more = ["encoder.dropout=0.05", "training.frozen_baseline=true"]
    assert run_multitask.main([*arguments, "training.epochs=12", *more]) == 0
    steps = [e["loss"] for e in events(directory) if e["event"] == "step"]
    assert np.mean(steps[-4:]) < 0.7 * np.mean(steps[:4])
    assert {e["task"] for e in events(directory) if e["event"] == "step"} == {"views"}
    evaluations = events(directory, "eval")
    report = report_of(directory)
    views, sts = report["tasks"]["views"], report["tasks"]["sts"]
    assert views["label_type"] == "views" and views["metric"] == "probability"
    assert 0 < views["baselines"]["trivial"]["probability"] < 0.2
    if input == "single":  # without dropout both views are equal
        assert views["dev"]["accuracy"] == 1.0
    else:
        assert views["dev"]["accuracy"] > views["baselines"]["trivial"]["accuracy"]
    start = prepared(arguments[0], "training.frozen_baseline=true")
    split, reader = start.data.splits["sts"]["dev"], start.data.readers["sts"]
    before = measure(start.scorer.score("sts", split), split.rows, reader)
    assert sts["baselines"]["frozen"]["spearman"] == pytest.approx(before["spearman"], abs=1e-6)
    assert {"alignment", "uniformity", "mean_cosine"} <= set(evaluations[0]["tasks"]["sts"])
    assert (directory / "figures" / "space.png").is_file()
    best = max(evaluations, key=lambda e: e["tasks"]["sts"]["spearman"])
    assert sts["selected_step"] == views["selected_step"] == best["step"]
    capsys.readouterr()
    assert run_multitask.main(["evaluate", str(directory)]) == 0
    assert run_multitask.main(["report", str(directory)]) == 0
    assert run_multitask.main(["predict", str(directory)]) == 0
    run = load(directory)
    vectors = run.encode(["a good film", "a bad film"], task="views")
    assert vectors.shape == (2, 32) and np.array_equal(
        vectors, run.encode(["a good film", "a bad film"], task="sts")
    )
    with pytest.raises(UserError, match="predicts nothing about a text"):
        run.predict("views", ["a", "b"] if input == "single" else [("a", "b"), ("c", "d")])


def test_it_does_not_count_in_the_mean_beside_other_tasks(contrastive_config, tmp_path):
    directory = tmp_path / "run"
    both = ["stages=null", "training.max_steps=2", "training.loss_normalization=unit"]
    assert run_multitask.main([contrastive_config(), *both, f"output_dir={directory}"]) == 0
    report = report_of(directory)
    assert report["overall"]["mean"] == report["tasks"]["sts"]["dev"]["spearman"]
    first = next(e for e in events(directory) if e["event"] == "step" and e["task"] == "views")
    assert first["loss"] < np.log(16) + 0.5


@pytest.mark.slow
def test_commands_take_the_dev_rows_that_are_part_of_train(
    contrastive_files, tiny_encoder, tmp_path, capsys
):
    run = tmp_path / "run"
    assert (
        run_multitask.main(
            [
                write_config(tmp_path / "c.yaml", tiny_encoder, contrastive_files),
                f"output_dir={run}",
            ]
        )
        == 0
    )
    predictions = run / "predictions" / "views.dev.jsonl"
    written = predictions.read_text()
    predictions.unlink()
    assert run_multitask.main(["predict", str(run)]) == 0
    assert predictions.read_text() == written
    capsys.readouterr()
    assert run_multitask.main(["evaluate", str(run)]) == 0
    dev = report_of(run)["tasks"]["views"]["dev"]
    result = json.loads((run / "evaluation-dev.json").read_text())["views"]["metrics"]
    assert result["probability"] == pytest.approx(dev["probability"])


def test_scores_of_a_pooling_that_only_trains_are_not_watched(contrastive_config, tmp_path):
    file = contrastive_config("siamese", pooling="hire", data=None)
    short = ["tasks.views.eval_pooling=mean", "training.max_steps=1"]
    assert run_multitask.main([file, *short, f"output_dir={tmp_path / 'run'}"]) == 0
    assert all(e["event"] != "importance" for e in events(tmp_path / "run"))
