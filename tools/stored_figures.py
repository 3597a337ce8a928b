"""Draw the figures of the docs whose numbers are in docs/results/.

    python -m tools.stored_figures

The figures that need a run (README's learning curves, attention, the page of `serve`) are copied to
docs/images/ by hand, from the run that the page names.
"""

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from multitask.reporting.figures import style
from multitask.reporting.figures.curves import draw_domains, draw_layers, draw_space
from multitask.reporting.figures.dots import draw_gains, draw_scores
from multitask.reporting.figures.maps import (
    Importance,
    draw_examples,
    draw_tasks,
    in_groups,
    load_groups,
)
from tools import benchmark_figure
from tools.measured_docs.run_tables import load_reports
from tools.measured_docs.store import DOCS, RESULTS, ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# the differences of a grid or of a paper's table, by the name of the image
GAINS = {
    "bitlinear-gain": "grids/bitlinear",
    "hire-gain": "papers/table1_minilm",
    "layer-attention-gain": "papers/layer_attention_table1_minilm",
    "minibert-gain": "papers/minibert_table2",
    "maxpoolbert-gain": "papers/table2_minilm",
    "pals-gain": "grids/adapters",
    "smart-gain": "grids/smart",
}


def figures() -> "dict[str, Figure]":
    """Return the figures by the name of the image."""
    stored = [_stored(f"layers/{name}") for name in ("packaged-minilm", "mlm-1")]
    encoders = {one["of"]: one["suites"] for one in stored}
    space = draw_space(_stored("space/simcse-reinit-1")["events"], [])
    assert space, "no evaluation has the space"
    return {name: draw_gains(_stored(sheet)) for name, sheet in GAINS.items()} | {
        "conflict": conflict(),
        "hire-examples": draw_examples(_importances("hire_sst2")[0], "sst2"),
        "hire-importance": hire_importance(),
        "layer-attention-sentences": sentences(),
        "maxpoolbert-k": draw_scores(_stored("papers/table7_minilm")),
        "space": space,
        "sts-layers": draw_layers(encoders),
        "sts-domains": draw_domains(encoders),
    }


def hire_importance() -> "Figure":
    """Draw HIRE's Figure 2 as `importance --groups` does."""
    entries = _importances("hire_importance") + _importances("hire_sst2")
    groups = load_groups(ROOT / "configs" / "hire" / "figure2.yaml")
    order, names = in_groups([entry.task for entry in entries], groups)
    rows = [entries[place] for place in order]
    return draw_tasks(rows, [row.task for row in rows], names)


def sentences() -> "Figure":
    """Draw the sentences of the paper's Figure 3: (a) with the last layer's [CLS], (b) without."""
    named = {"cls_all+avg_all+cls_last": "(a)", "cls_all+avg_all": "(b)"}
    runs = _stored("importance/layer_attention_sentences")["entries"]
    first, *_ = entries = _importances("layer_attention_sentences")
    which = [named[run["run"].split("/")[-2]] for run in runs]
    pairs = [*zip(which, entries, strict=True)]
    every = replace(
        first,
        texts=[f"{letter} {text}" for letter, entry in pairs for text in entry.texts],
        weights=[weights for entry in entries for weights in entry.weights],
    )
    return draw_examples(every, "sts")


def conflict() -> "Figure":
    """Draw the mean cosine between the gradients of each two tasks, a dot per run."""
    runs = [found for report in load_reports()["joint"] if (found := report.conflict)]
    figure, (axes,) = style.panels(["Below 0 the tasks pull apart"], (6.5, 2.4))
    for place, pair in enumerate(runs[0]):
        means = [run[pair].mean for run in runs]
        axes.plot(means, [place] * len(means), **style.LOOKS["seed"], label="one seed")
        axes.plot([sum(means) / len(means)], [place], **style.LOOKS["mean"], label="mean")
    axes.axvline(0, **style.LOOKS["zero"])
    axes.set_yticks(range(len(runs[0])), [pair.replace("-", " and ") for pair in runs[0]])
    axes.set_ylim(len(runs[0]) - 0.5, -0.5)
    axes.set_xlabel("mean cosine of the encoder's gradients in a run")
    style.quiet_frame(axes, across=True)
    style.legend_below(figure)
    return figure


def _importances(name: str) -> list[Importance]:
    return [
        Importance(**{key: value for key, value in entry.items() if key != "run"})
        for entry in _stored(f"importance/{name}")["entries"]
    ]


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    for name, figure in figures().items():
        style.save_figure(figure, DOCS / "images" / f"{name}.png")
    benchmark_figure.main()


if __name__ == "__main__":
    main()
