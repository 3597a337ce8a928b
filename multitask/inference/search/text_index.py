"""Semantic search: a FAISS index of texts by cosine (Johnson et al. 2019).

An index is a directory of ``index.faiss``, ``texts.tsv`` (line number and text), ``index.json``,
which records how the vectors were made, and ``SHA256SUMS``.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from pydantic import TypeAdapter

from multitask.data.readers.text_files import each_line
from multitask.inference.similarity import unit
from multitask.store import files
from multitask.utils.errors import NotFinite, UserError, no_file
from multitask.utils.heartbeat import tracked
from multitask.utils.limits import JSON_BYTES, read_bounded
from multitask.utils.optional import optional
from multitask.utils.paths import inside

if TYPE_CHECKING:
    from multitask.inference.embeddings import Vectors

FACTS, VECTORS, TEXTS = "index.json", "index.faiss", "texts.tsv"
# texts encoded and added at a time
CHUNK = 4096
# training points per list that FAISS recommends for an IVF index
POINTS_A_LIST = 39
ANEW = "make the index again"

Encode = Callable[[Sequence[str]], np.ndarray]


@dataclass(frozen=True)
class Origin:
    """The origin of the vectors: arguments of ``multitask.inference.embeddings.open_vectors``.

    Attributes:
        source: the run or the encoder.
        task: the task of the run; None for an encoder.
        pooling: a pooling without parameters; None for that of the task.
        max_length: longest text in tokens.
        fingerprint: hash of the weights, the tokenizer and the pooling.
        dim: the first numbers of a vector that count; None for all.
    """

    source: str
    task: str | None
    pooling: str | None
    max_length: int
    fingerprint: str
    dim: int | None = None


@dataclass(frozen=True)
class Facts:
    """The content of index.json.

    Attributes:
        origin: how the vectors were made.
        texts: number of texts.
        blank_lines: number of blank lines in the corpus, which were skipped.
        lists: number of lists of an IVF index; None for an exact index.
        probes: number of lists that a query searches; None for an exact index.
        format: version of the file format.
    """

    origin: Origin
    texts: int
    blank_lines: int
    lists: int | None
    probes: int | None
    format: Literal[3] = 3


@dataclass
class TextIndex:
    """An index in memory.

    Attributes:
        facts: the content of index.json.
        vectors: the FAISS index.
        texts: the texts, in the order of their vectors.
        lines: the line of each text in the corpus file.
    """

    facts: Facts
    vectors: Any
    texts: list[str]
    lines: list[int]

    def search(self, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
        """Find the nearest texts of each query [Q, d]: cosines and places [Q, top], best first.

        There are as many as texts if ``top`` is larger. An IVF index may find fewer; the missing
        places are -1.
        """
        return nearest(self.vectors, queries, min(top, len(self.texts)))


def import_faiss() -> Any:
    """Import the library. Raises UserError if it is missing."""
    return optional("faiss", "semantic search needs FAISS", "search")


def nearest(index: Any, queries: np.ndarray, top: int) -> tuple[np.ndarray, np.ndarray]:
    """Search a FAISS index for queries [Q, d] of any length: cosines and places [Q, top]."""
    return index.search(normalised(queries), top)


def normalised(vectors: np.ndarray) -> np.ndarray:
    """Scale vectors to length one, in fp32 for FAISS. Raises NotFinite for NaN or infinity."""
    if not np.isfinite(vectors).all():
        raise NotFinite("the encoder's vectors are not finite numbers")
    return np.ascontiguousarray(unit(vectors), dtype=np.float32)


def exact_index(dim: int) -> Any:
    """Make an empty index that compares a query with every vector."""
    return import_faiss().IndexFlatIP(dim)


def ivf_index(vectors: np.ndarray, lists: int, probes: int, seed: int | None = None) -> Any:
    """Index vectors [N, d] of length one in ``lists`` lists; a query searches ``probes`` of them.

    ``seed`` is that of k-means, which makes the lists; default: that of FAISS.
    """
    faiss, dim = import_faiss(), vectors.shape[1]
    index = faiss.IndexIVFFlat(faiss.IndexFlatIP(dim), dim, lists, faiss.METRIC_INNER_PRODUCT)
    index.cp.min_points_per_centroid = 1  # FAISS does not warn: we do
    if seed is not None:
        index.cp.seed = seed
    index.train(vectors)
    index.add(vectors)
    index.nprobe = probes
    return index


def build(
    file: Path,
    directory: Path,
    encode: Encode,
    *,
    dim: int,
    origin: Origin,
    ivf: tuple[int, int] | None = None,
    overwrite: bool = False,
) -> Facts:
    """Index a file with one text per line; blank lines are skipped and counted.

    The texts are encoded in chunks, with a progress bar.

    Args:
        file: UTF-8, one text per line.
        directory: the directory of the index.
        encode: texts -> vectors [N, dim].
        dim: the width of a vector.
        origin: how ``encode`` makes vectors.
        ivf: (lists, searched lists), or None for an exact index.
        overwrite: replace an older index by the complete new one.

    Raises:
        UserError: there are no texts, too few for the lists, FAISS is missing, or something else
            is in ``directory`` by the end.
    """
    directory = directory.resolve()  # replace the directory behind a link, not the link
    faiss, vectors = import_faiss(), exact_index(dim)
    corpus, blank = read_corpus(file)
    count = len(corpus)
    lists, probes = ivf or (None, None)
    if ivf is not None and ivf[0] > (most := count // POINTS_A_LIST):
        advice = f"at most {most}, or leave --ivf out" if most else "leave --ivf out"
        raise UserError(
            f"--ivf {lists}: each list needs {POINTS_A_LIST} texts to train on, and {file} has "
            f"{count:,}: {advice}"
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    files.remove_scraps(directory.parent)
    with files.replacing(directory, fresh=not overwrite) as scratch:
        scratch.mkdir()
        with (scratch / TEXTS).open("w", encoding="utf-8", newline="\n") as texts_file:
            for start in tracked(range(0, count, CHUNK), f"indexing, {CHUNK:,} texts at a time"):
                chunk = corpus[start : start + CHUNK]
                texts_file.writelines(f"{number}\t{text}\n" for number, text in chunk)
                vectors.add(normalised(encode([text for _, text in chunk])))
        if ivf is not None:
            flat = faiss.rev_swig_ptr(vectors.get_xb(), count * dim)  # without a copy
            vectors = ivf_index(flat.reshape(count, dim), *ivf)
        try:
            faiss.write_index(vectors, str(scratch / VECTORS))
        except RuntimeError as error:
            raise OSError(f"{directory}: the index cannot be written: {error}") from error
        facts = Facts(origin, count, blank, lists, probes)
        (scratch / FACTS).write_text(json.dumps(asdict(facts), indent=1), encoding="utf-8")
        files.write_text(scratch / files.CHECKSUMS, files.digest_lines(files.file_digests(scratch)))
        check_output(directory, overwrite)  # again: an index may take hours
    return facts


def check_output(directory: Path, overwrite: bool) -> None:
    """Raise UserError if an index would overwrite other files."""
    if not directory.exists():
        return
    names = {path.name for path in files.entries(directory)} if directory.is_dir() else {""}
    ours = {FACTS, VECTORS, TEXTS}
    if names and not ours <= names <= ours | {files.CHECKSUMS}:
        raise UserError(f"{directory} holds no index, or other files too: choose another --out")
    if names and not overwrite:
        raise UserError(f"{directory} holds an index already: --overwrite, or choose another --out")


def read_corpus(file: Path) -> tuple[list[tuple[int, str]], int]:
    """Return the texts of a file with line numbers from 1, and the number of blank lines.

    Raises UserError if a line is not UTF-8, and if the file has no text or is a table.
    """
    if not file.is_file():
        raise UserError(f"--texts: {no_file(file)}")
    if file.suffix.lower() in (".csv", ".tsv", ".json", ".jsonl", ".parquet"):
        raise UserError(f"{file}: expected a .txt file with one text a line, not a table")
    lines = list(enumerate(each_line(file), 1))
    corpus = [(number, text) for number, text in lines if text.strip()]
    if not corpus:
        raise UserError(f"{file}: no texts")
    return corpus, len(lines) - len(corpus)


def open_index(directory: Path) -> TextIndex:
    """Read an index.

    Raises UserError if a file is missing, damaged, a link to another directory, or of another
    version of this program.
    """
    files.finish_replacing(directory)
    if not (directory / FACTS).is_file():
        raise UserError(f"{directory}: no index there ({FACTS} is missing)")
    for name in (files.CHECKSUMS, FACTS, VECTORS, TEXTS):
        inside(directory / name, directory)
    faiss, saved = import_faiss(), files.read_digests(directory / files.CHECKSUMS)
    digests = {name: saved.get(name, ()) for name in (FACTS, VECTORS, TEXTS)}
    if changed := files.changed_file(directory, digests):
        raise UserError(f"{directory / changed}: not as it was written: {ANEW}")
    try:
        written = read_bounded(directory / FACTS, JSON_BYTES)
        facts = TypeAdapter(Facts).validate_json(written, strict=True)
        vectors = faiss.read_index(str(directory / VECTORS))
        if facts.probes is not None:
            vectors.nprobe = facts.probes
        lines = (directory / TEXTS).read_bytes().decode().removesuffix("\n").split("\n")
        rows = [(int(number), text) for number, _, text in (line.partition("\t") for line in lines)]
    except (ValueError, RuntimeError, MemoryError) as error:
        raise UserError(f"{directory}: an index of another version or kind: {ANEW}") from error
    return TextIndex(facts, vectors, [text for _, text in rows], [number for number, _ in rows])


def check_origin(directory: Path, facts: Facts, vectors: "Vectors") -> None:
    """Raise UserError if ``vectors`` encode queries differently from the texts of the index."""
    if vectors.fingerprint() != facts.origin.fingerprint:
        raise UserError(
            f"{directory}: made with other weights than {vectors.source} has now (then: "
            f"{facts.origin.source}): {ANEW}, or name the run that it was made with"
        )
