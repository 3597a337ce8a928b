"""Bad input at the command line: exit code 2 and one line that says what, where and what to do.

Killed and resumed runs, damaged checkpoints, a full disk and Ctrl-C: tests/runs/test_resume.py.
"""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import run_multitask
from multitask.config.run_start import locked
from tests.conftest import ROOT, write_tsv
from tests.support.messages import complaint

PRESET = ROOT / "configs" / "cs224n.yaml"


# --- the YAML file ---


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tasks: [1, 2\nseed: 3\n", "bad.yaml:2: malformed YAML: "),
        ("tasks:\n\tsst: 1\n", "bad.yaml:2: malformed YAML: "),
        ("seed: 3\n", "bad.yaml:1: the key 'tasks' is missing"),
        ("extends: none.yaml\n", "bad.yaml:1: extends: no such file: "),
        ("extends: cs224n.yaml\ntrainin: {}\n", "bad.yaml:2: trainin: unknown key (did you mean "),
    ],
)
@pytest.mark.parametrize("command", ["train", "check"])
def test_yaml_file(text, message, command, capsys, tmp_path):
    (tmp_path / "cs224n.yaml").write_text(PRESET.read_text())
    (tmp_path / "bad.yaml").write_text(text)
    line = complaint(capsys, command, tmp_path / "bad.yaml", f"output_dir={tmp_path / 'run'}")
    assert line.startswith(f"{tmp_path}/{message}")
    assert not (tmp_path / "run").exists()


def test_missing_config_file(capsys):
    line = complaint(capsys, "configs/nowhere.yaml")
    assert line == "configs/nowhere.yaml: cannot read the config file: No such file or directory"


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tasks.sst.pooling=men", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.sst.head=clasification", "unknown head 'clasification' (did you mean 'classif"),
        ("tasks.sst.metric=acuracy", "has the metrics accuracy, macro_f1, mcc, not 'acuracy'"),
        ("tasks.sst.pooling.k=3", "pooling 'cls' has no option 'k' (it has no options)"),
        (
            "tasks.qqp.head.feature=[u]",
            "head 'siamese_paraphrase' has no option 'feature' (did you mean 'features'?)",
        ),
        ("tasks.qqp.head.features=[w]", "features must be a list out of u, v, abs_diff, product"),
        ("tasks.sts.head.linear=no", "linear must be true or false, not 'no'"),
        ("training.sampler={name: round_robin, seed: 3}", "has no option 'seed'"),
        ("tasks.sst.projection={name: linear, output_dim: -2}", "must be at least 1, not -2"),
        # a head that cannot take the task's input, or does not have the metric
        (
            "tasks.sst.head=cosine_regression",
            "head 'cosine_regression' takes a pair: it needs `input: siamese`, not 'single'",
        ),
        (
            "tasks.qqp.input=cross",
            "head 'siamese_paraphrase' takes a pair: it needs `input: siamese`, not 'cross'",
        ),
        (
            "tasks.qqp.head=binary",
            "head 'binary' takes a vector: it needs `input: single` or `input: cross`, not ",
        ),
        ("tasks.sts.metric=accuracy", "has the metrics pearson, spearman, not 'accuracy'"),
        ("tasks.sts.data.label_range=null", "needs `label_range: [low, high]`"),
        ("tasks.qqp.data.labels=[a, b, c]", "the head takes 2 classes, not 3"),
        ("tasks.sst.max_length=65", "65 tokens, but the encoder has 64 positions"),
        ("device=cuda:99", "this machine has no 'cuda:99' device: use `device: auto` or `cpu`"),
        ("tasks.sst.projection=mlp_batchnorm", "as one row has no variance: take `mlp`"),
        ("data_dir=~nobody-of-that-name/data", "no home directory for '~nobody-of-that-name/data'"),
        ("tasks.sst.share_head=[qqp]", "tasks.sst.share_head: expected text, not ['qqp']"),
        ("tasks.sst.share_pooling=[qqp]", "tasks.sst.share_pooling: expected text"),
        ("tasks.sst.data.same_rows_as=[qqp]", "tasks.sst.data.same_rows_as: expected text"),
        ("tasks.new={share_head: sst, data: foo.csv}", "tasks.new.data: "),
        ("device=cdua", "no such device: 'cdua' (auto, cpu, cuda, mps)"),
        ("training.surgery_every=2", "there is no `gradient_surgery`"),
        ("seed", "expected key.path=value"),
    ],
)
def test_configured_value(override, message, refused):
    line = refused(override)
    assert message in line
    # the place that holds the value; a head that no longer fits is named where it stands
    place = f"{PRESET}:" if override == "tasks.qqp.input=cross" else "command line: "
    assert line.startswith(place)


