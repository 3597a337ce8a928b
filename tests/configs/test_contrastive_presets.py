"""The presets of SimCSE, layer-wise attention and DiffCSE, against the paper and on small data."""

import shutil

import pytest

import run_multitask
from multitask.config import load_config
from tests.conftest import ROOT
from tests.support.contrastive_run import write_triplets
from tests.support.tiny_bert import save_tiny_mlm

CONFIGS = ROOT / "configs"
LAYER_ATTENTION = CONFIGS / "layer_attention"
PRESETS = [
    *sorted((CONFIGS / "simcse").glob("*.yaml")),
    *sorted(LAYER_ATTENTION.glob("*.yaml")),
    *sorted(CONFIGS.glob("diffcse*.yaml")),
]
# Table 4: (batch size, rate of the [CLS] row, rate of the row with attention)
TABLE_4 = {
    "bert_base_eq7": (64, 3e-5, 3e-5),
    "roberta_base_eq7": (256, 1e-5, 1e-5),
    "roberta_large_eq7": (256, 3e-5, 3e-5),
    "diffcse": (64, 7e-6, 3e-5),
    "bert_base_eq6": (256, 5e-5, 1e-5),
    "roberta_base_eq6": (256, 5e-5, 3e-5),
    "roberta_large_eq6": (256, 1e-5, 5e-5),
    "bert_base_eq8": (256, 5e-5, 2e-5),
    "roberta_base_eq8": (256, 5e-5, 3e-5),
    "roberta_large_eq8": (256, 1e-5, 5e-5),
}
INPUTS = {"eq6": "siamese", "eq7": "single", "eq8": "triplet", "diffcse": "single"}
ENCODERS = {
    "bert_base": "bert-base-uncased",
    "roberta_base": "roberta-base",
    "roberta_large": "roberta-large",
    "diffcse": "bert-base-uncased",
}


@pytest.mark.parametrize("row", TABLE_4)
@pytest.mark.parametrize("attention", [False, True])
def test_every_row_of_table_4(row, attention):
    batch, plain, with_attention = TABLE_4[row]
    config = load_config(LAYER_ATTENTION / f"{row}{'' if attention else '_cls'}.yaml")
    task, training = config.tasks["contrastive"], config.training
    assert task.batch_size * task.accumulation == batch
    assert training.lr == training.head_lr == (with_attention if attention else plain)
    assert task.pooling.name == ("layer_attention" if attention else "cls")
    assert task.input == INPUTS[row.rpartition("_")[2]]
    assert config.encoder.name == ENCODERS[row.rpartition("_eq")[0] or row]
    assert task.head.options["temperature"] == 0.05
    assert task.head.options.get("hard_negative_weight", 0) == 0
    assert task.projection is not None and task.projection.name == "mlp"
    assert config.tasks["sts"].share_pooling == "contrastive" and training.select == "sts"
    assert [stage.tasks for stage in config.stages or []] == [["contrastive"]]


def test_every_file_is_a_row_of_table_4():
    names = {f"{row}{end}" for row in TABLE_4 for end in ("", "_cls")}
    assert {file.stem for file in LAYER_ATTENTION.glob("*.yaml")} == names


def test_the_settings_of_simcse():
    """Specification, section 2: batch, rate, epochs, tokens, steps between evaluations."""
    for name, expected in (
        ("unsupervised", (64, 3e-5, 1, 32, 125)),
        ("supervised", (512, 5e-5, 3, 32, 125)),
    ):
        config = load_config(CONFIGS / "simcse" / f"{name}.yaml")
        task, training = config.tasks["contrastive"], config.training
        actual = (task.batch_size, training.lr, training.epochs, task.max_length)
        assert (*actual, training.eval_steps) == expected
    diffcse = load_config(CONFIGS / "diffcse.yaml")
    task, training = diffcse.tasks["contrastive"], diffcse.training
    assert (training.epochs, training.lr, task.batch_size, task.max_length) == (2, 7e-6, 64, 32)
    assert task.head.options["mask_share"] == 0.3 and task.head.options["rtd_weight"] == 0.005


@pytest.fixture(scope="module")
def small(course_files, tmp_path_factory):
    """A directory with small files under the names that the presets have."""
    root = tmp_path_factory.mktemp("small")
    data = root / "cs224n"
    shutil.copytree(course_files, data)
    (root / "nli").mkdir()
    write_triplets(root / "nli", rows=120)
    lines = (root / "nli" / "triplets.tsv").read_text().splitlines()[1:]
    cells = [line.split("\t")[:3] for line in lines]
    rows = [",".join(row) for row in cells] * 4
    (data / "nli_for_simcse.csv").write_text("\n".join(["sent0,sent1,hard_neg", *rows]) + "\n")
    texts = [f"{row[0]} {word}" for word in ("dog", "cat", "film", "tree") for row in cells]
    (data / "wiki1m_for_simcse.txt").write_text("\n".join(texts) + "\n")
    return data


@pytest.fixture(scope="module")
def generator(tmp_path_factory):
    return save_tiny_mlm(tmp_path_factory.mktemp("generator"))


# those of other encoders differ in values that are replaced here
@pytest.mark.parametrize(
    "file",
    [file for file in PRESETS if "roberta" not in file.stem],
    ids=lambda file: f"{file.parent.name}-{file.stem}",
)
def test_check_passes_on_small_data(file, small, tiny_encoder, generator, capsys):
    arguments = [f"data_dir={small}", f"encoder.name={tiny_encoder}"]
    arguments += ["tasks.contrastive.max_length=40", "tasks.sts.max_length=40"]
    if load_config(file).tasks["contrastive"].data.dev_share:
        arguments.append("tasks.contrastive.data.dev_share=0.1")
    if "diffcse" in file.stem:
        arguments.append(f"tasks.contrastive.head.generator={generator}")
    assert run_multitask.main(["check", str(file), *arguments]) == 0, capsys.readouterr().err
    assert "steps: " in capsys.readouterr().out


def test_a_contrastive_task_beside_the_three_of_the_course(tiny_overrides, tmp_path, capsys):
    file = str(CONFIGS / "cs224n_contrastive.yaml")
    short = ["tasks.simcse.max_length=40", "training.max_steps=8", "training.frozen_baseline=false"]
    assert run_multitask.main([file, *tiny_overrides, *short]) == 0
    shown = capsys.readouterr().out
    assert "simcse" in shown and "overall: " in shown
    config = load_config(file)
    base = load_config(CONFIGS / "cs224n_minilm.yaml")
    assert {name: config.tasks[name] for name in base.tasks} == base.tasks
