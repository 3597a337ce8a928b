"""The frozen model that fills in masked texts: one of transformers, one of a run."""

import pytest
import torch
import transformers

import run_multitask
from multitask import load
from multitask.models.mlm_generator import load_generator
from multitask.models.pretrained import load_tokenizer
from multitask.utils.errors import UserError
from tests.support.masked_lm_run import CONFIG, FAST, tiny
from tests.support.tiny_bert import save_tiny_mlm

CPU = torch.device("cpu")


@pytest.mark.parametrize("kind", ["bert", "roberta", "distilbert"])
def test_a_generator_fills_in_what_transformers_does(kind, tmp_path):
    directory = save_tiny_mlm(tmp_path / kind, kind)
    made = load_generator(str(directory), load_tokenizer(str(directory)), CPU)
    model = transformers.AutoModelForMaskedLM.from_pretrained(directory).eval()
    ids = torch.randint(5, 40, (3, 7), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[1, 4:] = 0
    with torch.no_grad():
        expected = model(input_ids=ids, attention_mask=mask).logits.argmax(-1)
    actual = made(ids, torch.zeros_like(ids), mask)
    assert torch.equal(actual[mask == 1], expected[mask == 1])
    assert not any(p.requires_grad for p in made.parameters())


def test_a_generator_of_a_run_is_what_that_run_predicts(tiny_encoder, course_files, tmp_path):
    run = tmp_path / "mlm"
    short = ["stages=[{tasks: [mlm]}]", "training.max_steps=3", f"output_dir={run}"]
    assert run_multitask.main([CONFIG, *tiny(tiny_encoder, course_files), *FAST, *short]) == 0
    made = load_generator(str(run), load_tokenizer(str(tiny_encoder)), CPU)
    trained = load(run)
    trained._use("mlm")
    ids = torch.randint(5, 40, (3, 7))
    ones = torch.ones_like(ids)
    encoder, head = trained.model.encoder.eval(), trained.model.head("mlm")
    hidden = encoder.encode(encoder.embed(ids, 0 * ones, ones), ones, (2,))[2]
    assert torch.equal(made(ids, 0 * ones, ones), head(hidden).argmax(-1))


@pytest.mark.slow
def test_a_generator_with_an_adapter_is_refused(tiny_encoder, course_files, tmp_path):
    run = tmp_path / "mlm"
    short = ["stages=[{tasks: [mlm]}]", "training.max_steps=1", f"output_dir={run}"]
    adapter = "tasks.mlm.adapter={name: low_rank, size: 4}"
    given = [CONFIG, *tiny(tiny_encoder, course_files), *FAST, *short, adapter]
    assert run_multitask.main(given) == 0
    with pytest.raises(UserError, match="its task mlm has a `adapter`"):
        load_generator(str(run), load_tokenizer(str(tiny_encoder)), CPU)
