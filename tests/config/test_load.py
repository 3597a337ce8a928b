"""The typed config: every mistake in one line with file, line, key path and the nearest key."""

import subprocess
import sys
from pathlib import Path

import pytest

from multitask.config import EMBEDDED_DIR, Config, load_config
from multitask.config.yaml_tree import load_extended
from multitask.utils.errors import UserError
from tests.conftest import ROOT


def is_run(file: Path) -> bool:
    """Not a grid (it has a `base`), a table's layout, or what other files only share."""
    value = load_extended(file).value
    return "base" not in value and isinstance(value.get("tasks"), dict)


CONFIGS = [
    file
    for file in sorted((ROOT / "configs").rglob("*.yaml"))
    if is_run(file) and "parts" not in file.parent.parts  # of several files, none whole
]

BASE = """\
training:
  epochs: 2
tasks:
  t:
    data:
      train: train.csv
      dev: dev.csv
    head: classification
  pair:
    data: {train: train.csv, dev: dev.csv, text2: second}
    input: siamese
    head: {name: siamese_paraphrase, features: [abs_diff]}
    course_file: {name: n, column: c}
"""


@pytest.fixture
def base(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """base.yaml in the working directory."""
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(BASE)
    return Path("base.yaml")


def refusal(file: str | Path, *overrides: str) -> str:
    with pytest.raises(UserError) as caught:
        load_config(file, list(overrides))
    assert "\n" not in str(caught.value)
    return str(caught.value)


# --- unknown keys ---


@pytest.mark.parametrize(
    ("path", "near"),
    [
        ("sed", "seed"),
        ("trainin", "training"),
        ("default", "defaults"),
        ("extend", "extends"),
        ("encoder.nmae", "name"),
        ("training.epohcs", "epochs"),
        ("tasks.t.poolin", "pooling"),
        ("tasks.t.data.lable", "label"),
        ("tasks.t.early_stopping.patiance", "patience"),
        ("tasks.pair.course_file.colum", "column"),
    ],
)
def test_unknown_key_names_the_nearest_at_every_level(path, near, base):
    expected = f"{path}: unknown key (did you mean '{near}'?)"
    assert refusal(base, f"{path}=1") == f"command line: {path}=1: {expected}"


def test_unknown_key_like_no_other_lists_the_known(base):
    assert "unknown key (known: patience, min_delta)" in refusal(
        base, "tasks.t.early_stopping.zzzz=1"
    )


def test_unknown_key_explains_the_missing_one(base):
    """`hed:` is reported, not that `head` is missing."""
    text = BASE.replace("    head: classification", "    hed: classification")
    base.write_text(text)
    assert refusal(base) == "base.yaml:8: tasks.t.hed: unknown key (did you mean 'head'?)"


# --- names ---


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("tasks.t.pooling=men", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.t.pooling={name: men}", "unknown pooling 'men' (did you mean 'mean'?)"),
        ("tasks.t.projection=tan", "unknown projection 'tan' (did you mean 'tanh'?)"),
        ("tasks.t.head=clasification", "did you mean 'classification'?"),
        ("training.sampler=round", "unknown sampler 'round' (did you mean 'round_robin'?)"),
        ("tasks.t.metric=acuracy", "unknown metric 'acuracy' (did you mean 'accuracy'?)"),
        ("tasks.t.pooling={features: 1}", "the key 'name' is missing"),
        ("tasks.t.pooling=5", "expected a name, or a name and options, not 5"),
        ("tasks.t.pooling={name: 5}", "expected text, not 5"),
        ("tasks.my-task={data: {}, head: binary}", "must be letters, digits and '_'"),
    ],
)
def test_names(override, message, base):
    found = refusal(base, override)
    assert found.startswith(f"command line: {override}: {override.partition('=')[0]}")
    assert message in found


# --- types and ranges ---

TYPES = [
    ("seed", "whole number", ["1.5", "1.0", "true", "'1'", "null", "[1]"]),
    ("training.lr", "number", ["true", "no", "'1'", "null"]),
    ("training.frozen_baseline", "true or false", ["no", "1", "null"]),
    ("output_dir", "text", ["5", "null", "[x]"]),
    ("training.betas", "list", ["0.9", "{a: 1}"]),
    ("training.betas.1", "number", ["[0.9, x]"]),
    ("encoder", "keys and values", ["bert", "null", "[]"]),
    ("tasks", "keys and values", ["5", "null", "[t]"]),
    ("tasks.t", "keys and values", ["5", "[]"]),
    ("tasks.t.data", "keys and values", ["x.csv", "null"]),
    ("tasks.t.data.labels", "keys and values", ["5"]),
    ("tasks.t.data.unlabelled", "list", ["'-1'"]),
]


