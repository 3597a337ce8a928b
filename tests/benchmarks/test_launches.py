"""The table of launches and waits, on a small encoder; the limits are in tests/runs."""

import pytest

from benchmarks import launches, synthetic
from tools.benchmark_tables import TABLES, read_rows


@pytest.mark.slow
def test_the_table_of_a_small_encoder(tmp_path, monkeypatch):
    data = synthetic.write_rows(tmp_path / "data", launches.ROWS)
    encoder = str(synthetic.write_encoder(tmp_path / "encoder", "toy"))
    names = ("launches: one task, fp32", "launches: joint")
    chosen = {name: launches.LAUNCHES[name] for name in names}
    monkeypatch.setattr(launches, "LAUNCHES", chosen)
    rows = launches.rows(launches.Files(data, encoder, tmp_path))
    table = {what: (loop, ours) for what, _, loop, ours in rows}
    # the loop's: its loss, and `transformers` asks if the mask has pads
    assert table["waits: one task"] == ("2", "1")
    assert table["waits: joint with PCGrad"][1] == "2"
    assert table["waits: HIRE for SST"][1] == "1 to 3"  # QQP's and STS's steps read no lengths
    one, joint = (int(table[name][1].split()[0].replace(",", "")) for name in names)
    assert 100 < one < joint


def test_the_stored_table_has_every_row():
    stored = {row["per step"] for row in read_rows(TABLES / "launches.md")}
    assert stored == {*launches.LAUNCHES, *launches.WAITS}
