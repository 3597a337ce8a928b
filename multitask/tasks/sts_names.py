# Tested by tests/reporting/test_sts_report.py
"""The years and names of the STS suites."""

YEARS = ("STS12", "STS13", "STS14", "STS15", "STS16")
NAMES = (*YEARS, "STS-B", "SICK-R")
