"""Tables of grids and of papers."""

import json
import math
import statistics
from pathlib import Path

import pytest

from multitask.reporting.layout import load_layout
from multitask.sweep.grid import load_grid
from tests.conftest import ROOT
from tools.measured_docs import grid_tables
from tools.measured_docs.store import RESULTS

CONFIGS = ROOT / "configs"
PAPERS, GRIDS = (sorted((RESULTS / kind).glob("*.json")) for kind in ("papers", "grids"))


def test_our_half_of_a_papers_table_is_its_values_and_differences_alone():
    full, half = (
        write("papers/table2_minilm") for write in (grid_tables.sheet, grid_tables.summary)
    )
    assert "paper" in full and "paper" not in half.lower().replace("maxpoolbert", "")
    assert "seconds" not in half
    rows = [line for line in half.splitlines() if line.startswith("| ") and " ours |" in line]
    assert rows and all(line in full for line in rows if "[" in line and "p " in line)


def test_what_a_paper_prints_is_its_layout():
    """HIRE's Table 2 with the server's score; a column that the paper lacks is left out."""
    lines = grid_tables.printed("hire/table2").splitlines()
    row = next(line for line in lines if line.startswith("| RoBERTa+HIRE |"))
    assert row.startswith("| RoBERTa+HIRE | 68.6 | 97.1 | 93.0 | 90.7 | 74.3 |")
    assert row.endswith("| 88.3 |") and lines[0].endswith("| official average |")
    assert not [line for line in lines if "from MNLI |" in line]
    assert "STS-B Pe." not in grid_tables.printed("maxpoolbert/table2")
    curve = grid_tables.printed("maxpoolbert/table7").splitlines()
    assert curve[2] == "| k = 1 | 54.85 | 83.58 | 88.44 | 63.18 |"
    deviations = grid_tables.printed("maxpoolbert/table3").splitlines()
    assert deviations[2].startswith("| BERT base | 6.34 | 2.42 | 0.208 | ")
    assert deviations[4].startswith("| MHA | 4.30 | 2.10 | ") and "| 0.0809 |" in deviations[4]
    table_1 = grid_tables.printed("papers/layer_attention_table1")
    assert "| Avg |" in table_1 and " 76.90 |" in table_1


def test_groups_in_twos_are_tested_over_their_seeds():
    """By the formula: mean of the differences, Student's t with four degrees of freedom."""
    saved = grid_tables.load_sheet("grids/smart_pooling")
    scores = [row["cells"]["sts"]["values"] for row in saved["rows"][-2:]]
    gains = [after - before for before, after in zip(*scores, strict=True)]
    mean, error = statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(5)
    table, _, said = grid_tables.paired("grids/smart_pooling").partition("\n\n")
    assert said.startswith("- sst accuracy: not significant: ")
    line = table.splitlines()[-1]
    low, high = mean - 2.776445 * error, mean + 2.776445 * error
    assert line.startswith("| all\\_max-smart - all\\_max-plain |")
    assert f"| {mean:+.3f} [{low:+.3f}, {high:+.3f}] p " in line
    swapped = ":".join(row["name"] for row in saved["rows"][:-3:-1])
    (line,) = (
        grid_tables.paired(f"grids/smart_pooling:{swapped}").partition("\n\n")[0].splitlines()[2:]
    )
    assert line.startswith("| all\\_max-plain - all\\_max-smart |")
    assert f"| {-mean:+.3f} [{-high:+.3f}, {-low:+.3f}] p " in line


