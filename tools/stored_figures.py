"""Draw the figures of the docs whose numbers are in docs/results/.

    python -m tools.stored_figures

The figures that need a run (learning curves, gradients, the space, attention, the page of `serve`)
are copied to docs/images/ by hand, from the run that the page names.
"""

import json
from typing import TYPE_CHECKING, Any

from multitask.reporting.figures.curves import draw_domains, draw_layers
from multitask.reporting.figures.dots import draw_gains, draw_scores
from multitask.reporting.figures.maps import Importance, draw_tasks, in_groups, load_groups
from multitask.reporting.figures.style import save_figure
from tools import benchmark_figure
from tools.measured_docs.store import DOCS, RESULTS, ROOT

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def figures() -> "dict[str, Figure]":
    """Return the figures by the name of the image."""
    layers, trained = _stored("layers/packaged-minilm"), _stored("layers/mlm-1")
    return {
        "hire-importance": hire_importance(),
        "sts-layers": draw_layers({one["of"]: one["suites"] for one in (layers, trained)}),
        "sts-domains": draw_domains(layers["suites"], layers["of"]),
        "maxpoolbert-gain": draw_gains(_stored("papers/table2_minilm")),
        "maxpoolbert-k": draw_scores(_stored("papers/table7_minilm")),
    }


def hire_importance() -> "Figure":
    """Draw HIRE's Figure 2 as `importance --groups` does."""
    entries = [
        Importance(**{key: value for key, value in entry.items() if key != "run"})
        for entry in _stored("importance/hire_importance")["entries"]
    ]
    groups = load_groups(ROOT / "configs" / "hire" / "figure2.yaml")
    order, names = in_groups([entry.task for entry in entries], groups)
    rows = [entries[place] for place in order]
    return draw_tasks(rows, [row.task for row in rows], names)


def _stored(name: str) -> Any:
    return json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))


def main() -> None:
    for name, figure in figures().items():
        save_figure(figure, DOCS / "images" / f"{name}.png")
    benchmark_figure.main()


if __name__ == "__main__":
    main()
