"""Renew the measured tables of docs/*.md and docs/measured/*.md from the files in docs/results/.

    python -m tools.measured_docs             # renew the pages
    python -m tools.measured_docs RUN_DIR ... # first store the results of these directories

store.py lists what can be stored, pages.py how a page asks for a table.
tests/tools/measured_docs/test_pages.py checks that no table is typed by hand.
"""

import sys
from pathlib import Path

from tools.measured_docs.pages import measured_pages, renew
from tools.measured_docs.store import store


def main(directories: list[str]) -> None:
    for directory in directories:
        store(Path(directory))
    for page in measured_pages():
        page.write_text(renew(page.read_text()))


if __name__ == "__main__":
    main(sys.argv[1:])
