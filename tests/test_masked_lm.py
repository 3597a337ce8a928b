"""Masked language modelling as a task: real runs on a tiny model."""

import json
import shutil
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional

import run_multitask
from multitask import distributed, load
from multitask.checkpoint import checkpoints, read_tensors
from multitask.config import load_config
from multitask.errors import UserError
from multitask.feed import next_batches
from multitask.objective import task_losses
from multitask.prepare import prepare
from multitask.run import build_trainer
from tests.conftest import save_tiny_encoder
from tests.kill import kill_inside

CONFIG = "configs/cs224n_mlm.yaml"
FAST = ["training.frozen_baseline=false", "training.checkpoint_steps=4", "tasks.mlm.max_length=48"]
EVERY_TASK = ("sst", "qqp", "sts", "mlm")
CPU = torch.device("cpu")


def prepared(*arguments, say=lambda line: None):
    return prepare(load_config(CONFIG, [*arguments, *FAST]), CPU, say)


def stages(**first):
    """Both stages, with settings of the first."""
    entries = [{"name": "masked_lm", "tasks": ["mlm"], **first}]
    return f"stages={json.dumps([*entries, {'name': 'tasks', 'tasks': ['sst', 'qqp', 'sts']}])}"


def batches_of(made, task="mlm"):
    """One step of the task, and its texts."""
    (found,) = next_batches(made.feeds, [task], [task], pad_id=0, device=CPU)
    return found[task]


def events(directory):
    return [json.loads(line) for line in (Path(directory) / "metrics.jsonl").open()]


def report_of(directory):
    return json.loads((Path(directory) / "report.json").read_text())


@pytest.fixture(scope="module")
def overrides(tiny_encoder, course_files):
    return [
        f"data_dir={course_files}",
        f"encoder.name={tiny_encoder}",
        "training.precision=fp32",
        *(f"tasks.{task}.max_length=48" for task in EVERY_TASK),
    ]


@pytest.fixture(scope="module")
def command(overrides):
    return [CONFIG, *overrides, *FAST, "training.epochs=1", "tasks.mlm.batch_size=16"]


@pytest.fixture(scope="module")
def run_dir(command, tmp_path_factory):
    """A finished run of both stages."""
    directory = tmp_path_factory.mktemp("mlm") / "run"
    assert run_multitask.main([*command, stages(epochs=2), f"output_dir={directory}"]) == 0
    return directory


# ---- data


def test_texts_are_those_of_the_tasks_split_by_split(overrides):
    made = prepared(*overrides, "training.holdout=0.2", "tasks.sst.max_rows=10")
    for split in ("train", "holdout", "dev"):
        expected = {
            text
            for task in ("sst", "qqp", "sts")
            for row in made.splits[task][split].rows.texts
            for text in row
        }
        found = made.splits["mlm"][split].rows.texts
        assert {text for (text,) in found} == expected and len(found) == len(expected)
    assert "test" not in made.splits["mlm"]
    capped = prepared(*overrides, "tasks.mlm.max_rows=7")
    assert len(capped.splits["mlm"]["train"].rows) == len(capped.feeds["mlm"].tokens) == 7


def test_texts_of_a_file_of_its_own(overrides, course_files):
    own = "{texts_of: null, train: ids-sst-test-student.csv, dev: ids-sst-dev.csv, text: sentence}"
    made = prepared(*overrides, f"tasks.mlm.data={own}")
    assert len(made.splits["mlm"]["train"].rows) == 6  # it has no column of labels
    dev = [text for (text,) in made.splits["sst"]["dev"].rows.texts]
    assert [text for (text,) in made.splits["mlm"]["dev"].rows.texts] == list(dict.fromkeys(dev))


def test_masks_of_an_evaluation_are_fixed_and_those_of_training_change(overrides):
    made, other = prepared(*overrides), prepared(*overrides, "seed=5")
    one, two = (m.splits["mlm"]["dev"] for m in (made, other))
    assert np.array_equal(one.tokens.ids, two.tokens.ids)  # whatever the seed of the run
    assert one.rows.gold.sum() == (one.tokens.targets >= 0).sum() > 0

    def passes(made, count):
        feed, found = made.feeds["mlm"], []
        for _ in range(count):
            found.append(feed.in_this_pass().targets)
            for _ in range(feed.stream.steps_per_pass):
                feed.stream.next()
            feed.stream.next()  # into the pass after
        return found

    first, second, third = passes(made, 3)
    assert not any(np.array_equal(a, b) for a, b in ((first, second), (second, third)))
    again = passes(prepared(*overrides), 3)
    assert all(np.array_equal(a, b) for a, b in zip((first, second, third), again, strict=True))
    assert not np.array_equal(first, passes(other, 1)[0])


