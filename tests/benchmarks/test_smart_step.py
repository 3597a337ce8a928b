"""A memory process of the SMART benchmark holds only the model and teacher of its variant."""

from types import SimpleNamespace

import pytest

from benchmarks import smart_step


@pytest.mark.parametrize(
    ("variant", "teachers"),
    [
        (("plain", "fp32"), 0),
        (("SMART", "bf16"), 0),
        (("SMART and Bregman", "bf16"), 1),
        (("SMART and Bregman", "fp32", 4), 1),
        (("smart-pytorch", "fp32"), 0),
    ],
)
def test_a_memory_process_builds_what_its_variant_uses(variant, teachers, monkeypatch):
    variant = smart_step.Variant(*variant)
    built, copied, stepped = [], [], []

    def set_up(directory, precision, steps, rows, passes):
        built.append((precision, rows, passes))
        return SimpleNamespace(model="model"), []

    monkeypatch.setattr(smart_step, "model_and_batches", set_up)
    monkeypatch.setattr(smart_step.torch, "set_num_threads", lambda count: None)
    monkeypatch.setattr(smart_step, "teacher_of", lambda model: copied.append(model) or "teacher")
    for step in ("ours", "package"):
        monkeypatch.setattr(smart_step, step, lambda *given: stepped.append(given))
    assert smart_step.peak_memory("data", variant, 64) > 0
    assert built == [(variant.precision, 64, variant.passes)]
    assert len(copied) == teachers and len(stepped) == 1
