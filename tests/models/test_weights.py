"""Named tensors in safetensors files: read back as written, complete or not at all."""

import pytest
import torch

from multitask.models import weights
from multitask.models.weights import below, read_tensors, without_memory, write_tensors
from multitask.store.tensor_files import CHECKSUM, has_checksum
from multitask.utils.errors import UserError


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int8, torch.int64])
def test_tensors_are_read_back_as_they_were(dtype, tmp_path):
    wide = torch.arange(12).reshape(3, 4).to(dtype)
    tensors = {
        "a.b": wide,
        "part": wide[:, 1],
        "turned": wide.T,
        "one": torch.ones((), dtype=dtype),
    }
    write_tensors(tmp_path / "x.safetensors", tensors)
    result = read_tensors(tmp_path / "x.safetensors")
    assert result.keys() == tensors.keys()
    for name, tensor in tensors.items():
        assert result[name].dtype == dtype and torch.equal(result[name], tensor), name


@pytest.mark.parametrize("content", [None, b"", b"half a file"])
def test_a_file_that_cannot_be_read_is_named_with_what_to_do(content, tmp_path):
    file = tmp_path / "x.safetensors"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(UserError, match="train again or resume") as caught:
        read_tensors(file)
    assert str(caught.value).startswith(f"{file}: cannot be read (")


def test_a_full_disk_leaves_the_older_file_and_no_scraps(tmp_path, monkeypatch):
    file = tmp_path / "x.safetensors"
    write_tensors(file, {"a": torch.ones(2)})

    def full(tensors, path, metadata):
        path.write_bytes(b"half")
        raise weights.SafetensorError("No space left on device")

    monkeypatch.setattr(weights, "save_file", full)
    with pytest.raises(OSError, match="No space left on device"):
        write_tensors(file, {"a": torch.zeros(2)})
    assert torch.equal(read_tensors(file)["a"], torch.ones(2))
    assert list(tmp_path.iterdir()) == [file]


def test_a_flipped_bit_of_any_byte_is_noticed(tmp_path):
    file = tmp_path / "x.safetensors"
    tensors = {"a": torch.arange(5.0), "b": torch.ones(2, 3)}
    write_tensors(file, tensors)
    content = file.read_bytes()
    mark = content.index(CHECKSUM.encode())
    silent = 0
    for place in range(len(content)):
        changed = bytearray(content)
        changed[place] ^= 1 << place % 8
        file.write_bytes(changed)
        try:
            result = read_tensors(file)
        except UserError:
            continue
        # only a checksum under another name is no checksum: the tensors are intact then
        assert mark <= place < mark + len(CHECKSUM)
        assert all(torch.equal(result[name], tensor) for name, tensor in tensors.items())
        silent += 1
    assert silent <= len(CHECKSUM)


def test_a_file_of_an_older_version_has_no_checksum(tmp_path):
    file = tmp_path / "x.safetensors"
    weights.save_file({"a": torch.ones(2)}, file)
    assert read_tensors(file)["a"].tolist() == [1.0, 1.0] and not has_checksum(file)
    write_tensors(file, {"a": torch.ones(2)})
    assert has_checksum(file)


def test_the_tensors_below_a_name():
    one, two = torch.ones(1), torch.zeros(1)
    result = below(
        {"encoder.a.x": one, "encoder.b": two, "encoders": one, "tasks.a": two}, "encoder."
    )
    assert result == {"a.x": one, "b": two}


def test_a_model_without_memory_has_the_shapes_and_draws_nothing():
    before = torch.get_rng_state()
    with without_memory():
        module = torch.nn.ModuleList([torch.nn.Embedding(10**9, 10**3), torch.nn.Linear(3, 2)])
    shapes = {name: list(tensor.shape) for name, tensor in module.state_dict().items()}
    assert shapes == {"0.weight": [10**9, 10**3], "1.weight": [2, 3], "1.bias": [2]}
    assert all(tensor.is_meta for tensor in module.state_dict().values())
    assert torch.equal(torch.get_rng_state(), before)
