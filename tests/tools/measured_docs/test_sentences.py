"""The sentences about differences come from the saved numbers, and no page says more than they."""

import json
import re
from dataclasses import replace
from pathlib import Path

import pytest

from multitask.reporting import verdicts
from multitask.reporting.sheet import MEAN
from multitask.reporting.verdicts import Compared, sentence, verdict
from tools.measured_docs import grid_tables
from tools.measured_docs.grid_tables import load_sheet, says
from tools.measured_docs.pages import BLOCK, measured_pages
from tools.measured_docs.store import RESULTS


def difference(value, low, high, p=0.01):
    return {"value": value, "low": low, "high": high, "p": p, "p_holm": p}


@pytest.mark.parametrize(
    ("given", "printed", "margin", "expected"),
    [
        (difference(0.2, 0.1, 0.3, 0.049), None, None, verdicts.HIGHER),
        (difference(-0.2, -0.3, -0.1, 0.049), None, None, verdicts.LOWER),
        # the interval excludes 0, and Holm's p does not
        (difference(0.2, 0.1, 0.3, 0.05), None, None, verdicts.NOT_SIGNIFICANT),
        (difference(0.2, 0.1, 0.3, None), None, None, verdicts.ONE_SEED),
        (difference(0.2, 0.1, 0.3, None), 0.2, 1.0, verdicts.ONE_SEED),
        (difference(0.1, -0.2, 0.3, 0.5), None, 0.3, verdicts.EQUAL),
        (difference(0.1, -0.3, 0.2, 0.5), None, 0.3, verdicts.EQUAL),
        (difference(0.1, -0.31, 0.2, 0.5), None, 0.3, verdicts.NOT_SIGNIFICANT),
        (difference(0.1, -0.2, 0.31, 0.5), None, 0.3, verdicts.NOT_SIGNIFICANT),
        (difference(0.2, 0.1, 0.3), 0.1, None, verdicts.AS_PRINTED),
        (difference(0.2, 0.1, 0.3), 0.3, None, verdicts.AS_PRINTED),
        (difference(0.2, 0.1, 0.3, 0.05), 0.3, None, verdicts.CANNOT_TELL),
        (difference(0.2, 0.1, 0.3), 0.09, None, verdicts.LARGER),
        (difference(0.2, 0.1, 0.3, 0.2), 0.09, None, verdicts.CANNOT_TELL),
        (difference(0.2, 0.1, 0.3), 0.31, None, verdicts.SMALLER),
        (difference(0.1, -0.1, 0.3, 0.5), 0.31, None, verdicts.CANNOT_TELL),
        # the interval has 0 in it, whatever p says: no side, so neither larger nor smaller
        (difference(0.2, -0.1, 0.3), 0.31, None, verdicts.CANNOT_TELL),
        (difference(0.2, 0.0, 0.3), None, None, verdicts.NOT_SIGNIFICANT),
        # docs/hire.md: 3 fusion layers
        (difference(3.45, -0.67, 7.93, 0.5), -1.20, None, verdicts.CANNOT_TELL),
        (difference(-0.2, -0.3, -0.1), -0.09, None, verdicts.LARGER),
        (difference(-0.2, -0.3, -0.1), -0.31, None, verdicts.SMALLER),
        (difference(-0.2, -0.3, -0.1), 0.1, None, verdicts.OPPOSITE),
        (difference(0.2, 0.1, 0.3), -0.1, None, verdicts.OPPOSITE),
        # the other side of 0, but 0 is not excluded
        (difference(-0.2, -0.3, -0.1, 0.05), 0.1, None, verdicts.CANNOT_TELL),
        (difference(0.2, 0.1, 0.3), 0.0, None, verdicts.PRINTED_0),
        (difference(0.0, -0.3, 0.3, 0.9), 0.0, 1.0, verdicts.PRINTED_0),
    ],
)
def test_every_verdict_at_its_borders(given, printed, margin, expected):
    assert verdict(Compared("a", given, printed), margin) == expected


