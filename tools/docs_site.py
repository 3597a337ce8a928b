"""Hooks of MkDocs (`make docs`): the pages of the site that are not files of docs/.

| file of the repository | page of the site |
| --- | --- |
| README.md | index.md |
| docs/README.md | all-pages.md |
| docs/PAGE | PAGE |
| docs/NAME.ipynb | NAME.md: its cells and their outputs |
| NAME.md, such as CONTRIBUTING.md | name.md |
| configs/NAME.yaml | presets/NAME.md: the file, and what is stored of its runs |
| another file or directory that a page links to | files/NAME.md: its text, or its list |
| - | api.md: the functions of `multitask` |

Links between pages are relative paths of the repository, as GitHub reads them. Here they become
links between the pages of the site.
"""

import json
import posixpath
import re
import shlex
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

import multitask
from multitask.config import load_config
from multitask.config.describe_config import TRAINED_HEADER, trained_with, training_line
from multitask.reporting.run_report import data_table, metric_table, run_settings, score_table
from multitask.reporting.table_formats import Table, message
from multitask.store.saved import RunReport
from multitask.utils.errors import UserError
from tools.measured_docs.grid_tables import sheet
from tools.measured_docs.run_tables import load_reports, mean_and_sd
from tools.measured_docs.store import RESULTS, ROOT, run_command

FENCED = re.compile(r"(^```.*?^```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"\]\(([^)#\s]+)(#[^)\s]*)?\)")
NESTED = re.compile(r"^(?:  )+(?=[-*] |\d+\. )", re.MULTILINE)
COMMAND = "python run_multitask.py "
# words of a command that leave the settings of a preset as they are
SAME_PRESET = re.compile(r"(seed|data_dir|output_dir|encoder\.kernels)=|--")
NAMED = {"README.md": "index.md", "docs/README.md": "all-pages.md"}


def page_of(name: str) -> str | None:
    """Return the page of the site, or its file, for a file of the repository."""
    if name in NAMED or not (ROOT / name).exists():
        return NAMED.get(name)
    if (ROOT / name).is_dir():
        return f"files/{name}.md"
    folder, _, rest = name.rpartition(".")[0].partition("/")
    match folder, Path(name).suffix:
        case "docs", ".ipynb":
            return f"{rest}.md"
        case "docs", _ if not rest.startswith("results/"):
            return name.removeprefix("docs/")
        case "configs", ".yaml":
            return f"presets/{rest}.md"
        case _, ".md" if not rest:
            return f"{folder.lower()}.md"
    return f"files/{name}.md"


@cache
def origins() -> dict[str, str]:
    """Map each page of the site that shows a file of the repository to that file."""
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "docs").glob("*.ipynb")]
    names = [str(file.relative_to(ROOT)) for file in [*pages, *(ROOT / "configs").rglob("*.yaml")]]
    names = [name for name in names if not name.startswith("docs/results/")]
    for name in names:  # and what they link to, also what that links to
        names += [link for link in links_of(name) if link not in names]
    return {page: name for name in sorted(names) if (page := page_of(name))}


def links_of(name: str) -> list[str]:
    """List the text files and directories of the repository that a page links to."""
    if not name.endswith(".md"):
        return []
    text = FENCED.sub("", (ROOT / name).read_text(encoding="utf-8"))
    places = dict.fromkeys(resolved(name, link[1]) for link in LINK.finditer(text))
    return [place for place in places if (ROOT / place).exists() and not place.endswith(".png")]


def resolved(name: str, target: str) -> str:
    """Return the path in the repository of a link on a page."""
    return posixpath.normpath(posixpath.join(posixpath.dirname(name), target))


def shown_as_it_is(uri: str) -> bool:
    """Return True for a file of docs/ that is a page or a picture of the site."""
    return page_of(f"docs/{uri}") == uri and not uri.startswith("results/")


