"""Small made-up STS suites in the layouts that are published."""

import random
from pathlib import Path

from tests.conftest import WORDS

YEARS = {
    "STS12": ["MSRpar", "MSRvid"],
    "STS13": ["FNWN", "headlines"],
    "STS14": ["images"],
    "STS15": ["belief", "images"],
    "STS16": ["headlines"],
}


def made_pairs(seed: int, size: int, low: float = 0.0) -> list[tuple[str, str, float]]:
    """Pairs that share more words the higher their score is."""
    draw = random.Random(seed)
    pairs = []
    for i in range(size):
        first = [draw.choice(WORDS[:40]) for _ in range(6)]
        shared = i % 7
        second = first[:shared] + [draw.choice(WORDS[:40]) for _ in range(6 - shared)]
        score = low + (5 - low) * shared / 6
        pairs.append((" ".join(first), " ".join(second), round(score, 3)))
    return pairs


def write_suites(directory: Path, size: int = 21) -> Path:
    """All seven suites as folders of tab-separated files with a header."""
    number = 0
    folders = YEARS | {"STS-B": ["test"], "SICK-R": ["train", "dev", "test"]}
    for suite, subsets in folders.items():
        (directory / suite).mkdir(parents=True)
        for subset in subsets:
            number += 1
            rows = made_pairs(number, size, 1.0 if suite == "SICK-R" else 0.0)
            lines = ["sentence1\tsentence2\tscore", *("\t".join(map(str, row)) for row in rows)]
            (directory / suite / f"{subset}.tsv").write_text("\n".join(lines) + "\n")
    return directory


def write_senteval(directory: Path) -> Path:
    """The layouts of SentEval, with the quirks that tests/data/test_sts_suites.py asks for."""
    year = directory / "STS" / "STS12-en-test"
    year.mkdir(parents=True)
    (year / "STS.input.MSRpar.txt").write_text('a "cat\tthe dog\tsource\n b\tc \nd\te\n')
    (year / "STS.gs.MSRpar.txt").write_text("4.400\n\n0\n")
    (year / "STS.input.surprise.OnWN.txt").write_text("f\tg\n")
    (year / "STS.gs.surprise.OnWN.txt").write_text("2.5\n")
    (year / "STS.gs.ALL.txt").write_text("4.400\n")
    bench = directory / "STS" / "STSBenchmark"
    bench.mkdir()
    columns = "main-captions\tMSRvid\t2012test\t0024\t2.500"
    (bench / "sts-test.csv").write_text(
        f'{columns}\tA "girl" is, styling.\tA girl brushes.\n{columns}\tu\tv\tlicence\tmore\n'
    )
    (directory / "SICK").mkdir()
    (directory / "SICK" / "SICK_test_annotated.txt").write_text(
        "pair_ID\tsentence_A\tsentence_B\trelatedness_score\tentailment_judgment\n"
        "6\tThere is no boy\tKids play\t3.3\tNEUTRAL\n"
    )
    return directory
