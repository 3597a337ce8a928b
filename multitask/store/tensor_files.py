# Tested by tests/models/test_weights.py
"""Safetensors files with the SHA-256 of their bytes in their header. No torch here."""

import hashlib
import os
import re
from collections.abc import Callable
from pathlib import Path

from safetensors import SafetensorError

from multitask.store.files import replacing
from multitask.utils.errors import check_regular
from multitask.utils.limits import HEADER_BYTES

# the checksum's name in the header of a file, and what is in its place while it is computed
CHECKSUM, BLANK = "multitask_sha256", "0" * 64


def write_with_checksum(file: Path, save: Callable[[Path, dict[str, str]], None]) -> None:
    """Write a file with its checksum, complete or not at all.

    ``save`` writes the tensors to a path, with a dict as metadata. Raises OSError (a full disk, a
    read-only directory); an older file stays as it is.
    """
    with replacing(file) as scratch:
        try:
            save(scratch, {CHECKSUM: BLANK})
            place, _, digest = _checksum(scratch)
            with scratch.open("r+b") as opened:
                opened.seek(place)
                opened.write(digest.encode())
        except SafetensorError as error:  # safetensors wraps the system's error
            number = re.search(r"os error (\d+)", str(error))
            reason = (int(number[1]), os.strerror(int(number[1])), str(file)) if number else None
            raise OSError(*(reason or (f"{file}: {error}",))) from error


def has_checksum(file: Path) -> bool:
    """Check the checksum of a file; return False if it has none.

    Raises SafetensorError if the checksum is not the file's, or the header is too long, UserError
    for a pipe.
    """
    check_header(file)
    place, written, digest = _checksum(file)
    if place and written != digest:
        raise SafetensorError("its checksum is another one")
    return bool(place)


def check_header(file: Path) -> None:
    """Raise SafetensorError for a file whose header takes too long to read.

    The file begins with the header's size: 8 bytes, the lowest first.
    Raises UserError for a pipe.
    """
    check_regular(file)
    with file.open("rb") as opened:
        size = int.from_bytes(opened.read(8), "little")
    if size > HEADER_BYTES:
        raise SafetensorError(f"a header of {size:,} bytes, the most is {HEADER_BYTES:,}")


def _checksum(file: Path) -> tuple[int, str, str]:
    """Return the place of a file's checksum, the checksum there, and that of the file without it.

    The place is 0 for a file that has none.
    """
    mark = f'"{CHECKSUM}":"'.encode()
    with file.open("rb") as opened:
        size = opened.read(8)
        header = size + opened.read(int.from_bytes(size, "little"))
        place = header.find(mark) + len(mark)
        if place < len(mark):
            return 0, "", ""
        written = header[place : place + len(BLANK)].decode(errors="replace")
        digest = hashlib.sha256(header[:place] + BLANK.encode() + header[place + len(BLANK) :])
        while block := opened.read(2**20):
            digest.update(block)
    return place, written, digest.hexdigest()