def test_a_batch_holds_the_masks_of_its_rows(overrides):
    made = prepared(*overrides)
    feed = made.feeds["mlm"]
    indices = feed.stream.next()
    feed.stream.load_state_dict({"passes": 0, "position": 0})
    batch, tokens = batches_of(made), feed.in_this_pass()
    labels = []
    for row, index in enumerate(np.concatenate(indices)):
        span = slice(tokens.offsets[index], tokens.offsets[index + 1])
        length = span.stop - span.start
        assert batch.input_ids[row, :length].tolist() == tokens.ids[span].tolist()
        hidden = np.flatnonzero(tokens.targets[span] >= 0)
        width = batch.input_ids.shape[1]
        labels += [(row * width + i, tokens.targets[span][i]) for i in hidden]
    assert list(zip(batch.places.tolist(), batch.labels.tolist(), strict=True)) == labels
    assert batch.step_rows == len(labels) and batch.share == 1


# ---- the model


@pytest.fixture(scope="module", params=["bert", "roberta"])
def checkpoint(request, tmp_path_factory, tiny_encoder):
    """A random `transformers` model with a masked-LM head, and its directory."""
    import transformers

    kinds = {"bert": transformers.BertConfig, "roberta": transformers.RobertaConfig}
    heads = {"bert": transformers.BertForMaskedLM, "roberta": transformers.RobertaForMaskedLM}
    config = kinds[request.param](
        vocab_size=transformers.AutoConfig.from_pretrained(tiny_encoder).vocab_size,
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        intermediate_size=64,
        max_position_embeddings=64,
        pad_token_id=0,
    )
    torch.manual_seed(3)
    model = heads[request.param](config).eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.3)
    directory = tmp_path_factory.mktemp(request.param)
    for file in Path(tiny_encoder).glob("tokenizer*"):
        shutil.copy(file, directory)
    model.save_pretrained(directory)
    return model, directory


@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_logits_loss_and_gradients_equal_those_of_transformers(
    overrides, checkpoint, implementation
):
    model, directory = checkpoint
    said = []
    made = prepared(
        *overrides,
        f"encoder.name={directory}",
        f"encoder.implementation={implementation}",
        say=said.append,
    )
    assert not any("random" in line for line in said)
    made.model.eval()
    batch = batches_of(made)
    outcome = task_losses(made.model, {"mlm": batch})["mlm"]
    labels = torch.full_like(batch.input_ids, -100)
    labels.view(-1)[batch.places] = batch.labels
    expected = model(batch.input_ids, attention_mask=batch.attention_mask, labels=labels)
    logits = expected.logits.flatten(0, 1)[batch.places]
    torch.testing.assert_close(outcome.scores, logits, rtol=1e-5, atol=1e-5)
    assert outcome.loss.item() == pytest.approx(expected.loss.item(), rel=1e-5)
    outcome.loss.backward()
    model.zero_grad()
    expected.loss.backward()
    torch.testing.assert_close(
        made.model.encoder.word_embedding.weight.grad,
        model.get_input_embeddings().weight.grad,
        rtol=1e-4,
        atol=1e-5,
    )


def test_without_a_head_of_its_own_a_line_says_so(overrides):
    said = []
    prepared(*overrides, say=said.append)
    assert any("has no such head of its own: a random one" in line for line in said)


def test_the_vocabulary_product_is_over_masked_tokens_alone(overrides, monkeypatch):
    made = prepared(*overrides)
    words = made.model.encoder.word_embedding.weight
    shapes, linear = [], functional.linear

    def counted(value, weight, bias=None):
        if weight is words:
            shapes.append(tuple(value.shape))
        return linear(value, weight, bias)

    monkeypatch.setattr(functional, "linear", counted)
    batch = batches_of(made)
    task_losses(made.model, {"mlm": batch})["mlm"].loss.backward()
    assert shapes == [(len(batch.labels), 32)]
    assert len(batch.labels) < 0.3 * batch.attention_mask.sum()