@pytest.mark.parametrize("printed", [0.2, 0.05, 0.5, -0.2])
def test_no_printed_difference_is_judged_where_rows_were_not_trained_alike(printed):
    row = Compared("a", difference(0.2, 0.1, 0.3), printed, "33 % of the updates")
    assert verdict(row) == verdicts.UNEQUAL
    assert verdict(replace(row, printed=None)) == verdicts.HIGHER


def test_a_sentence_has_the_interval_of_every_verdict():
    rows = [
        Compared("a", difference(0.2, 0.1, 0.3), trained="33 % of the updates"),
        Compared("b", difference(-0.2, -0.3, -0.1)),
        Compared("d", difference(0.01, -0.037, 0.02, 1.0)),
        Compared("e", difference(0.01, -0.03, 0.024, 1.0)),
        Compared("f", difference(0.5, 0.4, 0.6, None)),
        Compared("g", difference(0.0, 0.0, 0.0, 1.0)),
    ]
    assert sentence("sst", rows) == (
        "sst: higher: a +0.200 [+0.100, +0.300] (33 % of the updates); "
        "lower: b -0.200 [-0.300, -0.100]; "
        "not significant: d +0.010 [-0.037, +0.020], e +0.010 [-0.030, +0.024]; "
        "no verdict from one seed: f; the baseline's predictions: g."
    )
    many = [Compared(str(n), difference(n, n - 0.5, n + 0.5)) for n in range(1, 8)]
    assert sentence("sst", many) == "sst: higher: 7 rows, the intervals allow +0.500 to +7.500."
    many[0] = replace(many[0], trained="33 % of the updates")
    assert "7 rows (1 not trained like the baseline), the" in sentence("sst", many)
    printed = [Compared("a", difference(2.0, 1.0, 3.0), 2.5)]
    assert sentence("CoLA", printed, digits=2) == (
        "CoLA: as printed: a +2.00 [+1.00, +3.00] (printed +2.50)."
    )
    within = [Compared("a", difference(0.0, -0.002, 0.004, 1.0))]
    assert sentence("sst", within, margin=0.01) == (
        "sst: equal within 0.01: a +0.000 [-0.002, +0.004]."
    )


def test_a_changed_number_of_a_saved_grid_changes_its_sentence(tmp_path, monkeypatch):
    saved = load_sheet("grids/smart_short")
    monkeypatch.setattr(grid_tables, "RESULTS", tmp_path)
    (tmp_path / "grids").mkdir()

    def sst():
        (tmp_path / "grids" / "smart_short.json").write_text(json.dumps(saved))
        lines = says("grids/smart_short").replace("\\", "").splitlines()
        (line,) = (line for line in lines if line.startswith("- sst"))
        return line

    assert sst().startswith("- sst accuracy: not significant: ")
    changed = saved["rows"][1]
    changed["cells"]["sst"]["difference"] |= {"value": 0.01, "low": 0.001, "p_holm": 0.04}
    assert sst().startswith(f"- sst accuracy: higher: {changed['name']} +0.010 [+0.001, ")
    changed["updates"] = saved["rows"][0]["updates"] // 3
    assert "] (33 % of the updates)" in sst()
    changed["cells"]["sst"]["difference"]["p_holm"] = None
    assert "no verdict from one seed: lambda" in sst()


def test_a_row_whose_task_was_only_scored_was_not_trained_like_the_baseline():
    sheet = load_sheet("grids/smart_short")
    remark = "only one was trained on the task"
    assert remark not in str(verdicts.verdicts(sheet))
    sheet["rows"][1]["untrained"] = ["sst"]
    _, sst, qqp, _, mean = verdicts.verdicts(sheet)
    assert remark in sst and remark not in qqp and remark in mean
    for row in sheet["rows"]:  # as a suite that no row is trained on
        row["untrained"] = ["sst"]
    assert remark not in str(verdicts.verdicts(sheet))


