# Tested by tests/config/test_describe_config.py
"""Diagrams of models, made from the shipped configs."""

from multitask.config import load_config
from multitask.config.describe_config import diagram
from tools.measured_docs.store import ROOT


def diagram_of(name: str) -> str:
    """Draw the model of a config: ``FILE``, or ``FILE,KEY=VALUE,...`` with overrides."""
    file, *overrides = name.split(",")
    command = " ".join(["python run_multitask.py check", file, *overrides, "--diagram"])
    chart = diagram(load_config(ROOT / file, overrides))
    return f"```mermaid\n{chart}\n```\n\n`{command}`\n"
