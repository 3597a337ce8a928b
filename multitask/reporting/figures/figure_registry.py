# Tested by tests/reporting/figures/test_curves.py
"""The figure of the dev predictions of each task type, as "module:function"."""

CONFUSION = "multitask.reporting.figures.maps:confusion"

# by the name of the type; a type that is not here has no figure
FIGURES = {
    "class": CONFUSION,
    "binary": CONFUSION,
    "tags": CONFUSION,
    "labels": "multitask.reporting.figures.class_bars:class_bars",
    "number": "multitask.reporting.figures.curves:scatter",
}


def figure_of(name: str) -> str:
    """Return the figure of a task type by the type's name; "" for none."""
    return FIGURES.get(name, "")
