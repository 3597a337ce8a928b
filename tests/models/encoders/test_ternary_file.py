"""Ternary weights at 2 bits: packed, written, loaded back exactly, and how large the file is."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

from multitask.models.encoders.bert_weights import encoder_from_pretrained
from multitask.models.encoders.bitlinear import bit_layers, quantise
from multitask.models.encoders.ternary_file import FILE, load_ternary, pack, save_ternary, unpack
from multitask.utils.errors import UserError
from tests.conftest import save_tiny_encoder


def naive_pack(numbers: list[int]) -> list[int]:
    """Base 4, the first digit the lowest, four digits a byte; what is missing counts 0."""
    digits = [number + 1 for number in numbers] + [0] * (-len(numbers) % 4)
    return [
        sum(digit * 4**place for place, digit in enumerate(digits[start : start + 4]))
        for start in range(0, len(digits), 4)
    ]


@given(st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=40))
def test_four_weights_fill_a_byte_and_come_back(numbers):
    packed = pack(torch.tensor(numbers, dtype=torch.float32))
    assert packed.dtype == torch.uint8 and packed.tolist() == naive_pack(numbers)
    assert unpack(packed, (len(numbers),)).tolist() == numbers


@pytest.fixture
def quantised(tmp_path):
    directory = save_tiny_encoder(tmp_path / "tiny", num_hidden_layers=3)
    encoder = encoder_from_pretrained(str(directory))
    quantise(encoder)
    torch.manual_seed(0)
    with torch.no_grad():  # biases and LayerNorms as no fresh model has them
        for parameter in encoder.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    return encoder.eval()


@pytest.mark.parametrize("tokens", ["all", "first"])
def test_a_loaded_encoder_gives_the_same_states_to_the_last_bit(quantised, tmp_path, tokens):
    save_ternary(quantised, tmp_path)
    loaded = load_ternary(tmp_path)
    ids = torch.tensor([[2, 5, 6, 7, 3], [2, 8, 3, 0, 0]])
    given = (ids, torch.zeros_like(ids), (ids != 0).long())
    with torch.no_grad():
        for layer in range(4):
            result = [
                e.encode(e.embed(*given), given[2], (layer,), tokens) for e in (quantised, loaded)
            ]
            assert torch.equal(result[0][layer], result[1][layer]), layer
    assert not bit_layers(loaded) and not loaded.training


def test_layers_left_plain_are_kept_in_fp32(tmp_path):
    directory = save_tiny_encoder(tmp_path / "tiny", num_hidden_layers=3)
    encoder = encoder_from_pretrained(str(directory))
    quantise(encoder, "inner")
    save_ternary(encoder, tmp_path)
    loaded = load_ternary(tmp_path).state_dict()
    assert torch.equal(loaded["layers.0.feed_forward.up.weight"],
                       encoder.layers[0].feed_forward.up.weight)  # fmt: skip
    assert "layers.1.feed_forward.up.packed" in loaded
    assert "layers.1.feed_forward.up.weight" not in loaded


def test_the_file_holds_two_bits_a_ternary_weight_and_no_master_weights(quantised, tmp_path):
    size = save_ternary(quantised, tmp_path)
    tensors = load_file(tmp_path / FILE)
    weights = [layer.weight.numel() for layer in bit_layers(quantised).values()]
    assert sum(weights) == 3 * (3 * 32 * 32 + 32 * 32 + 2 * 32 * 64)
    packed = [t.nbytes for name, t in tensors.items() if name.endswith(".packed")]
    assert sum(packed) == sum(weights) // 4
    others = sum(p.numel() for p in quantised.parameters()) - sum(weights)
    header = int.from_bytes((tmp_path / FILE).read_bytes()[:8], "little") + 8
    scales = 3 * (3 + 1 + 1 + 1)
    assert size.file == header + sum(packed) + 4 * (others + scales)
    assert size.file == (tmp_path / FILE).stat().st_size
    assert size.fp32 == 4 * (others + sum(weights))
    assert {t.dtype for n, t in tensors.items() if ".packed" in n} == {torch.uint8}


def test_a_plain_encoder_has_nothing_ternary(tmp_path):
    encoder = encoder_from_pretrained(str(save_tiny_encoder(tmp_path / "tiny")))
    with pytest.raises(UserError, match=r"no layer is ternary: train with `encoder.bitlinear"):
        save_ternary(encoder, tmp_path)
    assert not (tmp_path / FILE).exists()


def test_a_damaged_file_is_one_line(quantised, tmp_path):
    with pytest.raises(UserError, match="cannot be loaded"):
        load_ternary(tmp_path)
    save_ternary(quantised, tmp_path)
    content = (tmp_path / FILE).read_bytes()
    (tmp_path / FILE).write_bytes(content[:-7])
    with pytest.raises(UserError, match="cannot be loaded") as caught:
        load_ternary(tmp_path)
    assert "\n" not in str(caught.value)
    (tmp_path / FILE).write_bytes(content)
    tensors = load_file(tmp_path / FILE)
    save_file({n: t for n, t in tensors.items() if "norm" not in n}, tmp_path / FILE)
    with pytest.raises(UserError, match=r"cannot be loaded .* export it again") as caught:
        load_ternary(tmp_path)
    assert "\n" not in str(caught.value)