def test_the_tied_weight_has_one_owner(overrides, tmp_path):
    made = prepared(*overrides)
    model, words = made.model, made.model.encoder.word_embedding.weight
    assert sum(parameter is words for parameter in model.parameters()) == 1
    same = [name for name, tensor in model.state_dict().items() if tensor.shape == words.shape]
    assert same == ["encoder.embeddings.word.weight"]
    trainer = build_trainer(made, tmp_path, lambda line: None)
    groups = [g["name"] for g in trainer.optimizer.param_groups for p in g["params"] if p is words]
    assert groups == ["encoder"]
    model.freeze(["embeddings"])
    task_losses(model, {"mlm": batches_of(made)})["mlm"].loss.backward()
    assert words.grad is None and model.head("mlm").dense.weight.grad is not None
    model.freeze(["mlm"])
    model.zero_grad()
    task_losses(model, {"mlm": batches_of(made)})["mlm"].loss.backward()
    assert words.grad.any() and model.head("mlm").dense.weight.grad is None


def test_a_text_without_masked_tokens_has_no_loss_and_no_nan(overrides):
    made = prepared(*overrides, "tasks.mlm.head.mask_share=1.0e-9")
    assert next_batches(made.feeds, ["mlm"], ["mlm"], pad_id=0, device=CPU) == []
    dev = made.score("mlm", "dev")
    assert not dev.predictions.any() and np.isnan(dev.loss)


@pytest.mark.parametrize("accumulation", [1, 3])
def test_shares_of_passes_and_processes_add_up_to_the_mean_over_the_step(
    overrides, accumulation, monkeypatch
):
    def parts(world):
        found = []
        for rank in range(world):
            monkeypatch.setattr(distributed, "rank", lambda rank=rank: rank)
            monkeypatch.setattr(distributed, "world", lambda: world)
            size = [f"tasks.mlm.accumulation={accumulation}", "tasks.mlm.batch_size=5"]
            monkeypatch.setattr(distributed, "planned_world", lambda: 1)
            made = prepared(*overrides, *size)
            made.model.double().eval()
            passes = next_batches(made.feeds, ["mlm"], ["mlm"], pad_id=0, device=CPU)
            found += [(task_losses(made.model, one)["mlm"], one["mlm"]) for one in passes]
        return found

    alone, shared = parts(1), parts(2)
    assert len(alone) == accumulation and len(shared) == 2 * accumulation
    tokens = torch.cat([functional.cross_entropy(o.scores, b.gold, reduction="none")
                        for o, b in alone])  # fmt: skip
    for found in (alone, shared):
        total = sum(outcome.loss.item() * batch.share for outcome, batch in found)
        assert total == pytest.approx(tokens.mean().item(), rel=1e-10)


def test_own_encoder_and_transformers_train_the_same_steps(overrides, tmp_path):
    """Both encoders: gradients through the tie, the optimizer, the masks."""
    losses = []
    no_dropout = save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)
    for implementation in ("own", "transformers"):
        made = prepared(
            *overrides,
            f"encoder.implementation={implementation}",
            "encoder.dropout=0",
            f"encoder.name={no_dropout}",
            "training.max_steps=4",
        )
        (tmp_path / implementation).mkdir()
        trainer = build_trainer(made, tmp_path / implementation, lambda line: None)
        trainer.run()
        steps = [e for e in events(tmp_path / implementation) if e["event"] == "step"]
        losses.append([step["loss"] for step in steps])
    assert len(losses[0]) == 4
    np.testing.assert_allclose(*losses, rtol=1e-5)


# ---- whole runs


def test_two_stages_of_one_config_and_the_loss_falls(overrides, tmp_path):
    directory = tmp_path / "run"
    learn = [
        stages(epochs=40, lr=3e-3),
        "tasks.mlm.head_lr=3e-3",
        "training.epochs=1",
    ]
    assert run_multitask.main([CONFIG, *overrides, *FAST, *learn, f"output_dir={directory}"]) == 0
    log = events(directory)
    (begin,) = [event for event in log if event["event"] == "stage"]
    assert begin["stage"] == "tasks"
    turns = Counter((e["task"], e["step"] > begin["step"]) for e in log if e["event"] == "step")
    assert {task for task, later in turns if not later} == {"mlm"}
    assert {task for task, later in turns if later} == {"sst", "qqp", "sts"}
    losses = [e["loss"] for e in log if e["event"] == "step" and e["task"] == "mlm"]
    assert np.mean(losses[-20:]) < 0.8 * np.mean(losses[:5])
    dev = [e["tasks"]["mlm"] for e in log if e["event"] == "eval" and e["step"] <= begin["step"]]
    assert dev[-1]["perplexity"] < 0.7 * dev[0]["perplexity"]
    trivial = report_of(directory)["tasks"]["mlm"]["baselines"]["trivial"]
    assert max(one["accuracy"] for one in dev) > trivial["accuracy"]
    assert min(one["perplexity"] for one in dev) < trivial["perplexity"]


