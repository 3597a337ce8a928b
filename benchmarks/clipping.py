"""By how much clipping to the label scale changes the scores of STS-B.

    python -m benchmarks.clipping DIRECTORY-OF-THE-COURSE-FILES

Trains MiniLM on STS alone in the short protocol; dev selects the weights. Runs up to commit 5e213e7
scored predictions before they were clipped, so their scores are those of the columns "before".
"""

import argparse
import csv
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

import numpy as np
import torch
from scipy.stats import pearsonr, spearmanr

from heads.base import NumberScores
from multitask import train
from multitask.reporting.table_formats import markdown_table
from multitask.utils.versions import git_revision

CONFIGS = Path(__file__).parent.parent / "configs"
SHORT = ["tasks.sst=null", "tasks.qqp=null", "defaults.max_rows=3000", "training.epochs=3"]
UNTRAINED = ["training.max_steps=1", "training.lr=1e-12"]
MODELS: dict[str, tuple[str, Sequence[str]]] = {
    "`configs/cs224n_minilm.yaml`": ("cs224n_minilm", ()),
    "`configs/cs224n_minilm_cross.yaml`": ("cs224n_minilm_cross", ()),
    "`configs/cs224n_minilm.yaml` without training": ("cs224n_minilm", UNTRAINED),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("directory", type=Path)
    directory = parser.parse_args().directory.absolute()
    rows = []
    for title, (config, overrides) in MODELS.items():
        before, labels = _predictions(directory, CONFIGS / f"{config}.yaml", overrides)
        after = before.clip(0, 5)
        scores = [
            f"{score(predictions, labels).statistic:.4f}"
            for score in (pearsonr, spearmanr)
            for predictions in (before, after)
        ]
        rows.append([title, str((before != after).sum()), *scores])
    titles = ["model", "predictions outside of 0 to 5", "Pearson before clipping", "clipped"]
    titles += ["Spearman before clipping", "clipped"]
    print(f"torch {torch.__version__}, {len(labels)} dev rows, commit {git_revision()}\n")
    print(markdown_table(titles, rows))


def _predictions(
    directory: Path, config: Path, overrides: Sequence[str]
) -> tuple[np.ndarray, np.ndarray]:
    """Train, and return the predictions for STS's dev rows before they are clipped; the labels."""
    with (directory / "sts-dev.csv").open(newline="", encoding="utf-8") as file:
        dev = list(csv.DictReader(file, delimiter="\t"))
    pairs = [(row["sentence1"], row["sentence2"]) for row in dev]
    with TemporaryDirectory() as place:
        settings = [f"data_dir={directory}", f"output_dir={place}/run", *SHORT, *overrides]
        with redirect_stdout(sys.stderr):
            run = train(config, settings)
        with patch.object(NumberScores, "predict", lambda _, scores: (scores, scores[:, None])):
            predicted = [record["prediction"] for record in run.predict("sts", pairs)]
    return np.array(predicted), np.array([float(row["similarity"]) for row in dev])


if __name__ == "__main__":
    main()
