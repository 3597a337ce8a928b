"""Semantic search: a FAISS index of texts by cosine (Johnson et al. 2019).

An index is a directory of three files: ``index.faiss``, ``texts.tsv`` (line number and text) and
``index.json``, which records how the vectors were made and the checksum of each file.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import TypeAdapter

from multitask.data.readers.lines import each_line
from multitask.inference.similarity import unit
from multitask.store.files import (
    changed_file,
    entries,
    file_digests,
    finish_replacing,
    remove_scraps,
    replacing,
    text_digest,
)
from multitask.store.outputs import has_keys
from multitask.utils.errors import NotFinite, UserError, no_file
from multitask.utils.heartbeat import tracked
from multitask.utils.limits import JSON_BYTES, read_bounded
from multitask.utils.optional import optional
from multitask.utils.paths import inside

if TYPE_CHECKING:
    from multitask.inference.embeddings import Vectors

FORMAT = 2
# the format without checksums
FIRST_FORMAT = 1
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
    """

    source: str
    task: str | None
    pooling: str | None
    max_length: int
    fingerprint: str


@dataclass(frozen=True)
class Facts:
    """The content of index.json.

    Attributes:
        origin: how the vectors were made.
        texts: number of texts.
        blank_lines: number of blank lines in the corpus, which were skipped.
        dim: width of a vector.
        lists: number of lists of an IVF index; None for an exact index.
        probes: number of lists that a query searches; None for an exact index.
        sizes: bytes of each other file.
        sha256: checksum of each other file, and of these facts as "index.json"; none in format 1.
        format: version of the file format.
    """

    origin: Origin
    texts: int
    blank_lines: int
    dim: int
    lists: int | None
    probes: int | None
    sizes: dict[str, int]
    sha256: dict[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def digests(self) -> dict[str, str]:
        """The checksums of the other files."""
        return {name: digest for name, digest in self.sha256.items() if name != FACTS}

    def checksum(self) -> str:
        """Return the checksum of all facts except this checksum."""
        return text_digest(json.dumps(asdict(replace(self, sha256=self.digests)), sort_keys=True))


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

        An IVF index may return fewer than ``top``; the missing places are -1.

        Raises:
            UserError: ``top`` is larger than the number of texts, or queries have another width.
        """
        self.check_top(top)
        if queries.shape[1] != self.facts.dim:
            raise UserError(
                f"the query's vector has {queries.shape[1]} dimensions, those of the index have "
                f"{self.facts.dim}: it was made with another encoder"
            )
        return nearest(self.vectors, queries, top)

    def check_top(self, top: int) -> None:
        """Raise UserError if the index has fewer than ``top`` texts."""
        held = len(self.texts)
        if not 1 <= top <= held:
            raise UserError(f"--top {top}: the index holds {held:,} texts: ask for 1 to {held}")


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
    vectors = exact_index(dim)
    corpus, blank = read_corpus(file)
    count = len(corpus)
    if ivf is not None:
        _check_lists(file, ivf[0], count)
    directory.parent.mkdir(parents=True, exist_ok=True)
    remove_scraps(directory.parent)
    with replacing(directory, fresh=not overwrite) as scratch:
        scratch.mkdir()
        with (scratch / TEXTS).open("w", encoding="utf-8", newline="\n") as texts_file:
            for start in tracked(range(0, count, CHUNK), f"indexing, {CHUNK:,} texts at a time"):
                chunk = corpus[start : start + CHUNK]
                texts_file.writelines(f"{number}\t{text}\n" for number, text in chunk)
                vectors.add(normalised(encode([text for _, text in chunk])))
        if ivf is not None:
            vectors = ivf_index(_stored(vectors), *ivf)
        try:
            import_faiss().write_index(vectors, str(scratch / VECTORS))
        except RuntimeError as error:
            raise OSError(f"{directory}: the index cannot be written: {error}") from error
        sizes = {name: (scratch / name).stat().st_size for name in (VECTORS, TEXTS)}
        lists, probes = ivf or (None, None)
        facts = Facts(origin, count, blank, dim, lists, probes, sizes, file_digests(scratch))
        facts = replace(facts, sha256={**facts.sha256, FACTS: facts.checksum()})
        (scratch / FACTS).write_text(json.dumps(asdict(facts), indent=1), encoding="utf-8")
        check_output(directory, overwrite)  # again: an index may take hours
    return facts


def _stored(index: Any) -> np.ndarray:
    """Return the vectors [N, d] of an exact index without a copy; valid while the index is."""
    flat: np.ndarray = import_faiss().rev_swig_ptr(index.get_xb(), index.ntotal * index.d)
    return flat.reshape(index.ntotal, index.d)


def _check_lists(file: Path, lists: int, count: int) -> None:
    """Raise UserError if ``count`` texts cannot train an index of so many lists."""
    most = count // POINTS_A_LIST
    if lists > most:
        advice = f"at most {most}, or leave --ivf out" if most else "leave --ivf out"
        raise UserError(
            f"--ivf {lists}: each list needs {POINTS_A_LIST} texts to train on, and {file} has "
            f"{count:,}: {advice}"
        )


def check_output(directory: Path, overwrite: bool) -> None:
    """Raise UserError if an index would overwrite other files."""
    if directory.exists() and not directory.is_dir():
        raise UserError(f"{directory} is a file: choose another --out")
    names = {path.name for path in entries(directory)} if directory.is_dir() else set()
    # a damaged index is one, too
    replaceable = names >= {FACTS, VECTORS, TEXTS} or has_keys(
        directory / FACTS, ("origin", "texts")
    )
    if names and not replaceable:
        raise UserError(f"{directory} is not empty and holds no index: choose another --out")
    others = sorted(names - {FACTS, VECTORS, TEXTS})
    if others:
        raise UserError(
            f"{directory} holds {others[0]} in addition to the index: choose another --out"
        )
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
    corpus, number = [], 0
    for number, text in enumerate(each_line(file), 1):
        if text.strip():
            corpus.append((number, text))
    if not corpus:
        raise UserError(f"{file}: no texts")
    return corpus, number - len(corpus)


def open_index(directory: Path) -> TextIndex:
    """Read an index.

    Raises UserError if a file is missing, damaged, a link to another directory, or does not fit the
    others.
    """
    for name in (FACTS, VECTORS, TEXTS):
        inside(directory / name, directory)
    facts = _read_facts(directory / FACTS)
    for file, size in ((directory / name, size) for name, size in facts.sizes.items()):
        there = file.stat().st_size if file.is_file() else 0
        if there != size:
            message = f"{there:,} of the {size:,} bytes that were written"
            raise UserError(f"{file}: {message}: {ANEW}")
    if changed := changed_file(directory, facts.digests):
        raise UserError(f"{directory / changed}: not as it was written: {ANEW}")
    vectors = _read_vectors(directory / VECTORS, facts)
    try:
        written = (directory / TEXTS).read_bytes().decode("utf-8").removesuffix("\n")
        rows = [line.split("\t", 1) for line in written.split("\n")]
        lines, texts = [int(number) for number, _ in rows], [text for _, text in rows]
    except ValueError as error:
        raise UserError(f"{directory / TEXTS}: not as it was written: {ANEW}") from error
    if not len(rows) == vectors.ntotal == facts.texts or vectors.d != facts.dim:
        message = f"{vectors.ntotal} vectors of width {vectors.d}, {len(rows)} texts"
        wanted = f"{facts.texts} of width {facts.dim}"
        raise UserError(f"{directory}: {message}, but {wanted} were written: {ANEW}")
    return TextIndex(facts, vectors, texts, lines)


def _read_facts(file: Path) -> Facts:
    """Read index.json. Raises UserError if it is missing, damaged or has impossible values."""
    finish_replacing(file.parent)
    if not file.is_file():
        raise UserError(f"{file.parent}: no index there ({FACTS} is missing)")
    try:
        written = read_bounded(file, JSON_BYTES)
        if json.loads(written)["format"] not in (FIRST_FORMAT, FORMAT):
            raise UserError(f"{file}: written by another version of this program: {ANEW}")
        facts = TypeAdapter(Facts).validate_json(written, strict=True)
        if facts.format == FORMAT and facts.sha256[FACTS] != facts.checksum():
            raise ValueError("the checksum is another one")
        if {*facts.sizes} != {VECTORS, TEXTS} or not {*facts.sizes} >= {*facts.digests}:
            raise ValueError("other files")
        exact = facts.lists is None and facts.probes is None
        if not exact and not 1 <= (facts.probes or 0) <= (facts.lists or 0):
            raise ValueError("it cannot search so many lists")
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: not as it was written: {ANEW}") from error
    return facts


def _read_vectors(file: Path, facts: Facts) -> Any:
    """Read the FAISS index. Raises UserError if it is not of the kind in the facts."""
    faiss = import_faiss()
    try:
        vectors = faiss.read_index(str(file))
    except (RuntimeError, MemoryError) as error:
        raise UserError(f"{file}: FAISS cannot read it: {ANEW}") from error
    lists = vectors.nlist if isinstance(vectors, faiss.IndexIVFFlat) else None
    of_ours = isinstance(vectors, faiss.IndexFlat | faiss.IndexIVFFlat)
    if not of_ours or lists != facts.lists or vectors.metric_type != faiss.METRIC_INNER_PRODUCT:
        raise UserError(f"{file}: another kind of index than {FACTS} says: {ANEW}")
    if facts.probes is not None:
        vectors.nprobe = facts.probes
    return vectors


def check_origin(
    directory: Path,
    facts: Facts,
    vectors: "Vectors",
    instead: str = "name the run it was made with by --run",
) -> None:
    """Raise UserError if ``vectors`` encode queries differently from the texts of the index.

    ``instead`` is advice for a user who wants to keep the index.
    """
    source, then = vectors.source, facts.origin.source
    if (dim := vectors.dim) != facts.dim:
        raise UserError(
            f"{directory}: its vectors have {facts.dim} dimensions, those of {source} have {dim}: "
            f"it was made with {then}; {ANEW}, or {instead}"
        )
    if vectors.fingerprint() != facts.origin.fingerprint:
        raise UserError(
            f"{directory}: made with other weights than {source} has now (then: {then}): {ANEW}, "
            f"or {instead}"
        )
