"""Parts that fit tasks of words and of answers; other parts are one clear line."""

import re

import pytest
import torch

import run_multitask
from multitask.config import load_config
from multitask.config.registry import task_type
from multitask.data.collate import by_task
from multitask.data.summary import data_warnings
from multitask.models.head_checks import check_head
from multitask.training.setup import set_up
from multitask.utils.errors import UserError
from tests.support.messages import complaint
from tests.support.run_files import report_of
from tests.support.token_run import tagged, token_config, write_lines, write_token_files


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_token_files(tmp_path_factory.mktemp("tokens"), train=40, dev=9)


@pytest.fixture
def config(files, tiny_encoder, tmp_path):
    return token_config(tmp_path, tiny_encoder, files)


NO_ROWS = [f"tasks.ner.data.{split}=null" for split in ("train", "dev", "test")]
MORE = (
    "tasks.more={head: token_classification, pooling: tokens, data: {same_rows_as: ner, label: x}}"
)
POOLED = (
    "tasks.more={head: token_classification, share_pooling: ner, data: {train: ner-train.jsonl, "
    "dev: ner-dev.jsonl, text: tokens, label: ner_tags}}"
)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        (["tasks.ner.pooling=cls"], "ner.pooling: head 'token_classification' looks at tokens"),
        (["tasks.qa.pooling=mean"], "qa.pooling: head 'span' looks at tokens"),
        (["tasks.ner.input=siamese", "tasks.ner.data.text2=other"], "ner.input: head"),
        (["tasks.qa.input=siamese"], "qa.input: head"),
        (["tasks.ner.smart={}"], "ner.smart: head"),
        (["tasks.qa.smart={}"], "qa.smart: head"),
        (["tasks.ner.course_file={name: n, column: c}"], "ner.course_file: head"),
        (["tasks.qa.glue_file=QNLI"], "qa.glue_file: head"),
        (["tasks.ner.projection=mlp_batchnorm"], "ner.projection: head"),
        (["tasks.qa.eval_pooling=cls"], "qa.eval_pooling: head"),
        (["tasks.ner.data.texts_of=[qa]", *NO_ROWS], "ner.data: head"),
        ([MORE], "it cannot share rows"),
        ([POOLED], "more.share_pooling: head"),
        (["tasks.ner.metric=exact_match"], "ner.metric: head"),
        (["tasks.ner.data.label_range=[0, 5]"], "ner.data.label_range: "),
        (["tasks.qa.data.labels=[a, b]"], "qa.data.labels: "),
        (["tasks.ner.data.labels=[O, NOUN]"], "ner.data.labels: 'NOUN' is no tag of IOB2"),
        (["tasks.ner.data.tag_scheme=IOBES2"], "ner.data.tag_scheme: should be 'IOB2', "),
        (["tasks.qa.head={name: span, max_answer_tokens: 0}"], "qa.head.max_answer_tokens: head"),
        (["tasks.ner.stride=3"], "ner.stride: head"),
        (["tasks.qa.stride=41"], "`stride` (41)"),
        (["tasks.qa.data.text2=passage"], "no column 'passage'"),
        (["tasks.qa.max_length=7"], "its first text alone has 4 tokens"),
        (["training.sampler={name: round_robin, oversample: {while_train_score_below: 0.9}}"],
         "has no training score"),
    ],
)  # fmt: skip
def test_what_does_not_go_is_one_line(changes, place, config, capsys):
    assert place in complaint(capsys, "check", config, *changes)


def test_a_probe_grid_is_refused(config, tmp_path, capsys):
    grid = tmp_path / "grid.yaml"
    grid.write_text(f"base: {config}\nprobe: true\nseeds: [1]\ngrid:\n  tasks.ner.dropout: [0.1]\n")
    line = complaint(capsys, "ablate", grid, "--output", tmp_path / "out")
    assert re.search("tasks.ner.head: a probe has one vector and one label per row", line)


def test_check_shows_tags_answers_and_what_is_cut(config, capsys):
    assert run_multitask.main(["check", str(config), "tasks.qa.max_length=12"]) == 0
    out = capsys.readouterr().out
    assert "ner (O " in out and "qa (answer '" in out
    assert re.search(r"warning: qa: \d+ train answers are cut off: the rows are left out", out)
    assert re.search(r"warning: qa: \d+ dev answers are cut off\n", out)
    assert run_multitask.main(["check", str(config), "tasks.ner.max_length=6"]) == 0
    out = capsys.readouterr().out
    for split in ("dev", "test"):
        assert re.search(rf"warning: ner: \d+ {split} words are cut off, and predicted as O", out)


def test_words_that_the_tokenizer_drops_are_not_called_cut_off(config, tmp_path):
    odd = {"tokens": ["the", "\u200b", "\x1f", "cat"], "ner_tags": ["O"] * 4}
    write_lines(tmp_path / "dev.jsonl", [*tagged(5, 0), odd])
    options = [f"tasks.ner.data.dev={tmp_path}/dev.jsonl", "tasks.qa=null"]
    data = set_up(load_config(config, options), torch.device("cpu"), print).data
    part = data.summary["ner"]["dev"]
    assert (part.cut, part.without_piece) == (2, 2)
    lines = data_warnings(load_config(config), data.summary, ["ner"])
    (line,) = [line for line in lines if "O:" in line or "cut off" in line]
    assert line.startswith("ner: 2 dev words have no token, and are predicted as O: ")


