"""Shared fixtures: a tiny random BERT on disk, small task files, the packaged and the real data."""

import csv
import os
import warnings
from collections.abc import Callable, Iterator
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

settings.register_profile("tests", deadline=None)  # no test measures a wall clock
settings.load_profile("tests")

os.environ.setdefault("HF_HUB_OFFLINE", "1")  # tests need no network, and say so at once
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("MULTITASK_KERNELS", "torch")  # no test waits for a compiler by chance

ROOT = Path(__file__).parent.parent
COURSE_DATA = ROOT.parent / "shared" / "data" / "cs224n"

WORDS = (
    "a the big small red blue cat dog bird man woman child house tree river sees eats likes hates "
    "finds never always not and but very film story good bad great awful dull bright runs sleeps "
    "in on under near today there is was it this that who what why how do does ? . , ' s"
).split()


@pytest.fixture(scope="session", autouse=True)
def cache_directory(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Token caches of the tests stay out of the user's cache."""
    os.environ["MULTITASK_CACHE"] = str(tmp_path_factory.mktemp("cache"))


@pytest.fixture
def no_warnings() -> Iterator[None]:
    """Make warnings errors: of NaN, of a missing layout or a bad limit in a figure."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        # A library's open file of an earlier test is collected at any time, also in this one.
        warnings.simplefilter("ignore", ResourceWarning)
        yield


@pytest.fixture(scope="module", autouse=True)
def blank_figures() -> Iterator[None]:
    """Save blank figures: drawing takes most of the time of a tiny run.

    Tests of figures define a fixture of this name that does nothing.
    """
    from multitask.reporting.figures import style

    draw = style.save_figure

    def save_blank(figure: object, file: Path | BytesIO) -> None:
        draw(style.new_figure(0.1, 0.1), file)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(style, "save_figure", save_blank)
        yield


def save_tiny_encoder(
    directory: Path, kind: str = "bert", auto: str = "AutoModel", **changes: object
) -> Path:
    """A random 2-layer encoder of width 32 with a word-level WordPiece tokenizer.

    ``auto`` names the class of `transformers`, such as ``AutoModelForMaskedLM``.
    """
    import torch
    import transformers
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    special = {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4}
    vocabulary = special | {word: i for i, word in enumerate(WORDS, len(special))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[("[CLS]", 2), ("[SEP]", 3)],
    )
    names = {"pad": "[PAD]", "unk": "[UNK]", "cls": "[CLS]", "sep": "[SEP]", "mask": "[MASK]"}
    fast = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizer,
        model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        **{f"{name}_token": token for name, token in names.items()},
    )
    common = {"vocab_size": len(vocabulary), "pad_token_id": 0, "max_position_embeddings": 64}
    sizes = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
    sizes["intermediate_size"] = 64
    one_type = {**common, **sizes, "type_vocab_size": 1}
    special_ids = {"pad_token_id": 0, "bos_token_id": 2, "eos_token_id": 3}
    deberta = {"relative_attention": True, "position_buckets": 8, "norm_rel_ebd": "layer_norm"}
    deberta |= {"position_biased_input": False, "share_att_key": True, "pos_att_type": "p2c|c2p"}
    local = {"cls_token_id": 2, "sep_token_id": 3, "local_attention": 8}
    configs = {
        "bert": (transformers.BertConfig, {**common, **sizes}),
        "roberta": (transformers.RobertaConfig, one_type),
        "xlm-roberta": (transformers.XLMRobertaConfig, one_type),
        "camembert": (transformers.CamembertConfig, one_type),
        "electra": (transformers.ElectraConfig, {**common, **sizes, "embedding_size": 16}),
        "distilbert": (
            transformers.DistilBertConfig,
            {**common, "dim": 32, "n_layers": 2, "n_heads": 4, "hidden_dim": 64},
        ),
        "albert": (transformers.AlbertConfig, {**common, **sizes, "embedding_size": 16}),
        "mpnet": (transformers.MPNetConfig, {**common, **sizes}),
        "deberta-v2": (transformers.DebertaV2Config, {**common, **sizes, **deberta}),
        "modernbert": (transformers.ModernBertConfig, {**common, **sizes, **special_ids, **local}),
        "nomic_bert": (transformers.NomicBertConfig, {**common, **sizes}),
        "gte": (transformers.GteConfig, one_type),
        "eurobert": (transformers.EuroBertConfig, {**common, **sizes, **special_ids}),
    }
    make, settings = configs[kind]
    torch.manual_seed(0)
    model = getattr(transformers, auto).from_config(make(**{**settings, **changes}))
    model.save_pretrained(directory)
    fast.save_pretrained(directory)
    return directory


@pytest.fixture(scope="session")
def tiny_encoder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of a tiny random BERT."""
    return save_tiny_encoder(tmp_path_factory.mktemp("tiny-bert"))


def write_tsv(file: Path, header: list[str], rows: list[list[object]]) -> Path:
    """A tab-separated file in the course's layout (unnamed index column first)."""
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, delimiter="\t")
        writer.writerow(["", *header])
        writer.writerows([i, *row] for i, row in enumerate(rows))
    return file


