"""Do our STS scores equal those of sentence-transformers, on every suite, and in which time?

    python -m benchmarks.sts_parity DIRECTORY-OF-THE-SUITES [--threads 2]

The packaged MiniLM with mean pooling in fp32, texts cut at 128 tokens, the same rows; the library
encodes each distinct sentence once as well. One line a suite, then the seconds of each side.
"""

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.course_batches import headline, parser, started
from multitask.data.sts_suites import read_suites
from multitask.inference.embeddings import MAX_LENGTH, open_vectors
from multitask.inference.sts_scores import score_suites
from multitask.models.packaged_weights import packaged_directory
from multitask.reporting.table_formats import markdown_table
from multitask.utils.names import PACKAGED_ENCODER


def main() -> None:
    arguments = started(parser(__doc__))
    suites = read_suites(arguments.directory)
    from sentence_transformers import SentenceTransformer
    from sentence_transformers.sentence_transformer.modules import Pooling, Transformer

    vectors = open_vectors(PACKAGED_ENCODER)
    transformer = Transformer(str(packaged_directory()), max_seq_length=MAX_LENGTH)
    peer = SentenceTransformer(modules=[transformer, Pooling(vectors.dim, "mean")], device="cpu")

    def peers(texts: Sequence[str]) -> np.ndarray:
        encoded: np.ndarray = peer.encode(list(texts), batch_size=64, convert_to_numpy=True)
        return encoded

    spearmans, seconds = {}, {}
    for name, encode in (("ours", vectors.encode), ("sentence-transformers", peers)):
        began = time.perf_counter()
        entries = score_suites(suites, encode)
        seconds[name] = time.perf_counter() - began
        spearmans[name] = {n: entry["scores"]["all"]["spearman"] for n, entry in entries.items()}
    ours, theirs = spearmans.values()
    rows = [[n, f"{ours[n]:.5f}", f"{theirs[n]:.5f}", f"{ours[n] - theirs[n]:+.1e}"] for n in ours]
    print(headline(arguments.threads, 1))
    print(markdown_table(["suite", *spearmans, "difference"], rows))
    print("\n" + ", ".join(f"{name}: {value:.0f} s" for name, value in seconds.items()))


if __name__ == "__main__":
    main()
