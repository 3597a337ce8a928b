"""Which encoder a config gets, what may be changed in it; both train to the same numbers."""

import json
import shutil
import sys

import numpy as np
import pytest
import torch

import run_multitask
from multitask import load
from multitask.config import load_config
from multitask.models import pretrained
from multitask.models.encoders import BertEncoder, HFEncoder
from multitask.models.pretrained import (
    check_vocabulary,
    load_encoder,
    load_encoder_and_tokenizer,
    load_pretrained,
    load_tokenizer,
    use_kernels,
)
from multitask.utils.errors import UserError
from tests.conftest import ROOT, save_tiny_encoder
from tests.support.panics import REASON, damage_tokenizer
from tests.support.tiny_bert import ragged

PRESET = ROOT / "configs" / "cs224n.yaml"
SAYS = "model type 'electra' is not one of bert, roberta"


@pytest.fixture
def configure(tiny_overrides):
    return lambda *changes: load_config(PRESET, [*tiny_overrides, *changes])


def test_ours_is_the_default_and_transformers_a_choice(configure):
    said = []
    assert isinstance(load_pretrained(configure(), said.append), BertEncoder)
    chosen = configure("encoder.implementation=transformers")
    assert isinstance(load_pretrained(chosen, said.append), HFEncoder)
    assert not said


def test_another_architecture_runs_in_transformers_and_a_line_says_why(configure, tmp_path):
    directory, said = save_tiny_encoder(tmp_path, "electra"), []
    encoder = load_pretrained(configure(f"encoder.name={directory}"), said.append)
    assert isinstance(encoder, HFEncoder)
    (line,) = said
    assert SAYS in line and "it runs in `transformers`" in line


def test_fresh_layers_follow_the_seed_and_no_more_than_there_are(configure):
    states = [
        load_pretrained(configure(f"seed={seed}", "encoder.reinit_layers=1")).state_dict()
        for seed in (1, 1, 2)
    ]
    name = "layers.1.attention.qkv.weight"
    assert torch.equal(states[0][name], states[1][name])
    assert not torch.equal(states[0][name], states[2][name])
    assert torch.equal(states[0]["layers.0.attention.qkv.weight"],
                       states[2]["layers.0.attention.qkv.weight"])  # fmt: skip
    with pytest.raises(UserError, match=r"encoder\.reinit_layers: the encoder has 2 layers"):
        load_pretrained(configure("encoder.reinit_layers=3"))


def test_gradient_checkpointing_is_switched_on(configure):
    for value in ("true", "false"):
        encoder = load_pretrained(configure(f"encoder.gradient_checkpointing={value}"))
        assert encoder.gradient_checkpointing == (value == "true")


def test_gradient_checkpointing_of_transformers_has_equal_gradients(configure):
    gradients = []
    for value in ("true", "false"):
        changes = ["encoder.implementation=transformers", f"encoder.gradient_checkpointing={value}"]
        encoder = load_pretrained(configure(*changes)).train()
        assert encoder.model.is_activation_checkpointing == (value == "true")
        torch.manual_seed(3)  # the dropout
        ids, types, mask = ragged([7, 3, 5])
        states = encoder.encode(encoder.embed(ids, types, mask), mask, (1, 2))
        sum(state.square().sum() for state in states.values()).backward()
        gradients.append([p.grad for p in encoder.parameters() if p.grad is not None])
    assert len(gradients[0]) > 20
    assert all(map(torch.equal, *gradients))


def test_a_line_says_why_there_are_no_kernels(configure, monkeypatch):
    def fail():
        raise RuntimeError("no\n  compiler")

    compiled = configure("encoder.kernels=compiled")
    monkeypatch.setattr("multitask.models.encoders.kernels.load_kernels", fail)
    for config, device, reason in (
        (compiled, "cpu", "cannot be compiled (no compiler)"),
        (compiled, "cuda", "compiled is for cpu, not for cuda"),
    ):
        encoder, said = load_pretrained(config), []
        use_kernels(config, encoder, torch.device(device), said.append)
        (line,) = said
        assert line.startswith("encoder.kernels: ") and reason in line
        assert line.endswith("torch's operators are used") and encoder.kernels == "torch"


@pytest.mark.slow
def test_both_implementations_train_to_the_same_numbers(tiny_overrides, tmp_path):
    """Without dropout, whose random numbers differ: a swap of encoders that no loss notices."""
    encoder = save_tiny_encoder(tmp_path / "encoder", attention_probs_dropout_prob=0.0)
    losses, scores = [], []
    for implementation in ("own", "transformers"):
        directory = tmp_path / implementation
        changes = [
            *tiny_overrides,
            f"encoder.name={encoder}",
            f"encoder.implementation={implementation}",
            "encoder.dropout=0",
            "defaults.dropout=0",
            "training.precision=fp32",
            "training.lr=1e-3",
            "training.frozen_baseline=false",
            "training.max_steps=18",
            "training.eval_steps=18",
            f"output_dir={directory}",
        ]
        assert run_multitask.main([str(PRESET), *changes]) == 0
        events = map(json.loads, (directory / "metrics.jsonl").open())
        losses.append([event["loss"] for event in events if event["event"] == "step"])
        scores.append([p["scores"] for p in load(directory).predict("sst", ["a good film", "bad"])])
    assert len(losses[0]) == 18 and abs(losses[0][0] - losses[0][-3]) > 1e-3
    np.testing.assert_allclose(*losses, rtol=1e-4)
    np.testing.assert_allclose(*scores, atol=1e-4)


