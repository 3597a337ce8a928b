"""Small files of the Goettingen course, with sentences of our own."""

from pathlib import Path

import numpy as np

WORDS = "a slow warm film about two friends who sail away and never write home".split()
NAMES = {"sst": "sst-sentiment", "qqp": "quora-paraphrase", "sts": "sts-similarity"}
COLUMNS = {
    "sst": ["sentence", "sentiment"],
    "qqp": ["sentence1", "sentence2", "is_duplicate"],
    "sts": ["sentence1", "sentence2", "similarity"],
}
# the separator, the column of the types, the types, and how many places a list has
EDITIONS = {
    "dnlp_minilm": (
        ",",
        "paraphrase_type_ids",
        [n for n in range(1, 32) if n not in (12, 19, 20, 23, 27)],
        None,
    ),
    "dnlp_2024": ("\t", "paraphrase_types", [1, 2, 3, 4, 5, 6, 7], 7),
}


def write_dnlp(directory: Path, edition: str) -> None:
    """Write the files of an edition, which is named as its config."""
    separator, column, types, places = EDITIONS[edition]
    generator = np.random.default_rng(0)

    def sentence() -> str:
        return " ".join(generator.choice(WORDS, generator.integers(4, 9)))

    def save(name: str, header: list[str], rows: list[list[str]]) -> None:
        lines = [separator.join(header)]
        lines += [separator.join([f"{name}{i}", *row]) for i, row in enumerate(rows)]
        (directory / name).write_text("\n".join(lines) + "\n")

    def label(task: str) -> str:
        kinds = {"sst": 5, "qqp": 2}
        return (
            f"{generator.uniform(0, 5):.1f}"
            if task == "sts"
            else str(generator.integers(kinds[task]))
        )

    for task, name in NAMES.items():
        *texts, gold = COLUMNS[task]
        for part, count in (("train", 40), ("dev", 20), ("test-student", 6)):
            labelled = part != "test-student"
            rows = [
                [*(sentence() for _ in texts), *([label(task)] if labelled else [])]
                for _ in range(count)
            ]
            save(f"{name}-{part}.csv", ["id", *texts, *([gold] if labelled else [])], rows)
    quote = '"' if separator == "," else ""
    rows = []
    for i in range(60):
        chosen = sorted({types[i % len(types)], *generator.choice(types, 2).tolist()})
        chosen += [0] * (places - len(chosen)) if places else [chosen[-1]]  # repeated since 2025
        rows.append([sentence(), sentence(), f"{quote}{chosen}{quote}"])
    save("etpc-paraphrase-train.csv", ["id", "sentence1", "sentence2", column], rows)
    tests = [[sentence(), sentence()] for _ in range(6)]
    save("etpc-paraphrase-detection-test-student.csv", ["id", "sentence1", "sentence2"], tests)