def test_rows_whose_answer_is_cut_leave_train_and_stay_in_dev(config):
    made = set_up(load_config(config, ["tasks.qa.max_length=12"]), torch.device("cpu"), print)
    data, splits = made.data.summary["qa"], made.data.splits["qa"]
    assert 0 < data["train"].cut < 40
    assert data["train"].rows == len(splits["train"].rows) == 40 - data["train"].cut
    assert (splits["train"].tokens.answers >= 0).all()
    assert data["dev"].rows == 9 and data["dev"].cut > 0
    assert (splits["dev"].tokens.answers < 0).any()
    scores = made.scorer.score("qa", made.data.splits["qa"]["dev"])
    assert scores.predictions.shape == (9, 2) and scores.loss > 0
    with pytest.raises(UserError, match="no training row has its answer in the first 8 tokens"):
        set_up(
            load_config(config, ["tasks.qa.max_length=8", "tasks.qa.max_rows=1"]),
            torch.device("cpu"),
            print,
        )


@pytest.mark.slow
def test_windows_lose_no_answer_and_give_one_prediction_a_row(config, tmp_path, capsys):
    changes = ["tasks.qa.max_length=13", "tasks.qa.stride=3"]
    made = set_up(load_config(config, changes), torch.device("cpu"), print)
    splits = made.data.splits["qa"]
    for split, rows in (("train", 40), ("dev", 9)):
        data = made.data.summary["qa"][split]
        assert (data.rows, data.cut, data.truncated_share) == (rows, 0, 0)
        assert rows < data.windows == len(splits[split].tokens)
    answers = splits["train"].tokens.answers
    assert (answers >= 0).all() and (answers == 0).all(axis=1).any()
    assert made.loaders["qa"].stream.steps_per_pass > 40 / 16
    scores = made.scorer.score("qa", made.data.splits["qa"]["dev"])
    assert scores.predictions.shape == (9, 2) and scores.loss > 0
    batches = made.loader.sample(["qa"], seed=(1,))
    assert len(batches["qa"].gold) == 16

    directory = tmp_path / "run"
    more = [*changes, "training.max_steps=4", f"output_dir={directory}"]
    assert run_multitask.main([str(config), *more]) == 0
    file = directory / "predictions" / "qa.dev.jsonl"
    before = file.read_text()
    assert len(before.splitlines()) == 9
    file.unlink()
    assert run_multitask.main(["predict", str(directory)]) == 0
    assert file.read_text() == before
    capsys.readouterr()
    assert run_multitask.main(["check", str(config), *changes]) == 0
    assert "qa (answer '" in capsys.readouterr().out


def test_a_steps_batches_count_words_and_answers(config):
    changes = ["tasks.ner.accumulation=2", "tasks.ner.batch_size=3", "tasks.qa.batch_size=5"]
    made = set_up(load_config(config, changes), torch.device("cpu"), print)
    steps = made.loader.next(["ner"])
    ner = [by_task(one)["ner"] for one in steps]
    words = [len(one.gold) for one in ner]
    assert [one.step_rows for one in ner] == [sum(words)] * 2
    shares = [one.share for one in ner]
    assert shares == pytest.approx([size / sum(words) for size in words])
    (one,) = made.loader.next(["qa"])
    qa = by_task(one)["qa"]
    assert (qa.step_rows, qa.share, tuple(qa.gold.shape)) == (5, 1.0, (5, 2))
    drawn = made.loader.sample(["ner", "qa"], seed=(1, 2))
    assert len(drawn["qa"].gold) == 5 and len(drawn["ner"].gold) > 3


@pytest.mark.slow
def test_another_data_set_under_the_same_head_and_masked_words_of_both(config, tmp_path, files):
    more = [
        "tasks.far={share_head: ner, evaluate_only: true, data: {dev: ner-dev.jsonl, "
        "text: tokens, label: ner_tags}, max_length: 48}",
        "tasks.mlm={head: masked_lm, pooling: tokens, max_length: 48, data: {texts_of: [ner, qa]}}",
        "training.max_steps=3",
        f"output_dir={tmp_path / 'run'}",
    ]
    assert run_multitask.main([str(config), *more]) == 0
    tasks = report_of(tmp_path / "run")["tasks"]
    assert tasks["far"]["dev"] == tasks["ner"]["dev"]
    assert tasks["mlm"]["data"]["dev"]["rows"] > 9


@pytest.mark.parametrize(("task", "name"), [("sst", "class"), ("qqp", "binary"), ("sts", "number")])
def test_a_head_that_fits_gives_the_type_of_the_task(configure, task, name):
    assert check_head(configure(), task) is task_type(name)


@pytest.mark.parametrize(
    ("task", "changes", "message"),
    [
        ("sst", ["tasks.sst.head=cosine_regression"], "it needs `input: siamese`"),
        ("sts", ["tasks.sts.head=regression"], "it needs `input: single` or"),
        ("sts", ["tasks.sts.input=cross"], "does not read .input: cross."),
        ("sts", ["tasks.sts.metric=accuracy"], "has the metrics pearson, spearman, not 'accuracy'"),
        ("qqp", ["tasks.qqp.metric=macro_f1"], "accuracy, f1, average_precision, mcc"),
        ("sst", ["tasks.sst.metric=f1"], "has the metrics accuracy, macro_f1, mcc, not 'f1'"),
    ],
)
def test_a_head_that_does_not_fit_is_one_line(configure, task, changes, message):
    config = configure(*changes)
    with pytest.raises(UserError, match=message) as caught:
        check_head(config, task)
    assert "\n" not in str(caught.value) and f"tasks.{task}" in str(caught.value)