def write_course_files(directory: Path, train: int = 40, dev: int = 12) -> Path:
    """Small made-up SST, QQP and STS files in the course's layout, learnable from single words."""
    import random

    random.seed(0)

    def sentence() -> str:
        return " ".join(random.choices(WORDS[:40], k=random.randint(3, 9)))

    for split, size in (("train", train), ("dev", dev), ("test-student", 6)):
        labelled = split != "test-student"
        sst, quora, sts = [], [], []
        for i in range(size):
            label = i % 5
            mood = ["awful", "bad", "dull", "good", "great"][label]
            sst.append([f"s{split}{i}", f"{sentence()} {mood} .", label])
            first = sentence()
            second = first if i % 2 else sentence()
            quora.append([f"q{split}{i}", f"{first} ?", f"{second} ?", f"{i % 2:.1f}"])
            score = round(5 * (i % 6) / 5, 1)
            third = first if score > 2.5 else sentence()
            sts.append([f"t{split}{i}", f"{first} .", f"{third} {mood} .", score])
        end = None if labelled else -1
        write_tsv(
            directory / f"ids-sst-{split}.csv",
            ["id", "sentence", "sentiment"][:end],
            [row[:end] for row in sst],
        )
        for name, rows, column in (("quora", quora, "is_duplicate"), ("sts", sts, "similarity")):
            header = ["id", "sentence1", "sentence2", column]
            write_tsv(directory / f"{name}-{split}.csv", header[:end], [row[:end] for row in rows])
    return directory


@pytest.fixture(scope="session")
def course_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Directory of small course files; read only."""
    return write_course_files(tmp_path_factory.mktemp("course"))


@pytest.fixture(scope="session")
def tiny_run(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A run of the three course tasks, two steps on a tiny encoder; read only."""
    from tests.support.commands import trained

    directory = tmp_path_factory.mktemp("runs") / "run"
    return trained(directory, tiny_encoder, course_files, "training.max_steps=2")


@pytest.fixture(scope="session")
def course_run(tiny_encoder: Path, course_files: Path, tmp_path_factory) -> Path:
    """A run of the three course tasks, two epochs with a holdout and baselines; read only."""
    from tests.support.commands import trained

    directory = tmp_path_factory.mktemp("runs") / "run"
    changes = ["training.epochs=2", "training.precision=fp32", "training.select=per_task"]
    changes += ["training.holdout=0.2", "training.frozen_baseline=true"]
    return trained(directory, tiny_encoder, course_files, *changes)


@pytest.fixture(scope="session")
def course_data() -> Path:
    """The real course files; the test skips where they are not at hand."""
    if not COURSE_DATA.is_dir():
        pytest.skip(f"the course files are not at hand ({COURSE_DATA})")
    return COURSE_DATA


@pytest.fixture(scope="session")
def built_kernels() -> None:
    """Builds the compiled kernels; the test skips where there is no compiler."""
    from multitask.models.encoders.kernels import load_kernels

    try:
        load_kernels()
    except (OSError, RuntimeError) as error:
        pytest.skip(f"no compiler: {' '.join(str(error).split())[:200]}")


@pytest.fixture
def tiny_overrides(tiny_encoder: Path, course_files: Path, tmp_path: Path) -> list[str]:
    """Overrides that make configs/cs224n.yaml a run of seconds."""
    from tests.support.commands import small

    more = [f"output_dir={tmp_path / 'run'}", "training.epochs=2", "training.precision=fp32"]
    data, encoder, *lengths = small(tiny_encoder, course_files)[1:]
    return [data, encoder, *more, *lengths]


@pytest.fixture
def refused(
    tiny_overrides: list[str], tmp_path: Path, capsys: pytest.CaptureFixture
) -> Callable[..., str]:
    """Trains on a tiny set-up with these arguments; returns the one line of complaint.

    No run directory may come into being.
    """
    from tests.support.messages import complaint

    def run(*arguments: object, code: int = 2) -> str:
        before = (tmp_path / "run").exists()
        words = [ROOT / "configs" / "cs224n.yaml", *tiny_overrides, *arguments]
        line = complaint(capsys, *words, code=code)
        assert (tmp_path / "run").exists() == before
        return line

    return run


@pytest.fixture
def browser() -> Iterator[Any]:
    """A Chromium without a window."""
    playwright = pytest.importorskip(
        "playwright.sync_api", reason="playwright is not installed (dev requirement)"
    )
    chromium = Path("/usr/bin/chromium")
    if not chromium.is_file():
        pytest.skip(f"no browser: {chromium} is missing")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=str(chromium), args=["--no-sandbox"])
        yield opened
        opened.close()
