"""Search against a search by numpy, and every way in which an index can be broken."""

import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from multitask.inference.search import text_index
from multitask.inference.search.text_index import Origin, TextIndex, open_index, read_corpus
from multitask.store.files import CHECKSUMS, digest_lines, file_digests
from multitask.utils.errors import NotFinite, UserError

pytest.importorskip("faiss", reason="faiss-cpu is not installed (dev requirement)")

ORIGIN = Origin("runs/mine", "sts", None, 48, "f" * 64)
DIM = 8
FILES = ["index.json", "index.faiss", "texts.tsv", "SHA256SUMS"]


def encode(texts):
    """Vectors of any length that depend on the text alone."""
    return np.stack(
        [np.random.default_rng(list(text.encode())).normal(size=DIM) for text in texts]
    ).astype(np.float32)


def corpus_file(directory: Path, count: int) -> Path:
    file = directory / "texts.txt"
    file.write_text("".join(f"text {i} of the corpus\n" for i in range(count)))
    return file


build = partial(text_index.build, dim=DIM, origin=ORIGIN)


def made(directory: Path, count: int = 50, ivf: tuple[int, int] | None = None) -> TextIndex:
    build(corpus_file(directory, count), directory / "index", encode, ivf=ivf)
    return open_index(directory / "index")


def naive(texts: list[str], query: str, top: int) -> list[tuple[str, float]]:
    """The nearest texts by cosine, as a loop in float64."""
    q, result = encode([query])[0].astype(float), []
    for text in texts:
        v = encode([text])[0].astype(float)
        cosine = sum(a * b for a, b in zip(q, v, strict=True))
        result.append((text, cosine / np.sqrt((q @ q) * (v @ v))))
    return sorted(result, key=lambda item: -item[1])[:top]


def test_an_exact_index_finds_what_a_loop_over_all_texts_finds(tmp_path):
    index = made(tmp_path)
    queries = ["a question", "text 7 of the corpus"]
    scores, places = index.search(encode(queries), 10)
    for query, row, actual in zip(queries, scores, places, strict=True):
        expected = naive(index.texts, query, 10)
        assert [index.texts[place] for place in actual] == [text for text, _ in expected]
        np.testing.assert_allclose(row, [cosine for _, cosine in expected], atol=1e-6)
    assert index.texts[places[1][0]] == queries[1] and scores[1][0] == pytest.approx(1)
    assert sorted(index.search(encode(queries), 99)[1][0]) == list(range(50))  # all that there are


def test_an_ivf_index_that_searches_every_list_is_exact(tmp_path):
    index = made(tmp_path, 200, ivf=(5, 5))
    assert (index.facts.lists, index.facts.probes) == (5, 5)
    result = index.search(encode(["a question"]), 5)[1][0]
    assert [index.texts[p] for p in result] == [t for t, _ in naive(index.texts, "a question", 5)]


def test_an_ivf_index_keeps_how_many_lists_it_searches(tmp_path):
    index = made(tmp_path, 400, ivf=(10, 2))
    assert index.vectors.nprobe == 2
    result = index.search(encode([f"q{i}" for i in range(20)]), 10)[1]
    exact = [{t for t, _ in naive(index.texts, f"q{i}", 10)} for i in range(20)]
    shared = [len(e & {index.texts[p] for p in f}) for e, f in zip(exact, result, strict=True)]
    assert 0 < sum(shared) < 200  # approximate, as asked for


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.sampled_from(["a", "  ", "", "b\tc", "d é\r"]), max_size=20))
def test_a_corpus_has_every_text_with_its_line(tmp_path, lines):
    lines = [*lines, "the last one"]
    (tmp_path / "texts").write_bytes("\n".join(lines).encode())
    corpus, blank = read_corpus(tmp_path / "texts")
    assert corpus == [(i, line.rstrip("\r")) for i, line in enumerate(lines, 1) if line.strip()]
    assert blank == len(lines) - len(corpus)


