"""Limits of user input, so that no input hangs the program or fills the memory."""

import errno
import os
import stat
from pathlib import Path

from multitask.utils.errors import UserError

CONFIG_BYTES = 2**20  # bytes of one YAML file
CONFIG_NODES = 50_000  # values of one YAML file; each use of an alias counts
CONFIG_FILES = 50  # files that extend one another
TASKS = 500  # tasks of one config
TASK_NAME = 150  # bytes of a task's name, which is a part of file names
COURSE_NAME = 50  # characters of `course_file.name` and `.folder`, parts of file names too
STAGES = 100  # stages of one config
CELLS = 1_000  # cells of a grid
CELL_NAME = 100  # characters of a cell's name, which is a directory's name
SEEDS = 1_000  # seeds of a grid
DATA_BYTES = 2**30  # bytes of a data file that is no Parquet
PREDICTION_BYTES = 2**26  # bytes of a file of predictions that is scored
ARCHIVE_BYTES = 2**26  # bytes of an archive of predictions
ARCHIVE_FILES = 10_000  # files in an archive, or in a folder, of predictions
LONGEST_TEXT = 10**7  # characters of a text
COLUMNS = 1_000  # different keys of a file of JSON lines
CLASSES = 1_000  # classes of one task
LARGEST_NUMBER = 10**12  # a number of a config; the seed may be larger
LAYERS = 1_000  # layers of an encoder, or in an option of a method
SIZE = 10**7  # a width, a vocabulary or another size, of an encoder or in an option of a method
LABELS = 100_000  # labels of an encoder's classifier: transformers names each, used or not
JSON_BYTES = 2**20  # bytes of a small JSON file, such as config.json of an encoder
HEADER_BYTES = 2**23  # the header of a safetensors file: names and shapes
MOST_DROPOUT = 0.95  # dropout divides by 1 - dropout, so 1 is not possible
REPORT_BYTES = 2**25  # bytes of the report.html that `serve` sends
TYPED_CHARACTERS = 2_000  # characters of a text that is typed into the page of `serve`
# bytes of a request to that page: two texts of four-byte characters as %XX, and the fields' names
REQUEST_BYTES = 2 * TYPED_CHARACTERS * 12 + 4096


def read_bounded(file: Path, limit: int) -> bytes:
    """Read a regular file of at most ``limit`` bytes.

    Raises UserError for a larger file, and for a pipe or a device.
    """
    status = file.stat()
    if stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(file))
    if not stat.S_ISREG(status.st_mode):
        raise UserError(f"{file}: neither a file nor a link to one: give the name of a file")
    content = b""
    if status.st_size <= limit:
        with file.open("rb") as opened:
            # memory for so many bytes is taken at once; a file of /proc has the size 0
            content = opened.read(min(limit, max(status.st_size, JSON_BYTES)) + 1)
    if max(status.st_size, len(content)) > limit:
        raise UserError(f"{file}: larger than {limit:,} bytes, the most that is read")
    return content