@pytest.mark.parametrize("name", ["mgda", "aligned_mtl"])
def test_a_surgery_that_shortens_gradients_takes_every_step(refused, name):
    pytest.importorskip("torchjd")
    more = (f"training.gradient_surgery={name}", "training.combine=joint")
    line = refused(*more, "training.surgery_every=2")
    assert f"training.surgery_every: {name} shortens the gradient" in line


def test_cuda_without_one(refused, monkeypatch):
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    assert refused("device=cuda") == (
        "command line: device=cuda: device: this machine has no 'cuda' device: use `device: auto` "
        "or `cpu`"
    )


def test_more_processes_than_gpus(refused, monkeypatch):
    """The first process says it, which has a GPU itself."""
    import torch

    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    for name, value in (("RANK", 0), ("LOCAL_RANK", 0), ("WORLD_SIZE", 4), ("LOCAL_WORLD_SIZE", 4)):
        monkeypatch.setenv(name, str(value))
    assert "4 processes, and this machine has 2 GPUs: start one for each" in refused("seed=1")


# --- the data ---

HEADER = ["id", "sentence", "sentiment"]
GOOD = [[f"r{i}", f"text {i}", i % 5] for i in range(6)]


@pytest.mark.parametrize(
    ("name", "header", "rows", "message"),
    [
        (
            "ids-sst-train.csv",
            HEADER,
            [*GOOD, ["x6", "text", "good"]],
            "row 7 (id x6): sentiment is 'good': expected one of 0, 1, 2, 3, 4",
        ),
        (
            "ids-sst-dev.csv",
            HEADER,
            [["x0", "text", 5]],
            "row 1 (id x0): sentiment is '5': expected one of 0, 1, 2, 3, 4",
        ),
        (
            "sts-train.csv",
            ["id", "sentence1", "sentence2", "similarity"],
            [["x0", "a", "b", "5.5"]],
            "row 1 (id x0): similarity is '5.5': expected a number from 0 to 5",
        ),
        (
            "sts-dev.csv",
            ["id", "sentence1", "sentence2", "similarity"],
            [["x0", "a", "b", "much"]],
            "row 1 (id x0): similarity is 'much': expected a number from 0 to 5",
        ),
        ("ids-sst-train.csv", HEADER, [], "no rows"),
        ("ids-sst-train.csv", HEADER, [["x", "text", ""]], "no labelled rows (1 without a label)"),
        ("ids-sst-dev.csv", HEADER, [], "no rows"),
        (
            "ids-sst-train.csv",
            ["id", "sentense", "sentiment"],
            GOOD,
            "no column 'sentence' (did you mean 'sentense'?)",
        ),
        (
            "quora-dev.csv",
            ["id", "sentence1", "sentence2"],
            [["x", "a", "b"]],
            "no column 'is_duplicate' (known: id, sentence1, sentence2); `data.label` names it",
        ),
    ],
)
def test_data_file(name, header, rows, message, refused, course_files, tmp_path):
    data = shutil.copytree(course_files, tmp_path / "data")
    write_tsv(data / name, header, rows)
    line = refused(f"data_dir={data}")
    assert message in line
    assert str(data / name) in line


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        (["data_dir=nowhere"], "command line: data_dir=nowhere: data_dir: no such directory: "),
        (["tasks.sst.data.dev=dev.csv"], "tasks.sst.data.dev: no such file: "),
        (
            ["tasks.sst.data.dev=null"],
            "command line: tasks.sst.data.dev=null: tasks.sst.data.dev: the task has no dev data",
        ),
        (["tasks.sst.data.train=null"], "the task has no train data: name it as `train:`"),
        (["defaults.data.format=csv"], "the header is separated by tabs: set `data.format: tsv`"),
        (["tasks.sst.data.text=text"], "no column 'text' (known: id, sentence, sentiment)"),
        (["training.holdout=0.001"], "holdout 0.001 leaves task sst an empty split"),
    ],
)
def test_configured_data(overrides, message, refused):
    assert message in refused(*overrides)


