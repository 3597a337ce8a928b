"""Tiny made-up files in the layouts of the GLUE downloads, and of the hub's `nyu-mll/glue`."""

import random
from pathlib import Path

from tests.conftest import WORDS, write_course_files

# task: (hub subset, hub columns, columns of train and dev, columns of test, folder)
PARSES = ["promptID", "pairID", "genre", "sentence1_parse", "sentence2_parse"]
NLI = ["entailment", "neutral", "contradiction"]
RTE = ["entailment", "not_entailment"]
TEXTS = {
    "cola": ("sentence",),
    "sst2": ("sentence",),
    "mrpc": ("sentence1", "sentence2"),
    "qqp": ("question1", "question2"),
    "stsb": ("sentence1", "sentence2"),
    "mnli": ("premise", "hypothesis"),
    "qnli": ("question", "sentence"),
    "rte": ("sentence1", "sentence2"),
    "wnli": ("sentence1", "sentence2"),
}
FOLDERS = {
    "cola": "CoLA",
    "sst2": "SST-2",
    "mrpc": "MRPC",
    "qqp": "QQP",
    "stsb": "STS-B",
    "mnli": "MNLI",
    "qnli": "QNLI",
    "rte": "RTE",
    "wnli": "WNLI",
}
# the hub's number of a class by the word in the official files
HUB_NUMBERS = {"entailment": 0, "not_entailment": 1, "neutral": 1, "contradiction": 2}
SIZES = {"train": 24, "dev": 12, "test": 7}


def rows_of(task: str, split: str) -> list[tuple[list[str], str | float | int]]:
    """Texts and label of each row; a `"` and a comma are ordinary characters."""
    rng = random.Random(f"{task}-{split}")
    rows = []
    for i in range(SIZES["dev" if split.startswith("dev") else split.partition("_")[0]]):
        words = [" ".join(rng.choices(WORDS[:40], k=rng.randint(3, 7))) for _ in TEXTS[task]]
        words[0] += ' "a, b' if i == 1 else ""
        if task == "stsb":
            label: str | float | int = round(5 * (i % 6) / 5, 3)
        elif task in ("mnli", "ax"):
            label = NLI[i % 3]
        elif task in ("rte", "qnli"):
            label = RTE[i % 2]
        else:
            label = i % 2
        words[-1] += " great" if i % 2 else " awful"
        rows.append((words, label))
    return rows


def _official(task: str, split: str) -> tuple[list[str] | None, list[list[object]]]:
    """Header (None: the file has none) and cells of an official file."""
    rows, test = rows_of(task, split), split.startswith("test")
    lines: list[list[object]] = []
    for i, (texts, label) in enumerate(rows):
        lines.append(
            {
                "cola": [i, *texts] if test else ["gj04", label, "" if label else "*", *texts],
                "sst2": [i, *texts] if test else [*texts, label],
                "mrpc": [i if test else label, 100 + i, 200 + i, *texts],
                "qqp": [i, *texts] if test else [i, 10 + i, 20 + i, *texts, label],
                "stsb": [i, "main", "file", "2012test", "none", "-", "-", *texts, label],
                "mnli": [i, *(["x"] * len(PARSES)), *texts, "first", label],
            }.get(task, [i, *texts, label])
        )
        if test and task in ("stsb", "qnli", "rte", "wnli"):
            lines[-1].pop()
        if test and task == "mnli":
            del lines[-1][-2:]
    strings = ["#1 ID", "#2 ID", "#1 String", "#2 String"]
    sts = ["index", "genre", "filename", "year", "old_index", "source1", "source2"]
    headers = {
        "cola": ["index", "sentence"] if test else None,
        "sst2": ["index", "sentence"] if test else ["sentence", "label"],
        "mrpc": ["index" if test else "Quality", *strings],
        "qqp": ["id", "question1", "question2"]
        if test
        else ["id", "qid1", "qid2", "question1", "question2", "is_duplicate"],
        "stsb": [*sts, "sentence1", "sentence2", *([] if test else ["score"])],
        "mnli": ["index", *PARSES, "sentence1", "sentence2"]
        + ([] if test else ["label1", "gold_label"]),
    }
    return headers.get(task, ["index", *TEXTS[task], *([] if test else ["label"])]), lines


