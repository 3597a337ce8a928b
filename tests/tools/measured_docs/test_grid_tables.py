"""Tables of grids and of papers."""

import json
import math
import statistics

from tools.measured_docs import grid_tables


def test_our_half_of_a_papers_table_is_its_values_and_differences_alone():
    full, half = grid_tables.paper("table2_minilm"), grid_tables.ours("table2_minilm")
    assert "paper" in full and "paper" not in half.lower().replace("maxpoolbert", "")
    assert "seconds" not in half
    rows = [line for line in half.splitlines() if line.startswith("| ") and " ours |" in line]
    assert rows and all(line in full for line in rows if "[" in line and "p " in line)


def test_a_partial_grid_says_so_on_the_papers_page(tmp_path, monkeypatch):
    monkeypatch.setattr(grid_tables, "GRIDS", tmp_path)
    entry = {"mean": 0.5, "sd": 0.01}
    result = {
        "groups": [{"name": "multitask", "tasks": {"sst": entry}}],
        "notes": ["Interrupted: 1 of 18 runs are finished."],
        "source": {"command": "c", "commits": ["abc1234"], "runs": 1, "minutes": 2},
    }
    (tmp_path / "multitask_minibert.json").write_text(json.dumps(result))
    tables = grid_tables.minibert("")
    assert "| MultiTask BERT | 0.480 | 0.500 ± 0.010 | 0.835 | - |" in tables
    assert "\n\n- Interrupted: 1 of 18 runs are finished.\n\n`c`, commit abc1234" in tables


def test_groups_in_twos_are_tested_over_their_seeds():
    """By the formula: mean of the differences, Student's t with four degrees of freedom."""
    saved = json.loads((grid_tables.GRIDS / "smart_pooling.json").read_text())
    scores = [group["tasks"]["sts"]["values"] for group in saved["groups"][-2:]]
    gains = [after - before for before, after in zip(*scores, strict=True)]
    mean, error = statistics.fmean(gains), statistics.stdev(gains) / math.sqrt(5)
    table, _, said = grid_tables.paired("smart_pooling").partition("\n\n")
    assert said.startswith("- sst accuracy: none significant, the intervals allow ")
    line = table.splitlines()[-1]
    low, high = mean - 2.776445 * error, mean + 2.776445 * error
    assert line.startswith("| all\\_max-smart - all\\_max-plain |")
    assert f"| {mean:+.3f} [{low:+.3f}, {high:+.3f}] p " in line