def test_the_effect_of_an_axis_is_a_mean_over_the_points_of_the_others():
    saved = json.loads((RESULTS / "grids" / "pooling.json").read_text())
    by_label = {
        label: [
            statistics.fmean(row["cells"]["sts"]["values"][seed] for row in saved["rows"]
                             if row["point"]["tasks.sts.pooling"] == label)
            for seed in range(3)
        ]
        for label in ("cls", "mean")
    }  # fmt: skip
    gains = [mean - cls for cls, mean in zip(by_label["cls"], by_label["mean"], strict=True)]
    reach = 4.302653 * statistics.stdev(gains) / math.sqrt(3)
    value = statistics.fmean(gains)
    table, _, said = grid_tables.effects("grids/pooling").partition("\n\n")
    (line,) = [one for one in table.splitlines() if "tasks.sts.pooling: mean - cls" in one]
    assert f"{value:+.3f} [{value - reach:+.3f}, {value + reach:+.3f}]" in line
    assert "- sts pearson: higher: " in said


def test_tasks_alone_are_each_compared_in_their_own_column():
    alone, all_tasks = (
        json.loads((RESULTS / "papers" / f"{name}.json").read_text())
        for name in ("minibert_table1", "minibert_table2")
    )
    joint = next(row for row in all_tasks["rows"] if row["name"] == "cls_cls_cls")
    text = grid_tables.together("papers/minibert_table1,papers/minibert_table2:cls_cls_cls")
    for row, column in zip(alone["rows"], alone["columns"], strict=True):
        value = joint["cells"][column]["mean"] - row["cells"][column]["mean"]
        assert f"{value:+.3f} [" in text.splitlines()[2]


def name_of(path: Path) -> str:
    return path.stem


@pytest.mark.parametrize("path", PAPERS, ids=name_of)
def test_a_stored_table_has_the_printed_values_of_its_layout(path):
    table = json.loads(path.read_text())
    (file,) = CONFIGS.rglob(path.with_suffix(".yaml").name)
    layout = load_layout(file)
    made = layout.paper.model_dump() if layout.paper else {}
    assert table["paper"] == {"source": layout.source, **made}
    for row in table["rows"]:
        wanted = layout.rows[row["name"]].printed if row["name"] in layout.rows else []
        for column, value in zip(layout.columns, wanted, strict=bool(wanted)):
            cell = row["cells"].get(column.title)
            assert column.mean or (cell and cell["printed"]) == value, row["name"]


COPIES = [path for path in sorted(CONFIGS.rglob("*_minilm.yaml")) if path.stem.count("table")]


@pytest.mark.parametrize("path", COPIES, ids=name_of)
def test_a_layout_for_minilm_repeats_values_of_the_papers_layouts(path):
    """Each value is one of the same column there; rows have other names, so they do not count."""
    ours = load_layout(path)
    theirs = [load_layout(file) for file in path.parent.glob("*table*.yaml") if file not in COPIES]
    known: dict[tuple[str, str], set[float | None]] = {}
    for layout in theirs:
        for row in layout.rows.values():
            for column, value in zip(layout.columns, row.printed, strict=bool(row.printed)):
                known.setdefault((column.task, column.metric), set()).add(value)
    for name, row in ours.rows.items():
        for column, value in zip(ours.columns, row.printed, strict=bool(row.printed)):
            found = known.get((column.task, column.metric), set())
            assert value is None or value in found, (name, column.title)


# what decides while it trains how much it trains has no plan to take the counts from
DECIDES = "while_train_score_below"


@pytest.mark.parametrize("path", GRIDS, ids=name_of)
def test_a_stored_grid_says_how_much_each_row_was_trained(path):
    stored = json.loads(path.read_text())
    words = stored["source"]["command"].split()
    probe = words[2] == "ablate" and load_grid(ROOT / words[3]).probe
    for row in stored["rows"]:
        unplanned = DECIDES in json.dumps(row["settings"])
        assert (None in (row.get("updates"), row.get("trained_rows"))) == bool(probe or unplanned)


@pytest.mark.parametrize("path", PAPERS, ids=name_of)
def test_a_stored_table_says_how_much_each_row_was_trained(path):
    for row in json.loads(path.read_text())["rows"]:
        for cell in row["cells"].values():
            if cell["values"]:
                assert cell["updates"] > 0 and cell["trained_rows"] >= cell["updates"]