# --- hooks ---


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Replace the files of docs/ by the pages of the site, and complete the navigation."""
    for stored in (origins, every_run, sheet_commands):  # `mkdocs serve` builds again
        stored.cache_clear()
    ours = [file for file in files if file.src_dir == config.docs_dir]  # the others are the theme's
    for file in ours:
        if not shown_as_it_is(file.src_uri):
            files.remove(file)
    for page, name in origins().items():
        if f"docs/{page}" != name:
            files.append(File.generated(config, page, content=text_of(name)))
    files.append(File.generated(config, "api.md", content=api_page()))
    files.append(File.generated(config, "presets/index.md", content=presets_page()))
    complete(config.nav or [], [file.src_uri for file in files.documentation_pages()])
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Turn links between files of the repository into links between pages."""
    uri = page.file.src_uri
    name = origins().get(uri)

    def link(match: re.Match[str]) -> str:
        target = page_of(resolved(name or "", match[1]))
        here = posixpath.dirname(uri) or "."
        return f"]({posixpath.relpath(target, here)}{match[2] or ''})" if target else match[0]

    parts = FENCED.split(markdown)
    for i in range(0, len(parts), 2):  # between fenced blocks; MkDocs indents nested lists by 4
        parts[i] = NESTED.sub(lambda match: match[0] * 2, parts[i])
        parts[i] = LINK.sub(link, parts[i]) if name else parts[i]
    return "".join(parts)


def complete(nav: list[Any], pages: Iterable[str]) -> None:
    """Add the pages that mkdocs.yml does not name to the section of their directory."""
    sections = {title: of_title for section in nav for title, of_title in section.items()}
    named = {page for of_title in sections.values() for page in of_title} | {sections["Home"]}
    directories: dict[str, list[str]] = {}
    for page in sorted(set(pages) - named):
        directories.setdefault(page.rpartition("/")[0], []).append(page)
    sections["Methods"] += directories.pop("", [])
    sections["Measured"] += directories.pop("measured", [])
    sections["Presets"] += directories.pop("presets")
    for directory, of_it in directories.items():
        inside = directory.removeprefix("presets/")
        sections["Presets" if inside != directory else "Reference"].append({inside: of_it})


# --- pages that are not Markdown in the repository ---


def text_of(name: str) -> str:
    """Return the page of a file or a directory in Markdown."""
    if (ROOT / name).is_dir():
        listed = sorted(file.name for file in (ROOT / name).iterdir())
        return "\n".join([f"# {name}", "", *(f"- {file}" for file in listed)])
    text = (ROOT / name).read_text(encoding="utf-8")
    match Path(name).suffix:
        case ".md":
            return text
        case ".ipynb":
            return "\n\n".join(cell for part in json.loads(text)["cells"] for cell in cells(part))
        case ".yaml" if name.startswith("configs/"):
            return preset_page(name, text)
    return f"# {name}\n\n{fenced(text, Path(name).suffix[1:])}\n"


def fenced(text: str, language: str = "") -> str:
    """Return a fenced block."""
    return f"```{language}\n{text.rstrip()}\n```"


def cells(cell: Mapping[str, Any]) -> Iterable[str]:
    """Yield the parts of a notebook's cell."""
    source = "".join(cell["source"])
    yield source if cell["cell_type"] == "markdown" else fenced(source, "python")
    for output in cell.get("outputs", ()):
        yield fenced("".join(output.get("text") or output["data"]["text/plain"]), "text")


def api_page() -> str:
    """Return the reference of what `import multitask` offers, and of the run that it loads."""
    lines = ["# The Python interface", "", "[Train from Python](python.md) has examples.", ""]
    places = {UserError.__name__: UserError.__module__, **multitask._LAZY}
    for name in sorted(places, key=lambda name: (name[0].isupper(), name)):
        lines += [f"::: {places[name]}.{name}", "    options:", f"      heading: multitask.{name}"]
    run = f"{multitask._LAZY['load']}.TrainedRun"
    return "\n".join([*lines, f"::: {run}", "    options:", "      heading: The trained run"])


# --- presets ---


def preset_page(name: str, text: str) -> str:
    """Return the page of a file of configs/: its comment, what it trains, its runs, its text."""
    comment = "".join(takewhile(lambda line: line[0] == "#", text.splitlines(keepends=True)))
    parts = [f"# {Path(name).stem}", f"`{name}`", in_markdown(comment)]
    with suppress(UserError):  # a grid, a layout or a part of a preset: nothing to train by itself
        config = load_config(ROOT / name)
        rows = trained_with(config)
        used = [i for i in range(len(TRAINED_HEADER)) if {row[i] for row in rows} != {"-"}]
        table = Table([TRAINED_HEADER[i] for i in used], [[row[i] for i in used] for row in rows])
        parts += ["## What it trains", table.markdown(), training_line(config)]
    parts += ["## The file", fenced(text[len(comment) :].lstrip(), "yaml")]
    return "\n\n".join([*parts, *stored_runs(name), *stored_sheets(name)]) + "\n"


