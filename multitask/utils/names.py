# Tested by tests/test_start_up.py
"""Names that stand in a config for what comes with the project; ``--help`` shows them too."""

EMBEDDED = "embedded"
PACKAGED_ENCODER = "packaged-minilm"
