"""One bit flipped in each file of a search index: it is said, and nothing is searched."""

import random

import numpy as np
import pytest

from multitask.inference.search.text_index import Origin, build, open_index
from multitask.utils.errors import UserError

pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")

DIM = 8


def encode(texts: list[str]) -> np.ndarray:
    return np.random.default_rng(len(texts)).normal(size=(len(texts), DIM)).astype(np.float32)


@pytest.mark.parametrize("ivf", [None, (2, 1)])
def test_every_file_of_an_index(ivf, tmp_path, count):
    (tmp_path / "texts.txt").write_text("".join(f"text {number}\n" for number in range(80)))
    origin, index = Origin("run", "sts", None, 48, "f" * 64), tmp_path / "index"
    build(tmp_path / "texts.txt", index, encode, dim=DIM, origin=origin, ivf=ivf)
    chance = random.Random(5)
    for file in index.iterdir():
        content = file.read_bytes()
        for _ in range(100):
            flipped = bytearray(content)
            flipped[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
            file.write_bytes(flipped)
            with pytest.raises(UserError, match=r"make the index again|another version"):
                open_index(index)
            count("bits flipped in an index, which is opened")
        file.write_bytes(content)
    open_index(index)