def in_markdown(comment: str) -> str:
    """Return a comment of YAML as Markdown, its commands in blocks."""
    lines = [line.removeprefix("#").removeprefix(" ") for line in comment.splitlines()]
    parts = re.split(rf"((?:^ *{COMMAND}.*\n?)+)", "\n".join(lines), flags=re.MULTILINE)
    blocks = (re.sub(r"^ +", "", part, flags=re.MULTILINE) for part in parts)
    return "\n\n".join(
        fenced(block, "bash") if block.startswith(COMMAND) else block.strip() for block in blocks
    )


def stored_runs(name: str) -> list[str]:
    """Return the scores of the stored runs of a config, and the report of its first run."""
    rows, report = [], None
    for run, of_run in every_run():
        _, _, config, *words = shlex.split(run_command(of_run[0]))
        if config != name:
            continue
        changes = [word for word in words if not SAME_PRESET.match(word)]
        seeds = ", ".join(str(one.seed) for one in of_run)
        kind = "trial" if of_run[0].trial else "run"
        means = [one.overall.mean for one in of_run if one.overall.mean is not None]
        score = mean_and_sd(means) if means else "-"
        rows.append((run, kind, seeds, " ".join(changes) or "-", score))
        if not changes and report is None:
            report = of_run[0]
    if not rows:
        return []
    header = ("run", "kind", "seeds", "changes", "mean of the tasks' dev scores")
    return ["## Its stored runs", Table(header, rows).markdown(), *(report_of(report))]


def report_of(report: RunReport | None) -> list[str]:
    """Return the report of a stored run."""
    if report is None:
        return []
    tables = {
        "Dev scores": score_table(report),
        "All metrics": metric_table(report),
        "Data": data_table(report),
    }
    parts = [f"## Report of seed {report.seed}"]
    parts += [
        part for title, table in tables.items() for part in (f"### {title}", table.markdown())
    ]
    settings = "\n".join(f"- {message(line)}" for line in run_settings(report))
    return [*parts, "### Settings", fenced(run_command(report), "bash"), settings]


def stored_sheets(name: str) -> list[str]:
    """Return the stored tables of a grid, of a paper's layout or of a search."""
    parts = []
    for stored, words in sheet_commands().items():
        if name in words:
            parts += [f"## Measured: {Path(stored).name}", sheet(stored) or ""]
    return parts


@cache
def every_run() -> list[tuple[str, list[RunReport]]]:
    """Return the stored runs by name, the seeds of each in order; read once for all presets."""
    folders = ("", "contrastive", "trials")
    return [run for folder in folders for run in load_reports(RESULTS / folder).items()]


@cache
def sheet_commands() -> dict[str, list[str]]:
    """Return the words of each stored sheet's command; read once for all presets."""
    return {
        f"{folder}/{file.stem}": shlex.split(json.loads(file.read_text())["source"]["command"])
        for folder in ("grids", "papers")
        for file in sorted((RESULTS / folder).glob("*.json"))
    }


def presets_page() -> str:
    """Return a table per directory of configs/: the file, and what its comment says first."""
    parts = [
        "# Presets",
        "Each page has the file, what it trains, and the results that are stored.",
    ]
    directories: dict[str, list[str]] = {}
    for page, name in origins().items():
        if name.startswith("configs/"):
            directory, _, base = page.removeprefix("presets/").rpartition("/")
            link = f"[{base.removesuffix('.md')}]({page.removeprefix('presets/')})"
            row = f"| {link} | {first_sentence((ROOT / name).read_text(encoding='utf-8'))} |"
            directories.setdefault(directory, []).append(row)
    for directory, rows in sorted(directories.items()):
        parts += [f"## {directory}"] if directory else []
        parts.append("\n".join(["| preset | what |", "| --- | --- |", *rows]))
    return "\n\n".join(parts) + "\n"


def first_sentence(text: str) -> str:
    """Return the first sentence of a file's comment."""
    comment = " ".join(re.findall(r"^# ?(\S.*)", text, re.MULTILINE))
    return message(re.split(rf"(?<=\w[.:]) +|{COMMAND}", comment)[0].strip())
