"""The STS suites as published, with their quirks, and the real ones' sizes."""

from pathlib import Path

import pytest

from multitask.data.sts_suites import read_pairs, read_suites
from multitask.tasks.sts_names import NAMES
from multitask.utils.errors import UserError
from tests.conftest import ROOT
from tests.support.sts_files import write_senteval, write_suites

REAL = ROOT.parent / "shared" / "data" / "sts"
# Agirre et al. 2012-2016; STS13 without SMT, which is not distributed; SICK's test split
SIZES = {"STS12": 3108, "STS13": 1500, "STS14": 3750, "STS15": 3000, "STS16": 1186, "SICK-R": 4927}


def test_folders_of_tab_separated_files(tmp_path):
    suites = read_suites(write_suites(tmp_path))
    assert tuple(suites) == NAMES
    assert list(suites["STS12"]) == ["MSRpar", "MSRvid"]
    assert list(suites["SICK-R"]) == ["test"]
    assert all(len(rows) == 21 for suite in suites.values() for rows in suite.values())


def test_sentevals_layout_with_its_quirks(tmp_path):
    suites = read_suites(write_senteval(tmp_path))
    assert list(suites) == ["STS12", "STS-B", "SICK-R"]
    assert list(suites["STS12"]) == ["MSRpar", "surprise.OnWN"]
    rows = suites["STS12"]["MSRpar"]
    # the quote is an ordinary character, spaces stay, the pair without a score is dropped
    assert rows.texts == [('a "cat', "the dog"), ("d", "e")]
    assert rows.labels.tolist() == [4.4, 0.0]
    assert rows.unlabelled_dropped == 1
    bench = suites["STS-B"]["sts-test"]
    assert bench.texts == [('A "girl" is, styling.', "A girl brushes."), ("u", "v")]
    assert bench.labels.tolist() == [2.5, 2.5]
    assert suites["SICK-R"]["test"].texts == [("There is no boy", "Kids play")]
    assert suites["SICK-R"]["test"].labels.tolist() == [3.3]


def test_the_courses_file_serves_as_sts_b(tmp_path, course_files):
    write_senteval(tmp_path)
    suites = read_suites(tmp_path, course_files / "sts-dev.csv")
    assert list(suites["STS-B"]) == ["sts-dev"]
    assert len(suites["STS-B"]["sts-dev"]) == 12


def test_quotes_of_the_courses_file_are_those_of_csv(tmp_path):
    file = tmp_path / "sts-dev.csv"
    text = '\tid\tsentence1\tsentence2\tsimilarity\n0\tx\t"say ""hi"""\tb\t1.0\n'
    file.write_text(text)
    assert read_pairs(file, "STS-B").texts == [('say "hi"', "b")]


@pytest.mark.parametrize(
    ("file", "text", "message"),
    [
        ("STS12-en-test/STS.gs.X.txt", "1\n", "STS.gs.X.txt: 1 scores for the 2 pairs of STS.in"),
        (
            "STS12-en-test/STS.gs.X.txt",
            "1\n6\n",
            "X.txt, line 2: the score '6' is no number from 0",
        ),
        (
            "STS12-en-test/STS.gs.X.txt",
            "1\nnan\n",
            "line 2: the score 'nan' is no number from 0 to",
        ),
        ("STS12-en-test/STS.gs.X.txt", "\n\n", "STS.gs.X.txt: "),
        ("STS12-en-test/STS.input.X.txt", "a\nb\tc\n", "X.txt, line 1: 1 columns: expected two"),
        (
            "STS12/a.tsv",
            "sentence1\tsentence2\tscore\na\tb\tx\n",
            "a.tsv, line 2: the score 'x' is",
        ),
        (
            "STS12/a.tsv",
            "a\tb\n",
            "a.tsv, line 1: 2 columns: expected a header with sentence1, sen",
        ),
        (
            "SICK-R/test.tsv",
            "sentence1\tsentence2\tscore\na\tb\t0.5\n",
            "'0.5' is no number from 1",
        ),
    ],
)
def test_a_file_that_does_not_fit_is_one_line_with_its_place(file, text, message, tmp_path):
    (tmp_path / "STS12-en-test").mkdir()
    (tmp_path / "STS12-en-test" / "STS.input.X.txt").write_text("a\tb\nc\td\n")
    (tmp_path / "STS12-en-test" / "STS.gs.X.txt").write_text("1\n2\n")
    (tmp_path / file).parent.mkdir(exist_ok=True)
    (tmp_path / file).write_text(text)
    with pytest.raises(UserError) as caught:
        read_suites(tmp_path)
    assert message in str(caught.value)


def test_scores_that_are_not_there_are_asked_for(tmp_path):
    write_senteval(tmp_path)
    (tmp_path / "STS" / "STS12-en-test" / "STS.gs.MSRpar.txt").unlink()
    with pytest.raises(UserError, match="its scores are missing"):
        read_suites(tmp_path)


def test_a_directory_without_suites_says_so(tmp_path):
    with pytest.raises(UserError, match="no suite there: expected folders such as STS12, SICK-R"):
        read_suites(tmp_path)
    with pytest.raises(UserError, match="--data: no such directory"):
        read_suites(tmp_path / "none")
    with pytest.raises(UserError, match="--stsb: no such file"):
        read_suites(tmp_path, Path("none.csv"))


def test_the_real_suites_have_their_published_sizes():
    if not REAL.is_dir():
        pytest.skip(f"the suites are not at hand ({REAL})")
    suites = read_suites(REAL)
    assert {name: sum(map(len, suite.values())) for name, suite in suites.items()} == SIZES
    assert len(suites["STS14"]) == 6
    assert len(suites["STS15"]) == len(suites["STS16"]) == len(suites["STS12"]) == 5
