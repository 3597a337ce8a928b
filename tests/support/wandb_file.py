"""Read the file that Weights & Biases writes offline."""

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

BLOCK, HEADER = 32768, struct.Struct("<IHB")  # LevelDB's log: checksum, length, kind
START = 7  # bytes before the first record
FULL, FIRST, LAST = 1, 2, 4


def records(file: Path) -> Iterator[Any]:
    """Yield the records, each a protobuf message of the library, up to one that a kill has cut."""
    from wandb.proto.wandb_internal_pb2 import Record

    content, place, text = file.read_bytes(), START, b""
    while place + HEADER.size <= len(content):
        if BLOCK - place % BLOCK < HEADER.size:  # the rest of a block is padding
            place += BLOCK - place % BLOCK
            continue
        _, length, kind = HEADER.unpack_from(content, place)
        place += HEADER.size
        text = (b"" if kind in (FULL, FIRST) else text) + content[place : place + length]
        place += length
        if kind in (FULL, LAST):
            yield Record.FromString(text)
