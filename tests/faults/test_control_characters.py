"""Control characters in class names and texts: no command prints one; files have them unchanged."""

import json
import re
from pathlib import Path

import pytest

from tests.support.commands import main
from tests.support.messages import complaint

# all but the tab and the end of a line
CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
SIGNS = ["\x1b[2J", "\x07\x08", "\x9b31m", "\x7f\u202e", "\x85"]
CONFIG = """
data_dir: DIR
output_dir: DIR/run
encoder: {name: ENCODER}
training: {max_steps: 2, frozen_baseline: false}
tasks:
  mood:
    max_length: 32
    data: {train: rows.jsonl, dev: rows.jsonl, text: text, label: label}
    head: classification
"""


@pytest.fixture(scope="module")
def place(tiny_encoder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A directory with a config, and rows whose texts and class names have control characters."""
    directory = tmp_path_factory.mktemp("signs")
    text = CONFIG.replace("DIR", str(directory)).replace("ENCODER", str(tiny_encoder))
    (directory / "config.yaml").write_text(text)
    rows = [{"text": f"a good {sign} film", "label": f"so{sign}so"} for sign in SIGNS]
    lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows * 4]
    (directory / "rows.jsonl").write_text("".join(lines))
    (directory / "texts.txt").write_text("".join(f"a {sign} film\n" for sign in SIGNS[:4]))
    return directory


def test_no_command_prints_a_control_character(place, capfd):
    config, run, rows = place / "config.yaml", place / "run", place / "rows.jsonl"
    index, texts = place / "index", place / "texts.txt"
    for command in (
        ["check", config],
        ["train", config],
        ["evaluate", run],
        ["predict", run, "--task", "mood", "--file", rows],
        ["report", run],
        ["index", run, "--texts", texts, "--out", index],
        ["search", index, f"good {SIGNS[0]} film", "--top", "4"],
        ["search", index, f"good {SIGNS[0]}", SIGNS[2], "--top", "1"],
    ):
        assert main(*command) == 0, command
        printed = capfd.readouterr()
        assert not CONTROL.search(printed.out + printed.err), command
        if command[0] in ("check", "search"):
            assert r"\u001b[2J" in printed.out
    for words in (["predict", run, "--task", SIGNS[0]], ["check", place / SIGNS[2]]):
        assert not CONTROL.search(complaint(capfd, *words))


def test_predictions_are_the_same_printed_and_in_a_file(place, capsys):
    run = place / "other"
    assert main("train", place / "config.yaml", f"output_dir={run}") == 0
    command = ["predict", run, "--task", "mood", "--file", place / "rows.jsonl"]
    capsys.readouterr()
    assert main(*command) == 0
    printed = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert main(*command, "--output", place / "predicted.jsonl") == 0
    written = (place / "predicted.jsonl").read_text(encoding="utf-8").removesuffix("\n").split("\n")
    assert printed == [json.loads(line) for line in written]
    assert [one["texts"] for one in printed] == [[f"a good {sign} film"] for sign in SIGNS * 4]
    assert {one["name"] for one in printed} <= {f"so{sign}so" for sign in SIGNS}
