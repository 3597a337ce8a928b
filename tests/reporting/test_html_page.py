"""report.html holds what report.md holds, is sound HTML, asks for nothing and escapes all data."""

import html
import json
import re
import warnings
from pathlib import Path

import pytest

from multitask.reporting import html_page
from multitask.reporting.page import Code, Image, Lines, Page, Section, Text, Tile, markdown_block
from multitask.reporting.run_report import write_reports
from multitask.reporting.table_formats import Table
from multitask.store.run_directory import RunDirectory
from tests.support.fabricated_run import edited, rewritten, write_run
from tests.support.html_page import Parsed, check_page, page_text

SCRIPT = "<script>alert('x')</script>"
NASTY = [
    SCRIPT,
    "</td></table><img src=http://x.y onerror=alert(1)>",
    "\"quotes\" & 'quotes' &amp; &lt;b&gt; {{ 7 * 7 }} {% raw %}",
    "a very long word: " + "Donaudampfschiff" * 11,
    "emoji 👩‍🔬🎉 and \u202eoverride\u202c",
    "مرحبا بالعالم، هذه جملة طويلة",
    "中文句子，没有空格也会换行" * 6,
]


def write_nasty_run(folder: Path) -> None:
    """A run whose every text is nasty: names, files, classes, sentences, warnings, settings."""
    report = write_run(folder)
    tasks = report["tasks"]
    tasks["sst"]["classes"] = [SCRIPT, "good & bad", '"quoted"', "عربي", "long " * 12]
    tasks["sst"]["flags"] += [NASTY[1]]
    tasks["para"]["data"]["train"]["file"] = f"data/{'folder' * 12}/{SCRIPT.replace('/', '')}.csv"
    name = '<b>sts\'s & "name"'
    tasks[name] = tasks.pop("sts")
    predictions = folder / "predictions"
    (predictions / "sts.dev.jsonl").rename(predictions / f"{name}.dev.jsonl")
    events = (folder / "metrics.jsonl").read_text().replace('"sts"', json.dumps(name))
    (folder / "metrics.jsonl").write_text(events)
    report["warnings"] += NASTY
    report["command"] = f"python run_multitask.py train '{NASTY[1]}' name={'x' * 300}"
    report["encoder"] |= {"name": NASTY[2], "seen_corpora": NASTY[:2]}
    report["git_revision"] = NASTY[0]
    (folder / "report.json").write_text(json.dumps(report))

    def nasty(row, record):
        texts = [NASTY[row % len(NASTY)], *record["texts"][1:]]
        return record | {"texts": texts, "id": f"{SCRIPT if row % 2 else ''}{row}"}

    for task in tasks:
        rewritten(folder, task, nasty)


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """The folders of two runs with both reports."""
    top = tmp_path_factory.mktemp("runs")
    folders = {"plain": top / "run", "nasty": top / "a <b> & 'run'"}
    write_run(folders["plain"])
    write_nasty_run(folders["nasty"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # the figures' font has no emoji: none of its warnings
        for folder in folders.values():
            write_reports(RunDirectory(folder))
    return folders


@pytest.fixture(params=["plain", "nasty"])
def run(request, runs):
    return runs[request.param]


@pytest.fixture
def text(run):
    return (run / "report.html").read_text(encoding="utf-8")


def markdown_tables(markdown):
    """Cells of each table of a Markdown page, as plain text."""
    tables, inside = [], False
    for line in markdown.splitlines():
        if line.startswith("| "):
            cells = [cell.strip() for cell in re.split(r"(?<!\\)(?:\\\\)*\|", line)[1:-1]]
            plain = [html.unescape(re.sub(r"\\([\\`*_|~$#(])", r"\1", cell)) for cell in cells]
            if not inside:
                tables.append([])
            if set(plain) != {"---"}:
                tables[-1].append(plain)
        inside = line.startswith("| ")
    return tables


def test_every_table_of_the_markdown_report_is_there_with_equal_cells(run, text):
    expected = markdown_tables((run / "report.md").read_text(encoding="utf-8"))
    assert len(expected) == 8
    actual = [[[" ".join(c.split()) for c in row] for row in t] for t in Parsed(text).tables]
    assert actual == expected


def test_the_rest_of_the_markdown_report_is_there(run, text):
    shown = page_text(text)
    markdown = (run / "report.md").read_text(encoding="utf-8")
    for line in markdown.splitlines():
        if line.startswith(("|", "!", "```")):
            continue
        if not line.startswith("python "):
            line = html.unescape(re.sub(r"\\([\\`*_|~$#(])", r"\1", line))
        assert " ".join(re.sub(r"^(#+|-) ", "", line).split()) in shown
    assert len(Parsed(text).all("img")) == len(re.findall("^!", markdown, re.MULTILINE)) == 5


def test_the_page_is_sound_and_asks_for_nothing(run, text):
    check_page(text)


def test_the_warnings_are_in_the_contents(run, text):
    contents = text.split("<nav", 1)[1].split("</nav>")[0]
    assert 'href="#warnings"' in contents


def test_nothing_of_the_data_is_markup(runs):
    text = (runs["nasty"] / "report.html").read_text(encoding="utf-8")
    assert "<script" not in text and "<b>" not in text and "onerror=alert(1)>" not in text
    shown = page_text(text)
    for string in NASTY:
        assert " ".join(string.split()) in shown
    cells = {cell for table in Parsed(text).tables for row in table for cell in row}
    assert set(NASTY) <= cells  # short enough not to be cut
    assert '<b>sts\'s & "name"' in cells


def test_code_in_a_message_is_code_and_in_data_it_is_not(tmp_path):
    report = write_run(tmp_path)
    advice = "reads |u - v| alone: try `tasks.a_b.head=<x|y>` or `z`"
    report["tasks"]["para"]["flags"] = [advice]
    report["warnings"] = ["set `tag_scheme: a_b`; a ` alone, ``doubled`` and ` ` stay"]
    edited(tmp_path, lambda saved: saved.update(report))
    written = write_reports(RunDirectory(tmp_path)).read_text(encoding="utf-8")
    assert r"reads \|u - v\| alone: try `tasks.a_b.head=<x\|y>` or `z` |" in written
    assert r"- set `tag_scheme: a_b`; a \` alone, \`\`doubled\`\` and \` \` stay" in written
    assert r"\*bold\* \_it\_ \`code\`" in written  # a text of the data
    text = (tmp_path / "report.html").read_text(encoding="utf-8")
    shown = "reads |u - v| alone: try <code>tasks.a_b.head=&lt;x|y&gt;</code> or <code>z</code>"
    assert f'<p class="advice">{shown}</p>' in text and f">{shown}</td>" in text
    assert "set <code>tag_scheme: a_b</code>; a ` alone, ``doubled`` and ` ` stay</li>" in text
    assert "*bold* _it_ `code`" in text
    (warning,) = re.findall('<p class="flag">(.*?)</p>', text)
    assert warning == html.escape(report["tasks"]["sst"]["flags"][0])


def test_the_explanation_of_the_tiles_is_above_them(tmp_path):
    text = rendered(page(tiles=[Tile("x", "m", 0.5)], legend="L & M"), tmp_path, "report.html.j2")
    assert text.index("L &amp; M") < text.index('class="tile"')


def looks(tab, selector):
    """The colours of an element's text and edge."""
    script = "element => [getComputedStyle(element).color, getComputedStyle(element).borderColor]"
    return tab.eval_on_selector(selector, script)


@pytest.mark.slow
def test_a_tap_shows_a_figure_in_full_size_on_a_phone(runs, browser, tmp_path):
    write_run(tmp_path)
    advice = ["try more epochs (`training.epochs`)"]
    edited(tmp_path, lambda report: report["tasks"]["para"].update(flags=advice))
    write_reports(RunDirectory(tmp_path))
    tab = browser.new_page(viewport={"width": 390, "height": 844}, has_touch=True)
    tab.goto((tmp_path / "report.html").as_uri())
    image = tab.locator(".figure img").first
    drawn = int(image.get_attribute("width"))
    for width in (pytest.approx(330, abs=40), drawn, pytest.approx(330, abs=40)):
        assert image.evaluate("image => image.clientWidth") == width
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        image.tap()
    advice, warning = (looks(tab, f".tile .{name}") for name in ("advice", "flag"))
    assert not {*advice} & {*warning}  # neither the text nor the edge has the warnings' colour
    tiles = {tuple(looks(tab, f".tile:has({it})")) for it in (".advice", "h3:text('overall')")}
    assert len(tiles) == 1 and looks(tab, ".tile:has(.flag)") not in map(list, tiles)


def page(**changes):
    """A page with one block of each kind, and no tiles."""
    blocks = [Table(("a", "b"), [("1", "x")]), Lines(["l"]), Text("t"), Code("c")]
    values = {"folder": Path(), "title": "T", "summary": "S", "sections": [Section("One", blocks)]}
    return Page(**values | changes)


def rendered(page, tmp_path, template="base.html.j2"):
    html_page.write_html(page, tmp_path / "page.html", template)
    return (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_base_layout_serves_any_page(tmp_path):
    parts = [Section("P & Q", [Text("inner")]), Section("folded", [Text("more")], folded=True)]
    text = rendered(page(sections=[*page().sections, Section("Two", parts=parts)]), tmp_path)
    result = Parsed(text)
    assert [section["id"] for section in result.all("section")] == ["one", "two"]
    headings = [tag for tag, _ in result.elements if tag in ("h1", "h2", "h3")]
    assert headings == ["h1", "h2", "h2", "h3", "h3"]
    assert len(result.all("details")) == 1
    assert "T S One Two T" not in page_text(text) and "P & Q inner" in page_text(text)


def test_an_empty_table_keeps_its_header(tmp_path):
    text = rendered(page(sections=[Section("One", [Table(("a", "b"), [])])]), tmp_path)
    assert Parsed(text).tables == [[["a", "b"]]]


def test_a_tile_without_scores_says_so(tmp_path):
    tile = Tile("x", "pearson", None, references={"trivial": None}, flags=["lost & gone"])
    text = rendered(page(tiles=[tile]), tmp_path, "report.html.j2")
    assert re.search(r'class="score">-<', text) and "lost &amp; gone" in text
    assert not Parsed(text).all("circle") and not Parsed(text).all("rect")


@pytest.mark.parametrize(
    ("scores", "places"),
    [
        ({"score": 0.25}, {"start": 0, "end": 1, "score": 25}),
        ({"score": -1.0, "low": None}, {"start": -1, "end": 1, "score": 0}),
        ({"score": 4.0, "high": 5.0}, {"start": 0, "end": 5, "score": 80, "high": 100}),
        ({"score": None}, {"start": 0, "end": 1}),
    ],
)
def test_the_scale_of_a_tile_holds_every_score(scores, places):
    assert html_page.positions(Tile("x", "m", **scores)) == pytest.approx(places)


def test_columns_of_numbers_are_told_from_words_and_long_texts():
    rows = [
        ("1,234", "0.492 [0.463, 0.521]", "-0.1 ± 0.02", "1.5 %", "a" * 32, "y" * 33, ""),
        ("-", "-", "", "-", "1", "", ""),
    ]
    kinds = html_page.column_kinds(Table(("h",) * 7, rows))
    assert kinds == ["number"] * 4 + ["short", "long", "short"]
    rows = [("+0.1", "0.712 ± -", "+0.012 p 0.123\n[-0.003, +0.027]"), ("-0.1", "-", "+1 p<0.001")]
    assert html_page.column_kinds(Table(("h",) * 3, rows)) == ["number"] * 3


def test_marked_cells_stand_out_and_stay_escaped(tmp_path):
    table = Table(("a", "b"), [("<i>", "x"), ("y", "<b> | z")], frozenset({(1, 1)}))
    text = rendered(page(sections=[Section("One", [table])]), tmp_path)
    assert re.findall("<strong>(.*?)</strong>", text) == ["&lt;b&gt; | z"]
    assert Parsed(text).tables == [[["a", "b"], ["<i>", "x"], ["y", "<b> | z"]]]
    assert markdown_block(table, tmp_path).endswith(r"| y | **&lt;b&gt; \| z** |")


def test_an_image_has_the_size_it_was_drawn_at(tmp_path):
    from multitask.reporting.figures.style import new_figure

    new_figure(4, 2.5).savefig(tmp_path / "f.png", dpi=html_page.DPI)
    assert html_page.png_size((tmp_path / "f.png").read_bytes()) == (384, 240)
    text = rendered(page(sections=[Section("F", [Image(tmp_path / "f.png", "A & B")])]), tmp_path)
    (image,) = Parsed(text).all("img")
    assert (image["alt"], image["width"], image["height"]) == ("A & B", "384", "240")


def colours(css):
    """The custom properties of the light and of the dark scheme."""
    light, dark = re.findall(r":root \{(.*?)\}", css, re.DOTALL)[:2]
    return [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6});", part)) for part in (light, dark)]


def contrast(one, other):
    """Contrast of two colours by WCAG 2.2: 1 to 21."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    low, high = sorted([luminance(one), luminance(other)])
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1], ids=["light", "dark"])
def test_texts_and_marks_have_enough_contrast(scheme):
    css = Path(html_page.__file__).with_name("templates") / "style.css"
    colour = colours(css.read_text())[scheme]
    grounds = ("ground", "card", "head")
    pairs = [(text, ground) for text in ("text", "muted", "link") for ground in grounds]
    pairs += [("text", "warn-ground"), ("link", "warn-ground"), ("warn", "ground")]
    pairs += [("warn", "warn-ground"), ("warn", "card"), ("warn", "head")]  # `head`: of code
    for text, ground in pairs:
        assert contrast(colour[text], colour[ground]) >= 4.5, (text, ground)
    for mark in ("trained", "reference-1", "reference-2"):
        assert contrast(colour[mark], colour["card"]) >= 3, mark
