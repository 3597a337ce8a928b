"""Sentences to vectors, text in, vectors out: ours, sentence-transformers, transformers' pipeline.

    pip install sentence-transformers
    python -m benchmarks.encode DIRECTORY-OF-THE-COURSE-FILES [--threads 2] [--size base]

5,000 mixed sentences of SST, QQP and STS, the packaged MiniLM under mean pooling, batches of 32
(sentence-transformers' default); all variants in turn in one process, ratios by round. `--size
base` takes random weights of BERT-base's size, and 500 sentences.
"""

import argparse
import random
import statistics
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import torch
import transformers

from benchmarks.course_batches import (
    FILES,
    SIZES,
    headline,
    in_turn,
    parser,
    ratio,
    read_texts,
    started,
    weights,
)
from benchmarks.our_trainer import Place
from multitask.config import load_config
from multitask.inference.scoring import Scorer
from multitask.models.build import assemble
from multitask.models.encoders import BertEncoder
from multitask.models.multitask_model import MultiTaskModel
from multitask.models.pretrained import load_pretrained, pretrained_tokenizer
from multitask.reporting.table_formats import markdown_table
from multitask.utils.device import DTYPES, autocast

ROOT = Path(__file__).parent.parent
PEERS = ("sentence-transformers", "sentence-transformers, bf16")
Encode = Callable[[Sequence[str]], np.ndarray]
HERE = Place()  # a CPU, batches of 32
SENTENCES = {"minilm": 5000, "base": 500}


def sentences(directory: Path, count: int) -> list[str]:
    """As many sentences of each task, shuffled."""
    lines = []
    for task in FILES:
        texts = [text for row in read_texts(directory, task, 3000) for text in row]
        lines += texts[: count // len(FILES) + 1]
    random.Random(0).shuffle(lines)
    return lines[:count]


def encode(
    model: MultiTaskModel, tokenizer: object, place: Place, texts: Sequence[str]
) -> np.ndarray:
    """float32 [N, d] in order: what ``load(RUN).encode`` does."""
    return Scorer(model, tokenizer, place.batch, place.device).vectors("sts", texts, 128)


def ours(directory: str, name: str, place: Place = HERE) -> Encode:
    config = load_config(ROOT / "configs" / "cs224n_minilm.yaml", [f"encoder.name={directory}"])
    shared = {"class_counts": None, "num_labels": 5, "low": 0.0, "high": 5.0}
    encoder, tokenizer = load_pretrained(config), pretrained_tokenizer(config)
    if "compiled" in name:
        assert isinstance(encoder, BertEncoder)
        encoder.use_kernels("compiled")
    context = dict.fromkeys(config.tasks, shared)
    model = assemble(config, encoder, context, autocast=_dtype(name)).to(place.device)
    return partial(encode, model, tokenizer, place)


def _dtype(name: str) -> torch.dtype | None:
    """The dtype in a variant's name; None for fp32."""
    return next((dtype for known, dtype in DTYPES.items() if dtype and known in name), None)


def sentence_transformers(directory: str, name: str, place: Place = HERE) -> Encode:
    try:
        from sentence_transformers import SentenceTransformer
    except ImportError as error:
        raise SystemExit("pip install sentence-transformers") from error
    model, dtype = SentenceTransformer(directory, device=str(place.device)), _dtype(name)
    if dtype is not None and place.device.type != "cpu":
        model.to(dtype)  # faster there than autocast
        dtype = None

    def run(texts: Sequence[str]) -> np.ndarray:
        with autocast(place.device, dtype):
            return model.encode(
                texts, batch_size=place.batch, show_progress_bar=False, normalize_embeddings=False
            )

    return run


def transformers_pipeline(directory: str, name: str) -> Encode:
    """transformers' feature extraction; its user averages over the tokens.

    One text at a time, its default: batches come padded and without their mask.
    """
    pipeline = transformers.pipeline("feature-extraction", directory, device="cpu")

    def run(texts: Sequence[str]) -> np.ndarray:
        outputs = pipeline(list(texts), return_tensors=True)
        return torch.stack([states[0].mean(0) for states in outputs]).numpy()

    return run


ENCODERS: dict[str, Callable[[str, str], Encode]] = {
    "transformers pipeline": transformers_pipeline,
    **dict.fromkeys(PEERS, sentence_transformers),
    **{f"ours, {name}": ours for name in ("fp32", "bf16", "bf16, compiled kernels")},
}


def main() -> None:
    options = parser(__doc__, rounds=5)
    options.add_argument("--size", choices=SIZES, default="minilm")
    arguments = started(options)
    with weights(arguments.size) as name:
        measure(arguments, name)


def measure(arguments: argparse.Namespace, directory: str) -> None:
    """Print the table for the weights in a directory."""
    texts = sentences(arguments.directory, SENTENCES[arguments.size])
    variants = {name: partial(make(directory, name), texts) for name, make in ENCODERS.items()}
    expected = variants[PEERS[0]]()
    times = in_turn(variants, arguments.rounds)
    lines = []
    for name, variant in variants.items():
        vectors = np.asarray(variant(), dtype=np.float64)
        norms = np.linalg.norm(vectors, axis=1) * np.linalg.norm(expected, axis=1)
        apart = 1 - ((vectors * expected).sum(1) / norms).min()
        lines.append([
            name,
            f"{len(texts) / statistics.median(times[name]):.0f}",
            *(f"{ratio(times[peer], times[name]):.2f}" for peer in PEERS),
            f"{apart:.0e}",
        ])  # fmt: skip
    print(headline(arguments.threads, arguments.rounds))
    beside = [f"x {peer}" for peer in PEERS]
    header = ("encode", "sentences/s", *beside, "1 - cosine at most")
    print(markdown_table(header, lines))


if __name__ == "__main__":
    main()