@pytest.mark.parametrize(
    ("path", "words", "value"), [(path, words, v) for path, words, vs in TYPES for v in vs]
)
def test_wrong_type(path, words, value, base):
    key = path.removesuffix(".1")
    found = refusal(base, f"{key}={value}")
    assert found.startswith(f"command line: {key}={value}: {path}: expected ")
    assert f"expected {words}" in found or f"expected a {words}" in found


RANGES = [
    ("seed", ["-1", "99999999999999999999"], ["0", "5"]),
    ("training.epochs", ["0"], ["1"]),
    ("training.max_steps", ["0"], ["1", "null"]),
    ("training.lr", ["0", "-1e-5", ".inf", ".nan"], ["2e-5", "1"]),
    ("training.betas", ["[0.9]", "[0.9, 1]", "[-0.1, 0.9]", "[.nan, 0.9]"], ["[0, 0.999]"]),
    ("training.warmup", ["-0.1", "1"], ["0", "0.99"]),
    ("training.clip_norm", ["0"], ["0.5", "null"]),
    ("training.keep_checkpoints", ["1"], ["2"]),
    ("training.holdout", ["1.0"], ["0", "0.1"]),
    ("training.schedule", ["linnear", "5"], ["cosine", "polynomial", "constant", "linear"]),
    ("training.precision", ["fp16"], ["bf16"]),
    ("encoder.dropout", ["1"], ["0", "null"]),
    ("tasks.t.max_length", ["3"], ["4"]),
    ("tasks.t.batch_size", ["0"], ["1"]),
    ("tasks.t.accumulation", ["0"], ["2"]),
    ("tasks.t.loss_weight", ["0"], ["0.1"]),
    ("tasks.t.max_rows", ["0"], ["1", "null"]),
    ("tasks.t.early_stopping.patience", ["0"], ["1", "null"]),
    ("tasks.t.early_stopping.min_delta", ["-1"], ["0"]),
    ("tasks.t.input", ["siamse"], ["single"]),
    ("tasks.t.data.format", ["excel"], ["tsv"]),
    ("tasks.t.data.labels", ["[a]", "{0: a, 1: a}", "{0: , 1: b}", "{0: [a], 1: b}"], ["[0, 1]"]),
    ("tasks.t.data.label_range", ["[5]", "[5, 0]", "[0, 0]", "[0, .nan]"], ["[0, 5]"]),
]


@pytest.mark.parametrize(
    ("path", "value"), [(path, value) for path, bad, _ in RANGES for value in bad]
)
def test_out_of_range(path, value, base):
    found = refusal(base, f"{path}={value}")
    assert found.startswith(f"command line: {path}={value}: {path}")


def test_inside_the_range(base):
    for path, _, good in RANGES:
        for value in good:
            load_config(base, [f"{path}={value}"])


def test_out_of_range_says_what_was_expected(base):
    assert refusal(base, "training.lr=0").endswith("training.lr: should be greater than 0, not 0")
    assert refusal(base, "training.schedule=linnear").endswith(
        "should be 'constant', 'linear', 'cosine' or 'polynomial', not 'linnear'"
    )


# --- relations between keys ---


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
    found = refusal(base, *overrides)
    assert f": {path}: " in found
    assert part in found
    if len(overrides) == 1:
        assert found.startswith(f"command line: {overrides[0]}: ")


# --- where the value stands ---

PARENT = """\
seed: 5
training:
  lr: 1.0e-5
defaults:
  batch_size: 8
  data:
    id: id
tasks:
  t:
    data: {train: train.csv, dev: dev.csv}
    head: classification
    dropout: 0.2
"""
CHILD = """\
extends: parent.yaml
training:
  epochs: 2
tasks:
  t:
    metric: accuracy
"""