def _write(file: Path, header: list[str] | None, lines: list[list[object]]) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    cells = [line for line in (header, *lines) if line is not None]
    file.write_text("".join("\t".join(map(str, line)) + "\n" for line in cells), encoding="utf-8")


def write_glue(directory: Path) -> Path:
    """The nine tasks and the diagnostic set as the official downloads hold them."""
    for task, folder in FOLDERS.items():
        names = {"train": "train", "dev": "dev", "test": "test"}
        if task == "mnli":
            names = {"train": "train"}
            for split in ("dev", "test"):
                for kind in ("matched", "mismatched"):
                    names[f"{split}_{kind}"] = f"{split}_{kind}"
        for split, name in names.items():
            _write(directory / folder / f"{name}.tsv", *_official(task, split))
    rows = rows_of("mnli", "test_ax")
    lines = [[i, *texts] for i, (texts, _) in enumerate(rows)]
    _write(directory / "diagnostic" / "diagnostic.tsv", ["index", "sentence1", "sentence2"], lines)
    return directory


def write_hub(directory: Path) -> Path:
    """The same rows as `load_dataset(directory, subset)` reads the hub's data set."""
    import pyarrow
    import pyarrow.parquet

    configs = []
    for task in [*FOLDERS, "ax"]:
        splits = {"train": "train", "validation": "dev", "test": "test"}
        if task == "mnli":
            splits = {"train": "train"}
            for kind in ("matched", "mismatched"):
                splits |= {f"validation_{kind}": f"dev_{kind}", f"test_{kind}": f"test_{kind}"}
        splits = {"test": "test_ax"} if task == "ax" else splits
        same_form = "mnli" if task == "ax" else task
        entries = []
        for name, split in splits.items():
            rows = rows_of(same_form, split)
            columns: dict[str, list] = {
                column: [texts[side] for texts, _ in rows]
                for side, column in enumerate(TEXTS[same_form])
            }
            hidden = name.startswith("test")
            numbers = [HUB_NUMBERS.get(str(label), label) for _, label in rows]
            columns["label"] = [-1 for _ in rows] if hidden else numbers
            if same_form == "stsb":
                columns["label"] = [float(number) for number in columns["label"]]
            columns["idx"] = list(range(len(rows)))
            file = directory / task / f"{name}.parquet"
            file.parent.mkdir(parents=True, exist_ok=True)
            pyarrow.parquet.write_table(pyarrow.table(columns), file)
            entries.append(f"  - split: {name}\n    path: {task}/{name}.parquet\n")
        configs.append(f"- config_name: {task}\n  data_files:\n{''.join(entries)}")
    (directory / "README.md").write_text(f"---\nconfigs:\n{''.join(configs)}---\n")
    return directory


def write_shared(directory: Path) -> Path:
    """The layout of the files at hand: glue/, nli/ and cs224n/, with headers, without tests."""
    for task, folder in FOLDERS.items():
        if task in ("cola", "mrpc", "rte", "wnli", "sst2"):
            header = [*TEXTS[task], "label"]
            for split in ("train", "dev"):
                lines: list[list[object]] = [[*t, label] for t, label in rows_of(task, split)]
                _write(directory / "glue" / folder / f"{split}.tsv", header, lines)
    lines = [[*texts, label] for texts, label in rows_of("mnli", "train")]
    lines.append(["a dog", "a cat", "-"])
    _write(directory / "nli" / "snli.tsv", ["sentence1", "sentence2", "label"], lines)
    (directory / "cs224n").mkdir()
    write_course_files(directory / "cs224n")
    return directory
