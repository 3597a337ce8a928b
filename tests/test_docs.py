"""Every command that README.md and docs/ show is run, on a tiny encoder and small data.

A grid of single-task runs trains its cells on one or two of its tasks, with one seed.
"""

import json
import re
import shlex
import subprocess
from importlib.util import find_spec
from pathlib import Path
from shutil import which

import pytest

import run_multitask
from multitask.config import load_config
from multitask.config.registry import build
from multitask.config.yaml_merge import load_extended
from multitask.sweep.grid import load_grid
from multitask.utils.names import PACKAGED_ENCODER
from tests.conftest import ROOT, save_tiny_encoder
from tests.support.contrastive_run import write_triplets
from tests.support.dnlp_files import write_dnlp
from tests.support.glue_files import write_glue, write_shared
from tests.support.sts_files import write_suites

DOCS = sorted({*(ROOT / "docs").glob("*.md")} - {ROOT / "docs" / "README.md"})
MEASURED = sorted((ROOT / "docs" / "measured").glob("*.md"))  # what the short pages link to
PAGES = [ROOT / "README.md", ROOT / "docs" / "README.md", *DOCS, *MEASURED]
PYTHON = "python run_multitask.py "
PROGRAM = rf"(?:{re.escape(PYTHON)}|multitask )"  # the installed command is the same program
# the tiny encoder's vectors have 32 numbers
NARROWER = {"[384, 192, 96]": "[32, 16, 8]", "--dim 96": "--dim 8"}
SUITES = ["sts12", "sts13", "sts14", "sts15", "sts16", "sick_r"]


def commands(page: Path) -> list[str]:
    """Each distinct command of the program on a page, in fenced blocks or in `code`."""
    text = re.sub(r"<!-- measured.*?<!-- end -->", "", page.read_text(), flags=re.DOTALL)
    blocks = re.findall(r"```bash\n(.*?)```", text, re.DOTALL)
    lines = [line.partition(" #")[0].strip() for block in blocks for line in block.splitlines()]
    inline = re.findall(rf"`({PROGRAM}[^`]+)`", re.sub(r"```.*?```", "", text, flags=re.DOTALL))
    if page.name == "results.md":
        inline = []  # the measured runs: hours, not seconds; the reports beside it are their proof
    return list(dict.fromkeys(line for line in lines + inline if re.match(PROGRAM, line)))