def test_masked_lm_does_not_enter_the_mean_that_selects(run_dir):
    for event in events(run_dir):
        if event["event"] == "eval":
            own = {task: found["accuracy" if task != "sts" else "pearson"]
                   for task, found in event["tasks"].items()}  # fmt: skip
            assert set(own) == set(EVERY_TASK)
            three = np.mean([own[task] for task in ("sst", "qqp", "sts")])
            assert event["joint"] == pytest.approx(three)
    report = report_of(run_dir)
    metric = {task: entry["dev"][entry["metric"]] for task, entry in report["tasks"].items()}
    three = np.mean([metric[task] for task in ("sst", "qqp", "sts")])
    assert report["overall"]["mean"] == pytest.approx(three)


def test_saved_weights_hold_the_tied_one_once_and_load_tied(run_dir):
    best = json.loads((run_dir / "best.json").read_text())
    saved = load_file(run_dir / "weights" / f"step-{best['joint']:08d}.safetensors")
    words = saved["encoder.embeddings.word.weight"]
    assert sum(tensor.shape == words.shape for tensor in saved.values()) == 1
    newest = checkpoints(run_dir / "checkpoints")[-1]
    tensors = read_tensors(newest / "model.safetensors")
    assert set(tensors) == set(saved)
    moments = read_tensors(newest / "optimizer.safetensors")
    assert sum(tensor.shape == words.shape for tensor in moments.values()) == 2  # AdamW's two
    run = load(run_dir)
    run.predict("sst", ["a good film"])  # loads the weights
    head = run.model.head("mlm")
    assert head._tied[0] is run.model.encoder.word_embedding
    assert torch.equal(head._tied[0].weight, words)
    vectors = torch.randn(3, 32)
    with torch.no_grad():
        before = head(vectors)
        run.model.encoder.word_embedding.weight.mul_(2)
        torch.testing.assert_close(head(vectors) - head.bias, 2 * (before - head.bias))


def test_report_and_commands_of_a_run_with_masked_lm(run_dir, command, tmp_path, capsys):
    result = report_of(run_dir)["tasks"]["mlm"]
    assert (result["label_type"], result["metric"]) == ("tokens", "accuracy")
    assert result["classes"] is result["label_range"] is result["baselines"]["frozen"] is None
    dev = result["dev"]
    assert dev["perplexity"] == pytest.approx(np.exp(dev["loss"]))
    for page in ("report.md", "report.html"):
        assert "perplexity" in (run_dir / page).read_text()
    rows = [json.loads(line) for line in (run_dir / "predictions/mlm.dev.jsonl").open()]
    right, masked = (sum(row[key] for row in rows) for key in ("prediction", "label"))
    assert dev["accuracy"] == pytest.approx(right / masked)
    assert not list(run_dir.glob("predictions/mlm*.csv"))

    def main(*arguments):
        code = run_multitask.main(list(map(str, arguments)))
        return code, capsys.readouterr()

    before = (run_dir / "predictions/mlm.dev.jsonl").read_text()
    assert main("evaluate", run_dir)[0] == 0
    evaluated = json.loads((run_dir / "evaluation-dev.json").read_text())["mlm"]["metrics"]
    assert evaluated == pytest.approx(dev)
    assert main("predict", run_dir)[0] == 0
    assert (run_dir / "predictions/mlm.dev.jsonl").read_text() == before
    code, out = main("check", *command)
    assert code == 0 and "tokens to predict)" in out.out and "[MASK]" in out.out
    texts = tmp_path / "texts.txt"
    texts.write_text("a good film\n")
    code, out = main("predict", run_dir, "--task", "mlm", "--file", texts)
    assert code == 2 and "take another task: sst, qqp, sts" in out.err
    with pytest.raises(UserError, match="predicts masked tokens"):
        load(run_dir).encode(["a good film"], task="mlm")
    assert load(run_dir).encode(["a good film"]).shape == (1, 32)


