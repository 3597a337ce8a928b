"""HIRE's parameters, counted without weights, are those of the formulas of docs/hire.md."""

from tools.measured_docs import parameters


def test_the_count_is_the_formulas():
    d = 1024
    added = 30 * d**2 + 24 * d + 4 * d + 1 + 48 * d**2 + 24 * d
    assert parameters._hire() == added == 81_842_177
    shown = parameters.parameters("hire")
    assert "| RoBERTa | 355 | 355.36 |" in shown
    assert "| RoBERTa+HIRE | 437 | 437.20 |" in shown
    assert "| MT-DNN | 350 | - |" in shown