def test_the_mean_has_a_sentence_only_where_several_tasks_count():
    sheet = load_sheet("grids/smart_short")

    def columns():
        _, *lines = verdicts.verdicts(sheet)
        return [line.partition(":")[0] for line in lines]

    assert columns() == ["sst accuracy", "qqp accuracy", "sts pearson", "mean"]
    for row in sheet["rows"]:  # as if qqp and sts were evaluated only
        row["cells"][MEAN] = row["cells"]["sst"]
    assert columns() == ["sst accuracy", "qqp accuracy", "sts pearson"]


def test_a_changed_number_of_a_papers_table_changes_its_sentence():
    saved = load_sheet("papers/layer_attention_table2")
    last = saved["rows"][-1]
    cell = next(iter(last["cells"].values()))
    before = "\n".join(verdicts.verdicts(saved))
    assert "3 cannot tell" in before and "smaller" not in before
    cell["difference"] |= {"low": 0.1, "p_holm": 0.01}
    after = "\n".join(verdicts.verdicts(saved))
    assert f"smaller than printed: {last['title']} +0.64 [+0.10, +1.39] (printed +2.42)" in after
    cell["printed"] -= 5
    after = "\n".join(verdicts.verdicts(saved))
    assert f"{last['title']} +0.64 [+0.10, +1.39] (printed -2.58); cannot tell" in after
    assert verdicts.verdicts(saved | {"statistic": "sd"}) == []
    assert verdicts.verdicts(saved | {"curve": "k"})[0].startswith("Compared with k = ")


def test_a_row_whose_head_was_not_trained_has_no_verdict_against_a_printed_difference():
    saved = load_sheet("papers/minibert_table2")
    row = next(row for row in saved["rows"] if row["title"] == "SBert(MAX,MAX,MAX)")
    assert "smaller than printed: SBert(MAX,MAX,MAX)" in str(verdicts.verdicts(saved))

    def untrained(row):
        for name, cell in row["cells"].items():
            cell["untrained"] = [saved["columns"][name]["task"]]

    untrained(row)
    assert "than printed: SBert(MAX,MAX,MAX)" not in str(verdicts.verdicts(saved))
    for each in saved["rows"]:  # as on suites that are only scored
        untrained(each)
    assert "smaller than printed: SBert(MAX,MAX,MAX)" in str(verdicts.verdicts(saved))


# Words that say how a comparison ended, or whether a goal was reached; generated blocks have the
# sentences that may. "The same seed" and "a lower rate" say nothing about an end, "the same as" and
# "lower than" do.
OF_GOALS = (
    r"(?:reach|flatter|help|outperform|beat|improv|hardly|surpass|exceed)\w*|better|worse|wins?|won"
    r"|learn\w* (?:nothing|no)|(?:above|below|within|under|over) (?:the|our|its|both|all|a) goals?"
    r"|missed|(?:faster|slower|cheaper) than|as (?:good|fast|slow|cheap)"
    r"|(?:almost|nearly|about) (?:the same|as|no)|same (?:as|scores?|results?|speed|time)"
    r"|no (?:such )?(?:difference|effect)"
)
OF_SCORES = (
    r"(?:gain|repeat|equal|cost|significan)\w*|los(?:es?|t)|matters?|not see|less than"
    r"|(?:higher|lower) than"
)
GOAL = re.compile(rf"\b(?:{OF_GOALS})\b", re.IGNORECASE)
VERDICT = re.compile(rf"\b(?:{OF_GOALS}|{OF_SCORES})\b", re.IGNORECASE)
COMPARED = {"findings", "sheet", "summary", "paired", "effects", "together", "lines", "excerpt"}
COMPARED |= {"presets", "runs", "metrics", "conflict", "epochs", "importance", "layers"}
TIMED = {"benchmark", "goals"}