@pytest.fixture
def desk(tmp_path: Path, course_files: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A student's directory: the project's configs, the course's files, STS suites and GLUE's."""
    suites = course_files.parent / "sts"  # beside the course's files, as a config has them
    if not suites.is_dir():
        write_suites(suites)
    if not (triplets := course_files.parent / "nli").is_dir():
        triplets.mkdir()
        write_triplets(triplets, rows=120)
    (tmp_path / "sts").symlink_to(suites)
    (tmp_path / "configs").symlink_to(ROOT / "configs")
    (tmp_path / "data").symlink_to(course_files)
    write_glue(tmp_path / "GLUE-DIR")
    (tmp_path / "DATA-DIR").mkdir()
    write_shared(tmp_path / "DATA-DIR")
    for edition, name in (("dnlp_minilm", "dnlp"), ("dnlp_2024", "dnlp-2024")):
        (tmp_path / name).mkdir()
        write_dnlp(tmp_path / name, edition)
        train = (tmp_path / name / "etpc-paraphrase-train.csv").read_text().splitlines()
        (tmp_path / name / "etpc-dev.csv").write_text("\n".join(train[:11]) + "\n")
    mine = tmp_path / "my-bert" / "predictions" / "bert" / "multitask"
    mine.mkdir(parents=True)
    rows = (tmp_path / "dnlp" / "sst-sentiment-dev.csv").read_text().splitlines()[1:]
    lines = ["id,Predicted_Sentiment", *(f"{row.split(',')[0]}\t2" for row in rows)]
    (mine / "sst-sentiment-dev-output.csv").write_text("\n".join(lines) + "\n")
    (tmp_path / "cluster.sh").write_text("export WANDB_MODE=offline\n")
    (tmp_path / "mine.txt").write_text("a good film\na bad film\n")
    monkeypatch.chdir(tmp_path)
    # all of `serve` but the waiting, which tests/serve does
    monkeypatch.setattr("multitask.inference.serve.server.serve", lambda *_: None)
    return tmp_path


def shortened(command: str, tiny_encoder: Path) -> list[str]:
    """The command with a tiny encoder and three steps; all else as it stands."""
    for wide, narrow in NARROWER.items():
        command = command.replace(wide, narrow)
    arguments = shlex.split(re.sub(rf"^{PROGRAM}", "", command))
    if arguments[0] in ("evaluate", "predict", "report", "importance", "export", "table", "score"):
        return arguments
    if arguments[0] == "serve":
        return [*arguments, "--port", "0"]
    if arguments[0] in ("attention", "sts", "index", "search", "evaluate-search"):
        return [str(tiny_encoder) if word == PACKAGED_ENCODER else word for word in arguments]
    names = ["sst", "qqp", "sts"]
    if arguments[0] == "ablate":  # a few of its runs, in the directory of the whole grid
        grid = Path(arguments[1])
        tasks = [cell.task for cell in load_grid(grid).cells if cell.task]
        cells = "grid:\n  tasks.sst.pooling: [cls, mean]\n"
        cells += "  tasks.qqp.pooling: [mean]\n  tasks.sts.pooling: [mean]\n"
        for key, values in (load_extended(grid).value.get("grid") or {}).items():
            if isinstance(values, list) and not key.endswith(".pooling"):
                cells += f"  {key}: [{json.dumps(values[0])}]\n"
        small = f"extends: {grid}\nseeds: [1]\nbaseline: null\n{cells}"
        if grid.parent.name == "papers" or grid.stem.startswith("layer_attention"):
            small = f"extends: {grid}\nseeds: [1]\n"  # all its cells: a table asks for them
            loaded = load_grid(grid, [word for word in arguments if "=" in word])
            names = list(loaded.config(loaded.cells[0], 1, Path()).tasks)
        # named cells, which a file cannot take away again
        elif grid.stem in ("poolers_probe", "bitlinear"):
            probe = str(load_grid(grid).probe).lower()
            small = f"base: configs/cs224n_minilm.yaml\nprobe: {probe}\nseeds: [1]\n{cells}"
        if any("-DIR" in word for word in arguments):
            names = NEEDED[grid.parent.name, grid.stem]
            chosen = f"tasks: [{', '.join(names)}]\n" if tasks else ""
            small = f"extends: {grid}\nseeds: [1]\n{chosen}"
        Path("small.yaml").write_text(small)
        into = [] if "--output" in arguments else ["--output", f"runs/{grid.stem}"]
        arguments = ["ablate", "small.yaml", *arguments[2:], *into]
    elif arguments[0] == "tune":
        Path("small.yaml").write_text(f"extends: {arguments[1]}\ntrials: 2\n")
        arguments = ["tune", "small.yaml", *arguments[2:]]
    else:
        (file, *_) = [word for word in arguments if word.endswith(".yaml")]
        names = list(load_config(file, [word for word in arguments if "=" in word]).tasks)
    lengths = [f"tasks.{name}.max_length=48" for name in names]
    extra = [f"encoder.name={tiny_encoder}", *lengths, "training.frozen_baseline=false"]
    return [*arguments, *extra, "training.max_steps=3"]


# of a grid of single-task runs the tasks that later commands of its page need
NEEDED = {
    ("maxpoolbert", "glue"): ["rte"],
    ("maxpoolbert", "minilm"): ["wnli"],
    ("maxpoolbert", "minilm_5"): ["rte"],
    ("hire", "glue"): ["rte"],
    ("hire", "minilm"): ["cola"],
    ("hire", "minilm_5"): ["mrpc", "rte"],
    ("glue", "from_snli_minilm"): ["rte"],
}
# left out: what needs data that is not at hand (the hub; CFIMDB and topic files; `DIR`)
ABSENT = (
    "cs224n_hub.yaml",
    "minibert_hub.yaml",
    "papers/layer_attention_table1.yaml",
    "cs224n_cfimdb.yaml",
    "bert_from_scratch_sst2.yaml",
    "glue/hub",
    "my_topics.yaml",
    "=DIR",
    "CONFIG",
    " RUN",
)


def is_too_long(command: str) -> bool:
    """Return True for a grid on GLUE whose runs no later command of its page needs."""
    words = shlex.split(command)
    if "-DIR" not in command or "ablate" not in words:
        return False
    grid = Path(words[words.index("ablate") + 1])
    return (grid.parent.name, grid.stem) not in NEEDED


def needs_more(command: str) -> bool:
    """Return True if a command needs a library or a cluster that is not here."""
    packages = {
        " serve ": "flask",
        "--format onnx": "onnx onnxruntime onnxscript",
        "--format s": "sentence_transformers",
        "--engine ray": "ray",
        " tune ": "optuna",
        "runs/tune": "optuna",  # reads what a search wrote
    }
    if "--address " in command or ("--engine slurm" in command and not has_slurm()):
        return True
    return any(
        find_spec(package) is None
        for words, needed in packages.items()
        if words in command
        for package in needed.split()
    )


def has_slurm() -> bool:
    """Return True if a SLURM cluster answers."""
    return bool(which("sinfo")) and subprocess.run(["sinfo"], capture_output=True).returncode == 0


@pytest.fixture(scope="module")
def six_layers(tmp_path_factory) -> Path:
    """A tiny encoder with as many layers as MiniLM, which the pages' options count on."""
    return save_tiny_encoder(tmp_path_factory.mktemp("six"), num_hidden_layers=6)


SLOW = [pytest.param(page, marks=pytest.mark.slow) for page in (*DOCS, *MEASURED)]
RUN = [ROOT / "README.md", *SLOW]  # docs/README.md repeats commands of the others


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_of_a_page_run_in_order(page, desk, six_layers, capsys):
    for command in commands(page):
        if any(word in command for word in ABSENT) or needs_more(command) or is_too_long(command):
            continue
        if " table " in command and not all(map(Path.exists, reads(command))):
            continue  # of a grid that is left out; another test looks at what it reads
        assert run_multitask.main(shortened(command, six_layers)) == 0, (
            command,
            capsys.readouterr().err,
        )


def reads(command: str) -> list[Path]:
    """Return the directories of runs that a `table` command reads."""
    words = shlex.split(command.partition(" --output ")[0])
    return [Path(word) for word in words[words.index("table") + 2 :]]


def writes(command: str) -> str:
    """Return the directory that an `ablate` command writes."""
    words = shlex.split(command)
    if "--output" in words:
        return words[words.index("--output") + 1]
    return f"runs/{Path(words[words.index('ablate') + 1]).stem}"


def test_every_table_of_a_page_reads_what_a_grid_of_the_pages_writes():
    every = [command for page in PAGES for command in commands(page)]
    written = {writes(command) for command in every if " ablate " in command}
    tables = [command for command in every if " table " in command]
    assert len(tables) > 15
    for command in tables:
        assert {str(path) for path in reads(command)} <= written, command


HEADERS = [
    (file, line)
    for file in sorted((ROOT / "configs").rglob("*.yaml"))
    for line in re.findall(rf"^# +({PYTHON}.*)$", file.read_text(), re.MULTILINE)
]


def test_the_commands_in_the_headers_of_configs_are_commands():
    assert len(HEADERS) > 100
    for file, line in HEADERS:
        first, *rest = words = shlex.split(line.removeprefix(PYTHON).partition(" #")[0])
        if first not in run_multitask.COMMANDS:
            first, rest = "train", words
        run_multitask.command_parser(first).parse_intermixed_args(rest)  # exits where it is wrong
        configs = [word for word in words if word.startswith("configs/")]
        assert all((ROOT / word).is_file() for word in configs), (file, line)


ON = re.compile("--engine| tune ")
ON_ENGINES = [line for page in PAGES for line in commands(page) if ON.search(line)]


@pytest.mark.engines
@pytest.mark.parametrize("command", dict.fromkeys(ON_ENGINES))
def test_commands_with_an_engine_run(command, desk, six_layers):
    """Where the engines are installed only after the slow tests, as in CI."""
    if needs_more(command):
        pytest.skip("its engine is not here")
    assert run_multitask.main(shortened(command, six_layers)) == 0


def test_the_table_of_all_pages_names_commands_and_configs_that_there_are():
    text = (ROOT / "docs" / "README.md").read_text()
    rows = re.findall(r"^\| .* \| `multitask (.*)` \| \[.*\) \|$", text, re.MULTILINE)
    assert len(rows) >= 20
    for row in rows:
        first, *rest = words = shlex.split(row)
        if first not in run_multitask.COMMANDS:
            first, rest = "train", words
        run_multitask.command_parser(first).parse_intermixed_args(rest)  # exits where it is wrong
        for word in words:
            if word.endswith(".yaml") and "/my_" not in word:
                assert (ROOT / word).is_file(), row


def test_the_pages_hold_commands():
    assert len(commands(ROOT / "README.md")) >= 3
    assert len(commands(ROOT / "docs" / "cs224n.md")) >= 12
    assert len(commands(ROOT / "docs" / "bert-from-scratch.md")) >= 4
    assert len(commands(ROOT / "docs" / "sts.md")) >= 5
    assert len(commands(ROOT / "docs" / "search.md")) >= 7
    for page in ("maxpoolbert.md", "hire.md"):
        assert len(commands(ROOT / "docs" / "measured" / page)) >= 5


def sections(page: Path) -> list[str]:
    """Split a page before each `## `; its measured blocks and code stay whole."""
    kept = r"<!-- measured.*?<!-- end -->|```.*?```"
    text = re.sub(kept, lambda match: match[0].replace("\n", "\0"), page.read_text(), flags=re.S)
    return [part.replace("\0", "\n") for part in re.split(r"^(?=## )", text, flags=re.M)]


def longest_measured_table(section: str) -> int:
    """Return the number of rows of the longest measured table, 0 if there is none."""
    blocks = re.findall(r"<!-- measured.*?<!-- end -->", section, re.DOTALL)
    tables = [table for block in blocks for table in re.findall(r"(?:^\|.*\n)+", block, re.M)]
    return max((table.count("\n") - 2 for table in tables), default=0)  # without its header


METHODS = [page for page in DOCS if ROOT / "docs" / "measured" / page.name in MEASURED]


@pytest.mark.parametrize("page", METHODS, ids=lambda page: page.name)
def test_a_page_with_measurements_answers_first(page):
    """Its first generated block is on the first screen, and all tables are on another page."""
    lines = page.read_text().splitlines()
    first = next(n for n, line in enumerate(lines) if line.startswith("<!-- measured: "))
    assert first < 20 and len(lines) <= 250
    assert f"measured/{page.name}" in page.read_text()


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_a_page_opens_with_a_command(page):
    opening = sections(page)[0]
    assert re.search(rf"^```(bash|python)$|`{PROGRAM}", opening, re.MULTILINE)
    assert longest_measured_table(opening) <= 10


@pytest.mark.parametrize("page", DOCS, ids=lambda page: page.name)
def test_long_measured_tables_follow_the_text(page):
    """After a section with a measured table of over ten rows, each has a measured block."""
    parts = sections(page)
    long = [place for place, part in enumerate(parts) if longest_measured_table(part) > 10]
    after = parts[long[0] :] if long else []
    assert [part.partition("\n")[0] for part in after if "<!-- measured" not in part] == []


def test_make_demo_runs_the_demo_config():
    assert "run_multitask.py configs/demo.yaml --overwrite" in (ROOT / "Makefile").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_of_a_page_resolve(page):
    for target in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        if not target.startswith("http"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize("page", ["training.md", "stages.md"])
def test_yaml_of_the_training_pages_is_valid(page, tmp_path):
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    assert blocks
    for block in blocks:
        complete = "tasks:" in block and "stages:" not in block
        preset = "" if complete else f"extends: {ROOT / 'configs' / 'cs224n.yaml'}\n"
        file = tmp_path / "page.yaml"
        file.write_text(preset + block)
        assert load_config(file).tasks


@pytest.mark.parametrize("page", ["maxpoolbert.md", "hire.md"])
def test_yaml_of_the_poolers_pages_is_valid(page, tmp_path):
    text = (ROOT / "docs" / page).read_text()
    blocks = re.findall(r"```yaml\n(.*?)```", text, re.DOTALL)
    (block,) = [block for block in blocks if block.startswith("tasks:")]
    file = tmp_path / "page.yaml"
    file.write_text(f"extends: {ROOT / 'configs' / 'cs224n_minilm.yaml'}\n{block}")
    tasks = load_config(file).tasks
    for task in tasks.values():
        options = task.pooling.options
        made = build("pooling", task.pooling.name, options, {"dim": 384, "num_layers": 6})
        assert max(made.layers) == 6
    assert tasks["sst"].pooling.name in ("max_seq_mha", "hire")