def test_chunks_are_encoded_one_after_the_other_and_lines_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(text_index, "CHUNK", 4)
    file = tmp_path / "texts.txt"
    file.write_text("\ufeffone\n\ntwo\tparts\n \nthree\r\nfour\nfive\nsix", encoding="utf-8")
    sizes = []

    def counting(texts):
        sizes.append(len(texts))
        return encode(texts)

    facts = build(file, tmp_path / "index", counting)
    assert sizes == [4, 2]
    assert (facts.texts, facts.blank_lines) == (6, 2)
    index = open_index(tmp_path / "index")
    assert index.texts == ["one", "two\tparts", "three", "four", "five", "six"]
    assert index.lines == [1, 3, 5, 6, 7, 8]
    place = index.search(encode(["two\tparts"]), 1)[1][0][0]
    assert index.lines[place] == 3


@pytest.mark.parametrize(
    ("text", "name", "message"),
    [
        (b"", "a.txt", "a.txt: no texts"),
        (b"\n  \n", "a.txt", "a.txt: no texts"),
        (b"fine\n\xff\n", "a.txt", "a.txt, line 2: not UTF-8"),
        (b"a,b\n", "a.csv", "a.csv: expected a .txt file"),
    ],
)
def test_a_corpus_that_is_none_leaves_nothing_behind(text, name, message, tmp_path):
    (tmp_path / name).write_bytes(text)
    with pytest.raises(UserError, match=message):
        build(tmp_path / name, tmp_path / "index", encode)
    assert [path.name for path in tmp_path.iterdir()] == [name]


def test_a_failure_while_encoding_leaves_the_older_index_as_it_was(tmp_path):
    made(tmp_path)
    with pytest.raises(NotFinite):
        build(corpus_file(tmp_path, 50), tmp_path / "index", lambda texts: encode(texts) * np.nan)
    assert len(open_index(tmp_path / "index").texts) == 50
    assert not list(tmp_path.glob(".*"))


def test_more_lists_than_texts_can_train_are_refused(tmp_path):
    for count, lists, message in ((100, 3, "has 100: at most 2"), (5, 1, "has 5: leave --ivf")):
        with pytest.raises(UserError, match=message):
            made(tmp_path, count, ivf=(lists, 1))


def cut(file: Path) -> None:
    file.write_bytes(file.read_bytes()[:-9])


def swapped_lines(file: Path) -> None:
    first, second, *others = file.read_text().splitlines(keepends=True)
    file.write_text("".join([second, first, *others]))


def link(file: Path) -> None:
    """Put a link to another place there, as somebody else may have done."""
    file.symlink_to(file.rename(file.parents[1] / file.name))


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        *((name, damage) for name in FILES for damage in (cut, Path.unlink, link)),
        ("texts.tsv", swapped_lines),
    ],
)
def test_a_damaged_index_is_one_line(name, damage, tmp_path):
    made(tmp_path)
    damage(tmp_path / "index" / name)
    with pytest.raises(UserError, match=f"^{tmp_path}/index.*(again$|missing|link)") as caught:
        open_index(tmp_path / "index")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("index.json", b'{"format": 9}'),
        ("index.json", b'{"origin": {}, "format": 3}'),
        ("index.json", b"[" * 100_000),
        ("index.faiss", b"no index of FAISS"),
        ("texts.tsv", b"no\tnumber\n"),
    ],
)
def test_an_index_of_another_version_is_one_line(name, content, tmp_path):
    """Its checksums are right."""
    made(tmp_path)
    (tmp_path / "index" / name).write_bytes(content)
    changed = tmp_path / "index"
    (changed / CHECKSUMS).unlink()
    (changed / CHECKSUMS).write_text(digest_lines(file_digests(changed)))
    with pytest.raises(UserError, match=r"another version .*make the index again$"):
        open_index(tmp_path / "index")


def test_without_the_library_one_line_names_the_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "faiss", None)
    with pytest.raises(UserError, match=r"semantic search needs FAISS: pip install .*\[search\]"):
        text_index.import_faiss()


def test_nothing_but_an_index_is_ever_replaced(tmp_path):
    made(tmp_path)
    text_index.check_output(tmp_path / "index", overwrite=True)
    text_index.check_output(tmp_path / "new", overwrite=False)
    with pytest.raises(UserError, match="holds an index already: --overwrite"):
        text_index.check_output(tmp_path / "index", overwrite=False)
    (tmp_path / "index" / "mine.txt").write_text("the corpus itself")
    for place in ("index", ".", "texts.txt"):
        with pytest.raises(UserError, match="holds no index, or other files too"):
            text_index.check_output(tmp_path / place, overwrite=True)
