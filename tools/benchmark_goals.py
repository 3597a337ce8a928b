"""Compare the tables of the benchmarks with the goals that we had set.

The goals were set before measuring, from the numbers of a prototype. Those of SMART follow from the
arithmetic of docs/measured/smart.md.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from multitask.reporting.table_formats import markdown_table
from tools.benchmark_tables import TABLES, read_rows

KERNELS = ", compiled kernels"


@dataclass(frozen=True)
class Goal:
    """A goal for one number of a saved table."""

    what: str  # what is measured, as the table of goals says it
    table: str  # name of the saved table
    cells: Mapping[str, str]  # cells that identify the row, by column
    column: str  # column of the number
    reach: float  # the goal
    stretch: float | None = None  # a more ambitious goal
    kernels: bool = False  # True if the table has the same row with the compiled kernels, too
    from_above: bool = False  # True if less is better

    def value(self, kernels: bool) -> float | None:
        """Return the number in the saved table; None if there is no such row."""
        (name, cell), *others = self.cells.items()
        wanted = {name: cell + KERNELS * kernels, **dict(others)}
        rows = [r for r in read_rows(TABLES / f"{self.table}.md") if wanted.items() <= r.items()]
        return float(rows[0][self.column]) if rows else None

    def judged(self, value: float) -> str:
        """Say how a number compares with the goal, such as ``3.20: stretch``."""
        sign = -1 if self.from_above else 1
        for name, goal in (("stretch", self.stretch), ("reached", self.reach)):
            if goal is not None and sign * value >= sign * goal:
                return f"{value:.2f}: {name}"
        return f"{value:.2f}: missed"


def _trainer(peer: str, work: str, reach: float, stretch: float, best: bool = False) -> Goal:
    how, column = (" at its best", "x its best") if best else ("", "x the peer's default")
    cells = {"trainer": "ours, bf16", "work": work}
    return Goal(f"x {peer}{how}, {work}", "trainers", cells, column, reach, stretch, kernels=True)


def _start(start: str, reach: float, stretch: float) -> Goal:
    what = f"seconds: {start}"
    return Goal(what, "processes", {"start": start}, "seconds", reach, stretch, from_above=True)


def _smart(
    step: str, rows: int, table: str, *, reach: float, stretch: float | None, apart: str = ""
) -> list[Goal]:
    """Goals for time and memory of a step with SMART, relative to a plain step in fp32."""
    cells = {"step": f"{step}, fp32{apart}"}
    what = f"a step with {step}, {rows} rows{apart}, fp32, x a plain one"
    memory = f"peak memory of a step with {step}, {rows} rows{apart}, fp32, x a plain one"
    return [
        Goal(what, table, cells, "x plain step", reach, stretch, from_above=True),
        Goal(memory, table, cells, "x its peak memory", 1.5, from_above=True),
    ]


STEP, ST = "training_step", "sentence-transformers"
GOALS = [
    Goal("a mixed training step in bf16, x the `transformers` loop", STEP,
         {"step": "ours, grouped, bf16"}, "x loop", 5.0, 6.0, kernels=True),
    Goal("the same in fp32", STEP,
         {"step": "ours, grouped, fp32"}, "x loop", 2.7, 3.0, kernels=True),
    _trainer("`transformers.Trainer`", "SST-5", 4.0, 5.0),
    _trainer("`transformers.Trainer`", "SST-5", 1.5, 1.8, best=True),
    _trainer(f"{ST}' trainer", "STS-B", 4.5, 5.5),
    _trainer(f"{ST}' trainer", "STS-B", 3.0, 3.5, best=True),
    Goal(f"text to vectors in bf16, x {ST}", "encode",
         {"encode": "ours, bf16"}, f"x {ST}", 2.5, 3.0, kernels=True),
    Goal(f"the same, x {ST} in bf16", "encode",
         {"encode": "ours, bf16"}, f"x {ST}, bf16", 1.5, 1.8, kernels=True),
    *_smart("SMART", 32, "smart_step", reach=2.7, stretch=2.67),
    *_smart("SMART and Bregman", 32, "smart_step", reach=3.0, stretch=None),
    *_smart("SMART", 128, "smart_step_128", reach=2.7, stretch=2.67),
    *_smart("SMART and Bregman", 128, "smart_step_128", reach=3.0, stretch=None),
    *_smart("SMART", 128, "smart_step_passes", reach=2.7, stretch=2.67, apart=", in 4 passes"),
    *_smart("SMART and Bregman", 128, "smart_step_passes", reach=3.0, stretch=None,
            apart=", in 4 passes"),
    Goal("a step with PALs of width 60, x a plain one", "methods",
         {"step": "PALs of width 60, one a task"}, "x the plain (or joint) step", 1.35, 1.2,
         from_above=True),
    _start("`--help`", 0.3, 0.15),
    _start("a config error", 0.3, 0.15),
    _start("first training step, cached tokens", 6.0, 4.0),
    Goal("peak memory of 60 mixed steps in bf16, x the `transformers` loop", "processes",
         {"by": "ours, bf16", "work": "60 mixed steps"}, "x its first", 1.0, 0.7, kernels=True,
         from_above=True),
]  # fmt: skip


def goals(tables: str) -> str:
    """Write all goals as a table; with names of saved tables, their goals as a list."""
    if tables:
        lines = []
        for name in tables.split(","):
            for what, reach, _, ours, kernels in (_cells(g) for g in GOALS if g.table == name):
                compiled = f", compiled kernels {kernels}" if kernels else ""
                lines.append(f"- {what}: {ours}{compiled} (goal: {reach})\n")
        return "".join(lines)
    header = ("same work, same run", "goal", "stretch", "ours", "compiled kernels")
    return markdown_table(header, [_cells(goal) for goal in GOALS]) + "\n"


def _cells(goal: Goal) -> list[str]:
    judged = []
    for kernels in (False, True):
        value = goal.value(kernels) if goal.kernels or not kernels else None
        judged.append("" if value is None else goal.judged(value))
    sign = "at most " if goal.from_above else ""
    stretch = "" if goal.stretch is None else f"{goal.stretch}"
    return [goal.what, f"{sign}{goal.reach}", stretch, *judged]