@pytest.mark.parametrize(
    ("file", "old", "new", "expected"),
    [
        ("parent", "seed: 5", "seed: -5", "parent.yaml:1: seed: "),
        ("parent", "lr: 1.0e-5", "lr: 0", "parent.yaml:3: training.lr: "),
        ("parent", "batch_size: 8", "batch_size: 0", "parent.yaml:5: tasks.t.batch_size: "),
        ("parent", "  id: id", "  id: 5", "parent.yaml:7: tasks.t.data.id: "),
        ("parent", "batch_size", "bacth_size", "parent.yaml:5: tasks.t.bacth_size: unknown key"),
        ("parent", "dropout: 0.2", "dropout: 2", "parent.yaml:12: tasks.t.dropout: "),
        ("parent", "classification", "clasification", "parent.yaml:11: tasks.t.head: "),
        ("child", "epochs: 2", "epochs: 0", "child.yaml:3: training.epochs: "),
        ("child", "metric: accuracy", "metric: acc", "child.yaml:6: tasks.t.metric: "),
        ("child", "metric: accuracy", "head: x", "child.yaml:6: tasks.t.head: "),
        ("child", "metric: accuracy", "data: {label_range: [1]}", "child.yaml:6: tasks.t.data.lab"),
        # the key that is missing: the block that lacks it
        ("parent", "    head: classification\n", "", "parent.yaml:9: tasks.t: the key 'head'"),
        ("parent", "tasks:", "task:", "parent.yaml:8: task: unknown key"),
    ],
)
def test_mistake_names_the_file_and_line_that_hold_the_value(
    file, old, new, expected, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    texts = {"parent": PARENT, "child": CHILD}
    assert old in texts[file]
    texts[file] = texts[file].replace(old, new)
    for name, text in texts.items():
        Path(f"{name}.yaml").write_text(text)
    assert refusal("child.yaml").startswith(expected)


def test_mistake_on_the_command_line_names_it_even_through_defaults(base):
    found = refusal(base, "defaults.batch_size=0", "seed=3")
    assert found.startswith("command line: defaults.batch_size=0: tasks.t.batch_size: ")


def test_later_errors_name_the_source_too(base):
    """Code that works with a config raises with the same sources."""
    config = load_config(base, ["seed=3"])
    assert str(config.error(("tasks", "t", "data", "dev"), "no such file")) == (
        "base.yaml:7: tasks.t.data.dev: no such file"
    )
    assert str(config.error(("seed",), "bad")) == "command line: seed=3: seed: bad"


def test_later_errors_name_the_option_they_are_about(base):
    override = "tasks.pair.head.size=3"
    config = load_config(base, [override])
    path = ("tasks", "pair", "head")
    assert str(config.error(path, UserError("too large", ("size",)))) == (
        f"command line: {override}: tasks.pair.head.size: too large"
    )
    assert str(config.error(path, UserError("too many"))).startswith("base.yaml:12: ")


def test_empty_and_missing_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("empty.yaml").write_text("# nothing\n")
    assert refusal("empty.yaml") == "empty.yaml:1: the key 'tasks' is missing"
    assert refusal("none.yaml").startswith("none.yaml: cannot read the config file: ")


# --- what a valid config holds ---


def test_values_as_written(base):
    config = load_config(
        base,
        [
            "tasks.t.data.labels=[neg, 1, true]",
            "tasks.pair.data.labels={0: no, 1.0: yes}",
            "tasks.t.data.unlabelled=['', -1, n/a]",
            "training.lr=1",
        ],
    )
    assert config.tasks["t"].data.labels == {"neg": "neg", "1": "1", "True": "True"}
    assert config.tasks["pair"].data.labels == {"0": "no", "1.0": "yes"}
    assert config.tasks["t"].data.unlabelled == ["", "-1", "n/a"]
    assert isinstance(config.training.lr, float)
    assert config.tasks["t"].pooling.name == "cls"
    assert config.tasks["pair"].head.options == {"features": ["abs_diff"]}
    assert config.output_dir == str(Path("runs") / "base")


def test_data_directory(base, monkeypatch):
    assert load_config(base).data_path("x.csv") == EMBEDDED_DIR / "x.csv"
    found = load_config(base, ["data_dir=here"])
    assert found.data_path("x.csv") == Path.cwd() / "here" / "x.csv"
    assert found.data_path("/there/x.csv") == Path("/there/x.csv")
    monkeypatch.setenv("HOME", "/home/me")
    assert load_config(base, ["data_dir=~/d"]).data_dir == "/home/me/d"


@pytest.mark.parametrize("file", CONFIGS, ids=lambda file: file.stem)
def test_every_preset_is_valid_and_its_dump_is_the_same_config(file, tmp_path):
    config = load_config(file)
    dumped = tmp_path / "config.yaml"
    dumped.write_text(config.dump(), encoding="utf-8")
    again = load_config(dumped)
    assert again.resolved() == config.resolved()
    assert again.dump() == config.dump()
    assert "extends" not in config.dump()


def test_dump_keeps_text_that_looks_like_a_number(base, tmp_path):
    given = [
        "encoder.revision='12e4567'",
        "tasks.t.data.label='08'",
        "tasks.t.data.labels={'1e5': 'no', x: '2020-01-01'}",
        "tasks.t.data.text='null'",
    ]
    config = load_config(base, given)
    dumped = tmp_path / "config.yaml"
    dumped.write_text(config.dump(), encoding="utf-8")
    assert load_config(dumped).resolved() == config.resolved()


def test_resolved_has_every_key(base):
    resolved = load_config(base).resolved()
    assert set(resolved) == set(Config.model_fields)
    assert resolved["tasks"]["t"]["early_stopping"] == {"patience": None, "min_delta": 0.0}


# --- the presets ---


def test_course_preset_is_the_papers_setting():
    config = load_config(ROOT / "configs" / "cs224n.yaml")
    training = config.training
    assert [task.pooling.name for task in config.tasks.values()] == ["cls", "mean", "mean"]
    assert list(config.tasks) == ["sst", "qqp", "sts"]
    assert (training.lr, training.betas, training.eps) == (2e-5, [0.9, 0.99], 1e-6)
    assert (training.schedule, training.sampler.name) == ("linear", "round_robin")
    assert training.warmup > 0
    assert {task.batch_size for task in config.tasks.values()} == {16}
    assert config.tasks["sts"].course_file.column == "Predicted_Similiary"


@pytest.mark.parametrize("task", ["sst", "qqp", "sts"])
def test_single_task_presets_are_the_papers_baseline(task):
    config = load_config(ROOT / "configs" / f"cs224n_single_{task}.yaml")
    training = config.training
    assert list(config.tasks) == [task]
    assert (training.lr, training.epochs, training.weight_decay) == (1e-5, 10, 0.0)
    assert (training.schedule, training.warmup) == ("constant", 0.0)
    assert (config.tasks[task].batch_size, config.encoder.dropout) == (16, 0.3)


# --- no torch before the config is right ---

QUICK = [
    ("len([__import__('multitask.config')])", 1, ""),
    ("run(['--help'])", 0, "--resume"),
    ("run([])", 2, "--resume"),
    ("run(['train', '--help'])", 0, "--overwrite"),
    ("run(['predict', '--help'])", 0, "--file"),
    ("run(['nowhere.yaml'])", 2, "nowhere.yaml: cannot read"),
    ("run(['attention', 'runs', '--text', ' '])", 2, "--text: the text is empty"),
    (
        "run(['check', 'configs/demo.yaml', 'tasks.sst.pooling=men'])",
        2,
        "unknown pooling 'men' (did you mean 'mean'?)",
    ),
]


@pytest.mark.parametrize(("code", "status", "words"), QUICK)
def test_help_and_config_errors_need_no_torch(code, status, words):
    program = f"""
import sys

def run(arguments):
    import run_multitask
    try:
        return run_multitask.main(arguments)
    except SystemExit as end:
        return end.code

status = {code}
slow = {{"numpy", "torch", "transformers", "datasets", "pandas", "sklearn", "scipy", "matplotlib"}}
print("LOADED", sorted(slow & set(sys.modules)), status)
"""
    result = subprocess.run(
        [sys.executable, "-c", program], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert result.stdout.splitlines()[-1] == f"LOADED [] {status}"
    assert words in result.stdout + result.stderr


# --- paths and numbers ---


def test_a_tilde_is_the_home_directory_in_every_key_that_holds_a_path(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    names = {"data_dir": "~/data", "output_dir": "~/runs/x", "encoder.name": "~/bert"}
    files = {"train": "~/t.csv", "dev": "~/d.csv", "test": "~/e.csv"}
    below = {f"tasks.sst.data.{key}": name for key, name in files.items()}
    overrides = [f"{key}={name}" for key, name in {**names, **below}.items()]
    config = load_config(ROOT / "configs" / "cs224n.yaml", [*overrides, "init_from=~/runs/first"])
    assert (config.data_dir, config.output_dir) == (f"{tmp_path}/data", f"{tmp_path}/runs/x")
    assert (config.encoder.name, config.init_from.run) == (
        f"{tmp_path}/bert",
        f"{tmp_path}/runs/first",
    )
    assert config.data_path(config.tasks["sst"].data.train) == tmp_path / "t.csv"
    assert config.tasks["sst"].data.test == f"{tmp_path}/e.csv"
    with pytest.raises(UserError, match="output_dir: no home directory for '~nobody-here/x'"):
        load_config(ROOT / "configs" / "cs224n.yaml", ["output_dir=~nobody-here/x"])


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("training.eval_batch_size=10000000000000000000", "at most 1,000,000,000,000"),
        ("training.lr=1e300", "at most 1,000,000,000,000"),
        ("encoder.dropout=0.999999", "less than or equal to 0.95"),
        ("tasks.sst.dropout=0.96", "less than or equal to 0.95"),
        ('output_dir="a\\0b"', "cannot hold the character NUL"),
        ('tasks.sst.data.train="a\\0b"', "cannot hold the character NUL"),
    ],
)
def test_numbers_and_paths_that_no_machine_has_are_refused(override, message):
    with pytest.raises(UserError, match=message) as caught:
        load_config(ROOT / "configs" / "cs224n.yaml", [override])
    assert str(caught.value).startswith("command line: ")


def test_a_config_has_only_so_many_tasks(tmp_path):
    file = tmp_path / "many.yaml"
    task = "{data: {train: x, dev: x}, head: classification}"
    file.write_text("tasks:\n" + "".join(f"  t{i}: {task}\n" for i in range(501)))
    with pytest.raises(UserError, match="tasks: at most 500 are possible"):
        load_config(file)