def verdicts_in_prose(text: str) -> list[str]:
    """Return the words of verdict outside generated blocks, in sections with measured numbers.

    A section has the numbers of its subsections, too: its first lines introduce them.
    """
    text = BLOCK.sub(lambda block: f"\n<{block[2]}>\n", text)
    text = re.sub(r"```.*?```|`[^`]*`|\]\([^)]*\)", "", text, flags=re.DOTALL)  # code, links
    found: list[str] = []
    below: dict[int, set[str]] = {}  # by depth: the kinds of blocks of later sections
    for section in reversed(re.split(r"^(?=#+ )", text, flags=re.MULTILINE)):
        depth = len(section) - len(section.lstrip("#"))
        kinds = set(re.findall(r"^<(\w+)>$", section, re.MULTILINE))
        kinds |= set().union(*(below.pop(each) for each in list(below) if each > depth))
        below[depth] = below.get(depth, set()) | kinds
        if kinds & (COMPARED | TIMED):
            title = section.partition("\n")[0]
            words = (VERDICT if kinds & COMPARED else GOAL).findall(" ".join(section.split()))
            found = [*(f"{title}: {word}" for word in words), *found]
    return found


def test_verdicts_are_found_in_the_prose_of_a_section_with_results_alone():
    block = "<!-- measured: sheet grids/smart -->\n### Gain\nbetter\n<!-- end -->\n"
    text = f"# A\nThe same seed.\n## B\nWe do not\nsee it, `better`.\n{block}## C\nequal\n"
    assert verdicts_in_prose(text) == ["## B: not see"]


def test_verdicts_are_found_where_a_subsection_has_the_results():
    block = "<!-- measured: sheet grids/smart -->\n<!-- end -->\n"
    text = f"# A\nIt helps.\n## B\nwins\n### C\n{block}### D\nas good\n## E\nlost\n#### F\nbeats\n"
    assert verdicts_in_prose(text) == ["# A: helps", "## B: wins"]
    assert verdicts_in_prose(text.replace("beats", block)) == [
        "# A: helps",
        "## B: wins",
        "## E: lost",
    ]


@pytest.mark.parametrize(
    ("sentence", "found"),
    [
        ("The same seed, the same rows, a lower rate, the higher layers.", []),
        ("It is the\nsame as before.", ["same as"]),
        ("They have the same scores.", ["same scores"]),
        ("Almost as high, nearly the same.", ["Almost as", "nearly the same"]),
        ("It is lower than that, and worse.", ["lower than", "worse"]),
        ("It outperforms nothing, hardly anything.", ["outperforms", "hardly"]),
        ("It wins, beats it, improves it.", ["wins", "beats", "improves"]),
        ("There is no such effect, and no difference.", ["no such effect", "no difference"]),
        ("One is as good.", ["as good"]),
        ("It has learned nothing, which flatters it.", ["learned nothing", "flatters"]),
        ("It cost twice, and is lost.", ["cost", "lost"]),
    ],
)  # fmt: skip
def test_words_of_verdict(sentence, found):
    text = f"# A\n{sentence}\n<!-- measured: sheet grids/smart -->\n<!-- end -->\n"
    assert verdicts_in_prose(text) == [f"# A: {word}" for word in found]


@pytest.mark.parametrize("kind", ["benchmark smart_step", "goals", "goals smart_step"])
def test_words_about_goals_next_to_a_benchmark(kind):
    text = f"""# A
With 32 rows all goals are reached, the time is a little above the goal. One is faster than the
other, and helps. It costs 2.7 steps.
<!-- measured: {kind} -->
reached
<!-- end -->
"""
    words = ["reached", "above the goal", "faster than", "helps"]
    assert verdicts_in_prose(text) == [f"# A: {word}" for word in words]


@pytest.mark.parametrize(
    "page", measured_pages(), ids=lambda page: f"{page.parent.name}/{page.name}"
)
def test_only_generated_sentences_have_verdicts(page: Path):
    assert verdicts_in_prose(page.read_text()) == []


def test_every_page_with_a_grid_or_a_papers_table_has_its_sentences():
    asked = "\n".join(page.read_text() for page in measured_pages())
    for folder in (RESULTS / "grids", RESULTS / "papers"):
        for file in folder.glob("*.json"):
            name = f"{folder.name}/{file.stem}"
            if says(name):  # not of a table of standard deviations
                assert f"<!-- measured: says {name} -->" in asked, file.name
