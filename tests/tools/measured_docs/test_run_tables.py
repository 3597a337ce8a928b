"""Tables of single runs."""

import json

from multitask.store.saved import Agreement, RunReport
from tools.measured_docs import run_tables


def test_runs_that_are_still_to_do_are_named(monkeypatch):
    planned, reports = run_tables.planned_runs(), run_tables.load_reports()
    assert {"siamese", "best", "pals"} <= set(planned)
    done = dict.fromkeys(planned, reports["siamese"])
    monkeypatch.setattr(run_tables, "load_reports", lambda _: done)
    assert "Not measured yet" not in run_tables.runs("")
    del done["best"], done["pals"]
    assert run_tables.runs("").endswith(" |\n\nNot measured yet: best, pals.\n")


def test_a_preset_is_a_row_with_what_its_command_changes():
    _, _, *rows = run_tables.presets("").splitlines()
    settings = [row.split(" | ")[0].removeprefix("| ") for row in rows]
    assert len(set(settings)) == len(settings) > 5
    assert "`configs/cs224n_minilm.yaml training.combine=joint`" in settings
    assert not any("seed=" in setting or "data_dir=" in setting for setting in settings)
    means = [row.split(" | ")[-1] for row in rows]
    assert means == sorted(means, reverse=True)
    every = run_tables.runs("")
    assert all(" | ".join(row.split(" | ")[2:]) in every for row in rows)  # the scores


def test_the_conflict_of_several_seeds(monkeypatch):
    def report(mean, below, measured):
        agreement = {"a-b": Agreement(mean=mean, below_0=below, measured=measured)}
        return RunReport(seed=1, selection_split="dev", tasks={}, conflict=agreement)

    result = {"joint": [report(0.1, 0.5, 10), report(-0.1, 1.0, 30)]}
    monkeypatch.setattr(run_tables, "load_reports", lambda: result)
    assert "| a-b | 0.000 ± 0.141 | 88 % | 40 |" in run_tables.conflict("joint")


def test_a_folder_of_runs_has_its_baselines_and_beats_the_trivial_ones():
    scores, _, sources = run_tables.runs("trials").partition("\n\n")
    reports = run_tables.load_reports(run_tables.RESULTS / "trials")
    assert len(scores.splitlines()) == 2 + 2 * len(reports) > 2
    assert len(sources.splitlines()) == 2 + sum(map(len, reports.values()))
    for report in [report for of_run in reports.values() for report in of_run]:
        assert report.trial
        for task in report.tasks.values():
            assert task.score > (task.baselines.trivial[task.metric] or 0)
    header, _, first, *_ = run_tables.runs("contrastive").splitlines()
    assert "acc." not in header and first.count("|") == header.count("|")  # of its tasks alone


def test_the_last_layer_is_next_to_the_best_layer_below_it(tmp_path, monkeypatch):
    scores = {"cls": [None, 0.2, 0.5], "mean": [0.7, 0.3, 0.6], "first-last mean": 0.65}
    saved = {"of": "small", "suites": {"STS12": {"all": scores, "subsets": {}}}}
    (tmp_path / "small.json").write_text(json.dumps(saved))
    monkeypatch.setattr(run_tables, "LAYERS", tmp_path)
    header, _, row = run_tables.layers("small").splitlines()
    assert header.endswith("| cls | mean | first-last mean |")
    assert row == "| STS12 | 50.00 (20.00) | 60.00 (70.00) | 65.00 |"