def test_comparison_and_ensemble_with_a_run_that_has_no_masked_lm(
    run_dir, command, tmp_path, capsys
):
    plain = tmp_path / "plain"
    more = ["stages=null", "tasks.mlm=null", f"output_dir={plain}"]
    words = [word for word in command if "tasks.mlm" not in word]
    assert run_multitask.main([*words, *more]) == 0
    out = tmp_path / "comparison"
    arguments = ["report", str(plain), str(run_dir), "--output", str(out)]
    assert run_multitask.main(arguments) == 0, capsys.readouterr().err
    comparison = json.loads((out / "comparison.json").read_text())
    assert [set(g["tasks"]) for g in comparison["groups"]] == [set(EVERY_TASK[:3]), set(EVERY_TASK)]
    for group, directory in zip(comparison["groups"], (plain, run_dir), strict=True):
        mean = report_of(directory)["overall"]["mean"]
        assert group["overall"]["mean"] == pytest.approx(mean)
    capsys.readouterr()
    assert run_multitask.main(["predict", str(plain), str(run_dir)]) == 0
    assert "masked tokens are not averaged: mlm" in capsys.readouterr().out


def test_masked_lm_alone_selects_by_its_own_accuracy(overrides, tmp_path, course_files):
    directory = tmp_path / "run"
    own = "{train: ids-sst-train.csv, dev: ids-sst-dev.csv, text: sentence, format: tsv}"
    config = tmp_path / "alone.yaml"
    config.write_text(
        f"encoder: {{dropout: 0.0}}\ntasks:\n  mlm:\n    data: {own}\n    max_length: 48\n"
        "    pooling: tokens\n    head: masked_lm\n"
    )
    words = [word for word in overrides if not word.startswith("tasks.")]
    more = ["training.epochs=2", "training.loss_normalization=unit", f"output_dir={directory}"]
    assert run_multitask.main([str(config), *words, *more]) == 0
    report = report_of(directory)
    assert report["overall"]["mean"] == report["tasks"]["mlm"]["dev"]["accuracy"]
    first = next(event for event in events(directory) if event["event"] == "step")
    assert 0.8 < first["loss"] < 1.5 * np.log(47)  # the log has the loss itself


@pytest.mark.parametrize(
    ("place", "when", "nth"),
    [
        ("multitask.trainer:train_step", "after", 7),  # in the first stage, between checkpoints
        ("multitask.trainer:train_step", "before", 15),
        ("multitask.evaluate:score_split", "before", 4),
    ],
)
def test_killed_run_resumes_to_the_same_numbers(place, when, nth, command, run_dir, tmp_path):
    directory = tmp_path / "run"
    full = [*command, stages(epochs=2), f"output_dir={directory}"]
    kill_inside(place, when, nth, full)
    assert run_multitask.main([*full, "--resume"]) == 0
    assert events(directory) == events(run_dir)
    assert report_of(directory)["tasks"] == report_of(run_dir)["tasks"]


# ---- mistakes


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("tasks.mlm.pooling=mean", "looks at tokens: it needs `pooling: tokens`"),
        ("tasks.sst.pooling=tokens", "head 'classification' does not look at tokens"),
        ("tasks.sst.data={texts_of: [qqp], label: sentiment}", "expected|`texts_of` says"),
        ("tasks.mlm.data.texts_of=[sst, qpq]", "did you mean 'qqp'"),
        ("tasks.mlm.data.texts_of=[mlm]", "expected a task with rows of its own"),
        ("tasks.mlm.data.texts_of=[]", "at least"),
        ("tasks.mlm.data.train=x.csv", "`texts_of` says whose rows these are"),
        ("tasks.mlm.data.labels=[a, b]", "it has no labels"),
        ("tasks.mlm.metric=f1", "has the metrics accuracy, not 'f1'"),
        ("tasks.mlm.head.mask_share=1.5", "mask_share must be between 0 and 1"),
        ("tasks.mlm.head.whole_word=true", "did you mean 'whole_words'"),
        ("tasks.mlm.course_file={name: mlm, column: X}", "it needs no course file"),
        (
            "training.sampler={name: round_robin, oversample: {while_train_score_below: 0.4}}",
            "mlm has no training score",
        ),
    ],
)
def test_mistakes_are_one_line(overrides, change, message):
    with pytest.raises(UserError, match=message) as caught:
        prepared(*overrides, change)
    assert "\n" not in str(caught.value)


def test_shared_rows_are_refused(overrides):
    with pytest.raises(UserError, match=r"texts of its own: see `data\.texts_of`"):
        prepared(*overrides, "tasks.mlm.data={texts_of: null, same_rows_as: sst}")
