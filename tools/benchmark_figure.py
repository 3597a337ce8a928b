"""Draw the figure of docs/performance.md from the saved tables of the benchmarks.

    python -m tools.benchmark_figure

A bar shows useful tokens (or sentences) per second, relative to the peer that the panel's title
names. Our bars are blue.
"""

from multitask.reporting.figures.style import BLUE, GREY, new_figure, quiet_frame, save_figure
from tools.benchmark_tables import DOCS, TABLES, read_rows

# table: its column with the ratio, the panel's title
PANELS = {
    "training_step": ("x loop", "A training step, x a plain transformers loop"),
    "trainers": ("x the peer's default", "Whole trainers, x the peer's default"),
    "encode": ("x sentence-transformers", "Text to vectors, x sentence-transformers"),
}


def main() -> None:
    tables = {name: read_rows(file) for name in PANELS if (file := TABLES / f"{name}.md").is_file()}
    figure = new_figure(8.0, 1.0 + 0.3 * sum(len(rows) + 2 for rows in tables.values()))
    heights = [len(rows) + 1 for rows in tables.values()]
    panels = figure.subplots(len(tables), 1, height_ratios=heights, squeeze=False)[:, 0]
    for axes, (name, rows) in zip(panels, tables.items(), strict=True):
        column, title = PANELS[name]
        labels = [": ".join(row[k] for k in row if k in ("work", "trainer", "step", "encode"))
                  for row in rows]  # fmt: skip
        ratios = [float(row[column]) for row in rows]
        colours = [BLUE if label.split(": ")[-1].startswith("ours") else GREY for label in labels]
        bars = axes.barh(labels, ratios, color=colours)
        axes.bar_label(bars, fmt="%.1f", padding=3, fontsize=9)
        axes.invert_yaxis()
        axes.set_title(title, fontsize=11, loc="left")
        quiet_frame(axes, across=True)
    save_figure(figure, DOCS / "images" / "performance.png")


if __name__ == "__main__":
    main()
