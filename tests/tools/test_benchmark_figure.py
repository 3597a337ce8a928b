"""The figure of docs/performance.md shows the ratios of the saved tables."""

from tools import benchmark_figure
from tools.benchmark_tables import TABLES, read_rows


def test_each_row_of_a_table_is_a_bar(monkeypatch):
    figures = []
    monkeypatch.setattr(benchmark_figure, "save_figure", lambda figure, _: figures.append(figure))
    benchmark_figure.main()
    (figure,) = figures
    panels = dict(zip(benchmark_figure.PANELS.items(), figure.axes, strict=True))
    for (name, (column, title)), axes in panels.items():
        ratios = [float(row[column]) for row in read_rows(TABLES / f"{name}.md")]
        assert axes.get_title(loc="left") == title
        assert [bar.get_width() for bar in axes.patches] == ratios
        grid = [line for line in axes.get_ygridlines() if line.get_visible()]
        assert not grid  # it would cross the numbers at the bars