def test_no_tokenizer_is_made_up_where_its_file_is_gone(tmp_path):
    """`transformers` gives a BertTokenizer of five words then."""
    (tmp_path / "tokenizer_config.json").write_text('{"tokenizer_class": "BertTokenizer"}')
    (tmp_path / "config.json").write_text('{"model_type": "bert"}')
    with pytest.raises(FileNotFoundError, match=r"has no tokenizer\.json"):
        load_tokenizer(str(tmp_path))


def test_a_tokenizer_that_panics_is_refused_when_it_is_loaded(tiny_encoder, tmp_path, capfd):
    encoder = shutil.copytree(tiny_encoder, tmp_path / "encoder")
    damage_tokenizer(encoder)
    said = rf"{encoder}: tokenizer\.json: cannot be read: .*{REASON}"
    with pytest.raises(UserError, match=rf"^{said}"):
        load_tokenizer(str(encoder))
    with pytest.raises(UserError, match=rf"^cannot load '{encoder}' as an encoder: {said}"):
        load_encoder_and_tokenizer(str(encoder))
    assert capfd.readouterr().err == ""  # the library prints a backtrace


@pytest.mark.parametrize("implementation", ["own", "transformers"])
def test_a_tokenizer_larger_than_the_embeddings_is_refused(implementation, tmp_path):
    directory = str(save_tiny_encoder(tmp_path))
    tokenizer = load_tokenizer(directory)
    encoder = load_encoder(directory, implementation=implementation)
    check_vocabulary(encoder, tokenizer, directory)
    size = encoder.word_embedding.num_embeddings
    tokenizer.add_tokens(["quokka"])
    message = f"gives 'quokka' the id {size}, but the encoder has {size} embeddings: "
    with pytest.raises(UserError, match=message):
        check_vocabulary(encoder, tokenizer, directory)
    tokenizer.save_pretrained(directory)
    with pytest.raises(UserError, match=message):
        load_encoder_and_tokenizer(directory)


def without_pad_token(directory, **changes):
    """A saved encoder whose tokenizer names no pad token."""
    save_tiny_encoder(directory, **changes)
    for name in ("tokenizer_config.json", "special_tokens_map.json"):
        if (directory / name).is_file():
            settings = json.loads((directory / name).read_text())
            settings.pop("pad_token", None)
            (directory / name).write_text(json.dumps(settings))
    return str(directory)


@pytest.mark.parametrize("token", ["[PAD]", "<pad>", "blank"])
def test_an_obvious_pad_token_is_named(token, tmp_path):
    """By its name, or as the one of the encoder's config."""
    directory = without_pad_token(tmp_path)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace('"[PAD]"', json.dumps(token)))
    tokenizer = load_tokenizer(directory)
    assert (tokenizer.pad_token, tokenizer.pad_token_id) == (token, 0)


def test_a_tokenizer_without_any_pad_token_is_refused(tmp_path):
    directory = without_pad_token(tmp_path, pad_token_id=None)
    file = tmp_path / "tokenizer.json"
    file.write_text(file.read_text().replace('"[PAD]"', '"blank"'))
    with pytest.raises(UserError, match=r"as an encoder: the tokenizer has no pad token: name one"):
        load_encoder_and_tokenizer(directory)


@pytest.fixture(scope="module")
def deberta(tmp_path_factory):
    """A tiny DeBERTa with `spm.model` and no tokenizer.json, as DeBERTa-v3 has it on the hub."""
    trainer = pytest.importorskip("sentencepiece").SentencePieceTrainer
    directory = save_tiny_encoder(tmp_path_factory.mktemp("deberta"), "deberta-v2", vocab_size=60)
    for file in directory.glob("*token*"):
        file.unlink()
    text = directory / "text.txt"
    text.write_text(
        "\n".join(f"the cat number {n} sat on a mat and the dog ran" for n in range(50))
    )
    pieces = {"bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]", "pad": "[PAD]"}
    trainer.train(
        input=str(text),
        model_prefix=str(directory / "spm"),
        vocab_size=35,
        user_defined_symbols=["[MASK]"],
        minloglevel=2,
        **{f"{name}_id": number for number, name in enumerate(("pad", "bos", "eos", "unk"))},
        **{f"{name}_piece": piece for name, piece in pieces.items()},
    )
    config = {"do_lower_case": False, "vocab_type": "spm"}
    (directory / "tokenizer_config.json").write_text(json.dumps(config))
    return directory


def test_a_sentencepiece_vocabulary_without_tokenizer_json(deberta, tmp_path):
    _, tokenizer = pretrained.load_encoder_and_tokenizer(str(deberta))
    ids = tokenizer("the cat", "a dog")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[0] == "[CLS]" and ids.count(2) == 2
    tokenizer.save_pretrained(tmp_path)  # as a run does: its copy needs no other package
    assert (tmp_path / "tokenizer.json").is_file()


def test_a_missing_package_of_the_vocabulary_is_named(deberta, monkeypatch):
    monkeypatch.setitem(sys.modules, "sentencepiece", None)
    with pytest.raises(UserError, match=r"\[sentencepiece\]"):
        pretrained.load_encoder_and_tokenizer(str(deberta))
