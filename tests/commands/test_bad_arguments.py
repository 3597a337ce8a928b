"""What commands refuse about their arguments: one line, and no run is changed."""

import pytest

from tests.support.messages import complaint
from tests.support.sts_files import write_suites

RUN_AND_TEXT = ["RUN", "--text", "a"]
OWN = ["RUN", "--task", "sst", "--file"]
INDEX = ["RUN", "--texts", "TMP/good.txt", "--out", "TMP/i"]


@pytest.mark.parametrize(
    ("command", "arguments", "part"),
    [
        ("predict", ["RUN", "--task", "sts"], "predict: --task "),
        ("predict", ["RUN", "--file", "TMP/good.txt"], "--task: one of sst, "),
        ("predict", [*RUN_AND_TEXT, "--file", "TMP/good.txt"], "--file or --text"),
        ("predict", [*RUN_AND_TEXT, "--again"], "predict: --again "),
        ("predict", [*RUN_AND_TEXT, "--task", "sts"], "--text takes "),
        ("predict", ["RUN", "--output", "TMP/x.jsonl"], "predict: --output "),
        ("predict", ["RUN", "--task", "ssst", "--file", "TMP/good.txt"], "'sst'"),
        ("predict", [*OWN, "TMP/none.txt"], "no such file: TMP/none.txt"),
        ("predict", [*OWN, "TMP"], "not a file: TMP"),
        ("predict", [*OWN, "TMP/good.txt", "--output", "/dev/null"], "holds no predictions"),
        ("predict", [*OWN, "TMP/good.txt", "--output", "TMP/no/x"], "TMP/no/"),
        ("predict", [*OWN, "TMP/pair.txt"], "pair.txt, line 1: "),
        ("predict", ["RUN", "data_dir=TMP"], "TMP/ids-sst-dev.csv"),
        ("attention", ["RUN", "--text", " "], "--text: "),
        ("attention", ["RUN", *["--text", "a"] * 3], "--text: "),
        ("attention", [*RUN_AND_TEXT, "--task", "ssst"], "RUN: no task 'ssst'"),
        ("attention", [*RUN_AND_TEXT, "seeed=1"], "seeed: unknown key"),
        ("attention", ["RUN", "--text", "cat " * 63], "65 tokens"),
        ("attention", ["TMP", "--text", "a"], "TMP: neither a run "),
        ("attention", ["TINY", "--text", "a", "seed=1"], "so seed=1 has"),
        ("attention", ["no/run", "--text", "a"], "'no/run' is neither "),
        ("attention", [*RUN_AND_TEXT, "--output", "TMP/good.txt/x"], "TMP/good.txt: "),
        ("importance", ["RUN", "--task", "sts"], "RUN: task sts: no weights of hidden states"),
        ("importance", ["RUN", "--text", "caf\udce9"], "--text: "),
        ("importance", ["RUN", "--examples=-1"], "--examples: "),
        ("importance", ["TMP/none"], "TMP/none: no run there"),
        ("sts", ["RUN", "--data", "none"], "--data: "),
        ("sts", ["RUN", "--data", "DATA", "--pooling", "men"], "--pooling: "),
        ("sts", ["RUN", "--data", "DATA", "--pooling", "tokens"], "--pooling: tokens"),
        ("sts", ["TINY", "--data", "DATA", "--task", "sts"], "no run there"),
        ("sts", ["RUN", "--data", "DATA", "--with", "x.json"], "--layers"),
        ("search", ["TMP", "a"], "TMP: no index there"),
        ("search", ["TMP", " "], "the query "),
        ("search", ["TMP", "a", "--top", "0"], "--top: "),
        ("index", ["RUN", "--texts", "none", "--out", "TMP/i"], "--texts: "),
        ("index", ["RUN", "--texts", "TMP/empty.csv", "--out", "TMP/i"], "TMP/empty.csv: "),
        ("index", [*INDEX, "--ivf", "0"], "--ivf: "),
        ("index", [*INDEX, "--ivf", "3"], "texts to train on"),
        ("index", [*INDEX, "--probes", "3"], "--probes 3: "),
        ("index", [*INDEX, "--task", "x"], "no task 'x'"),
        ("index", ["RUN", "--texts", "TMP/good.txt", "--out", "TMP"], "TMP is not empty "),
        ("evaluate-search", ["RUN", "--pairs", "none"], "--pairs: "),
        ("evaluate-search", ["RUN", "--pairs", "TMP/good.txt"], "question1, question2"),
        ("evaluate-search", ["RUN", "--pairs", "TMP/good.txt", "--limit", "0"], "--limit: "),
        ("export", ["RUN", "TMP/x", "--format", "onnx", "--encoder-only"], "--encoder-only "),
        ("export", ["RUN", "TMP/x", "--format", "onnx"], "--task: one of sst, "),
        ("export", ["RUN", "TMP", "--format", "onnx", "--task", "sst"], "TMP: "),
    ],
)
def test_bad_arguments_are_one_line(
    command, arguments, part, tiny_run, tiny_encoder, tmp_path, capsys
):
    if command in ("search", "index", "evaluate-search"):
        pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")
    for name, text in (("good.txt", "a film\n"), ("pair.txt", "a\tb\n"), ("empty.csv", "")):
        (tmp_path / name).write_text(text)
    names = {"RUN": tiny_run, "TINY": tiny_encoder, "TMP": tmp_path}
    if "DATA" in arguments:
        names["DATA"] = write_suites(tmp_path / "suites")
    before = {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")}
    for short, long in names.items():
        arguments = [word.replace(short, str(long)) for word in arguments]
        part = part.replace(short, str(long))
    assert part in complaint(capsys, command, *arguments)
    assert {path: path.stat().st_mtime_ns for path in tiny_run.rglob("*")} == before