def test_a_file_that_is_there_is_named_when_it_is_not_found(refused, course_files):
    line = refused("tasks.qqp.data.test=quora-tset.csv")
    assert str(course_files / "quora-tset.csv") in line
    assert "is `data_dir` right?" in line


# --- the encoder ---


def test_encoder_that_is_neither_directory_nor_reachable(refused):
    line = refused("encoder.name=no/such-bert")
    assert line.startswith("command line: encoder.name=no/such-bert: encoder.name: ")
    for part in (
        "'no/such-bert' is neither a directory nor an encoder",
        f"tried {Path('no/such-bert').absolute()} and huggingface.co/no/such-bert",
        "Without the hub: packaged-minilm, or a directory with config.json",
    ):
        assert part in line


DAMAGE = {
    "model.safetensors": None,
    "tokenizer.json": None,
    "config.json": None,
    "half model.safetensors": lambda data: data[: len(data) // 2],
    "half config.json": lambda data: data[: len(data) // 2],
    "foreign config.json": lambda data: b'{"model_type": "gpt2"}',
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_directory_that_holds_no_whole_encoder(damage, refused, tiny_encoder, tmp_path):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    file = encoder / damage.split()[-1]
    change = DAMAGE[damage]
    if change is None:
        file.unlink()
    else:
        file.write_bytes(change(file.read_bytes()))
    line = refused(f"encoder.name={encoder}")
    assert f"encoder.name: cannot load '{encoder}' as an encoder: " in line


def test_empty_directory_is_no_encoder(refused, tmp_path):
    assert f"encoder.name: cannot load '{tmp_path}' as an encoder: " in refused(
        f"encoder.name={tmp_path}"
    )


@pytest.mark.parametrize("name", ["qqpp", "nope"])
def test_a_task_to_leave_out_that_is_not_there(refused, name):
    line = refused(f"tasks.{name}=null")
    assert f"tasks.{name}: no such task to leave out" in line
    assert ("did you mean 'qqp'?" in line) == (name == "qqpp")


def test_a_misspelt_command(capsys):
    line = complaint(capsys, "chek", "configs/demo.yaml")
    assert line == "no such command, and no such config: 'chek' (did you mean 'check'?)"


# --- the run directory ---


def test_directory_that_holds_a_run_is_left_alone(refused, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    (run / "run.json").write_text("{}")
    (run / "report.json").write_text("{}")
    line = refused()
    for part in (str(run), "holds a run already", "--resume", "--overwrite", "output_dir=DIR"):
        assert part in line
    assert sorted(path.name for path in run.iterdir()) == ["report.json", "run.json"]
    assert (run / "report.json").read_text() == "{}"


def test_the_working_directory_is_not_replaced(refused, tmp_path, monkeypatch):
    run = tmp_path / "run"
    run.mkdir()
    for name in ("run.json", "report.json"):
        (run / name).write_text("{}")
    monkeypatch.chdir(run)
    assert ". is where you are" in refused("--overwrite", "output_dir=.")
    assert len(list(run.iterdir())) == 2


@pytest.mark.parametrize("flags", [[], ["--resume"], ["--overwrite"]])
def test_directory_of_something_else_is_left_alone(flags, refused, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    name = "config.yaml"  # of one's own, not a run's
    (run / name).write_text("years of work")
    line = refused(*flags)
    assert f"{run} is not empty and holds no run: choose another output_dir=DIR" in line
    assert (run / name).read_text() == "years of work"


def test_run_directory_that_cannot_be_made(refused, tmp_path):
    (tmp_path / "file").write_text("x")
    assert f"{tmp_path / 'file'} is a file" in refused(f"output_dir={tmp_path / 'file'}")
    for place in (tmp_path / "file" / "run", Path("/proc/run")):
        assert str(place) in refused(f"output_dir={place}")
    assert (tmp_path / "file").read_text() == "x"


# --- a trained run ---


@pytest.mark.parametrize("command", ["evaluate", "predict"])
@pytest.mark.parametrize("place", ["nowhere", ".", "configs/demo.yaml"])
def test_directory_without_a_run(command, place, capsys):
    assert complaint(capsys, command, place) == f"{place}: no run there (config.yaml is missing)"


def test_run_that_was_never_evaluated(capsys, tmp_path):
    (tmp_path / "config.yaml").write_text("tasks: {}\n")
    line = complaint(capsys, "evaluate", tmp_path)
    assert line == f"{tmp_path}: the run has no evaluated weights yet: go on with --resume"


@pytest.fixture(scope="module")
def run_dir(
    tiny_encoder: Path, course_files: Path, tmp_path_factory: pytest.TempPathFactory
) -> Path:
    """A trained run with the tasks `sst` (texts) and `sts` (pairs)."""
    directory = tmp_path_factory.mktemp("bad") / "run"
    arguments = [
        str(PRESET),
        f"data_dir={course_files}",
        f"encoder.name={tiny_encoder}",
        f"output_dir={directory}",
        "training.max_steps=2",
        "training.frozen_baseline=false",
        "defaults.max_length=48",
        "tasks.qqp=null",
    ]
    assert run_multitask.main(arguments) == 0
    return directory


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--task", "sts"], "predict: --task and --file go together"),
        (["--file", "{tmp}/good.txt"], "predict: --task and --file go together"),
        (["--output", "{tmp}/x.jsonl"], "predict: --output is for --file"),
        (
            ["--task", "sst2", "--file", "{tmp}/good.txt"],
            "no task 'sst2'",
        ),
        (["--task", "sst", "--file", "{tmp}/none.txt"], "no such file: {tmp}/none.txt"),
        (["--task", "sst", "--file", "{tmp}"], "no such file: {tmp}"),
        (["--task", "sst", "--file", "{tmp}/pair.txt"], "pair.txt, line 1: expected one text"),
        (["--task", "sts", "--file", "{tmp}/good.txt"], "good.txt, line 1: expected two texts"),
        (["--task", "sst", "--file", "{tmp}/other.csv"], "no column 'sentence' (known: x, y)"),
        (["--task", "sst", "--file", "{tmp}/empty.csv"], "empty.csv: the file is empty"),
        (["--task", "sst", "--file", "{tmp}/sheet.xlsx"], "sheet.xlsx: cannot tell the format"),
        (["--task", "sst", "--file", "{tmp}/good.txt", "--output", "{tmp}/no/x"], "{tmp}/no/"),
        (["data_dir={tmp}"], "no such file: {tmp}/ids-sst-dev.csv (is `data_dir` right?)"),
        (["tasks.sst.pooling=men"], "unknown pooling 'men'"),
        (["device=cuda:99"], "this machine has no 'cuda:99' device"),
    ],
)
def test_predict(arguments, message, run_dir, capsys, tmp_path):
    files = {
        "good.txt": "a good film\n",
        "pair.txt": "a film\ta good film\n",
        "other.csv": "x,y\n1,2\n",
        "empty.csv": "",
        "sheet.xlsx": "PK",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    before = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")}
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    assert message.format(tmp=tmp_path) in complaint(capsys, "predict", run_dir, *given)
    assert {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")} == before


def test_evaluate_where_the_data_are_gone(run_dir, capsys, tmp_path):
    line = complaint(capsys, "evaluate", run_dir, f"data_dir={tmp_path}")
    assert f"no such file: {tmp_path / 'ids-sst-dev.csv'} (is `data_dir` right?)" in line


def test_training_where_a_run_is_asks_first(run_dir, refused):
    before = (run_dir / "report.json").read_bytes()
    line = refused(f"output_dir={run_dir}", "tasks.qqp=null")
    assert f"{run_dir} holds a run already" in line
    assert (run_dir / "report.json").read_bytes() == before


# --- what a run has saved ---


@pytest.fixture
def run_copy(run_dir, tmp_path) -> Path:
    return shutil.copytree(run_dir, tmp_path / "copy")


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("encoder/tokenizer.json", None, "cannot rebuild the encoder: ValueError: "),
        ("encoder/tokenizer.json", "{}", "cannot rebuild the encoder: KeyError: "),
        ("encoder/config.json", '{"num_attention_heads": "x"}', "cannot rebuild the encoder: "),
        ("best.json", '{"foo": 2}', "best.json is damaged"),
    ],
)
def test_a_damaged_run_is_not_scored(file, text, message, run_copy, capsys):
    if text is None:
        (run_copy / file).unlink()
    else:
        (run_copy / file).write_text(text)
    assert message in complaint(capsys, "evaluate", run_copy)


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("report.json", '{"tasks": {}}', "report.json: damaged: it has no seed"),
        ("report.json", '{"seed": 1, "selection_split": "dev", "tasks": {"sst": 3}}',
         "damaged: it has no tasks.sst.label_type"),
        ("metrics.jsonl", "[]\n", "metrics.jsonl: missing or damaged (a line is no object)"),
        ("metrics.jsonl", "{}\n", "metrics.jsonl: missing or damaged ('event')"),
        ("metrics.jsonl", '{"event": "eval", "split": "dev", "step": 1, "tasks": null}\n',
         "metrics.jsonl: missing or damaged"),
    ],
)  # fmt: skip
def test_a_damaged_run_is_not_compared(file, text, message, run_copy, capsys, tmp_path):
    (run_copy / file).write_text(text)
    assert message in complaint(capsys, "report", run_copy, "--output", tmp_path / "out")


@pytest.mark.parametrize(
    "arguments",
    [
        ["report", "RUN", "--output", "RUN"],
        ["table", "configs/glue/table.yaml", "RUN", "--output", "RUN"],
        ["attention", "RUN", "--text", "a film", "--output", "RUN/report.json"],
        ["attention", "RUN", "--text", "a film", "--output", "RUN/best"],
        ["predict", "RUN", "--task", "sst", "--file", "TEXTS", "--output",
         "RUN/predictions/sst.dev.jsonl"],
    ],
)  # fmt: skip
def test_no_output_replaces_a_file_of_a_run(arguments, run_dir, capsys, tmp_path):
    (tmp_path / "texts.txt").write_text("a good film\n")
    before = {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")}
    named = {"RUN": run_dir, "TEXTS": tmp_path / "texts.txt"}
    for short, path in named.items():
        arguments = [word.replace(short, str(path)) for word in arguments]
    assert "choose another --output" in complaint(capsys, *arguments)
    assert {path: path.stat().st_mtime_ns for path in run_dir.rglob("*")} == before


def test_one_process_at_a_time_trains_a_run(run_copy, refused, course_files):
    again = (f"output_dir={run_copy}", "tasks.qqp=null", "--overwrite")
    before = (run_copy / "report.json").read_bytes()
    with locked(run_copy):
        assert f"{run_copy}: another process trains there" in refused(*again)
    assert (run_copy / "report.json").read_bytes() == before


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ('{"id": "a", "sentence": "x", "sentiment": ' + "9" * 5000 + "}", "line 1: not JSON"),
        ("[" * 100_000, "line 1: not JSON"),
        (r'{"id": "\ud800", "sentence": "x", "sentiment": 0}', "line 1: half a letter"),
        (r'{"id": "\ud83d\ude00", "sentence": "x", "sentiment": 9}', "row 1"),
    ],
)
def test_json_lines(line, message, refused, tmp_path):
    (tmp_path / "x.jsonl").write_text(line + "\n")
    data = f"{{train: {tmp_path}/x.jsonl, format: jsonl}}"
    assert message in refused(f"tasks.sst.data={data}")


def test_a_place_that_is_a_file(run_dir, capsys, tmp_path):
    (tmp_path / "file").write_text("")
    arguments = ["attention", run_dir, "--text", "a film", "--output", tmp_path / "file" / "x"]
    assert "a file" in complaint(capsys, *arguments)
    assert (tmp_path / "file").read_text() == ""


def test_help_into_a_pipe_that_closes():
    command = [sys.executable, str(ROOT / "run_multitask.py"), "--help"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        process.stdout.close()
        said = process.stderr.read().decode()
    assert said == "error: Broken pipe\n" and process.returncode == 2
