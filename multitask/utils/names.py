# Tested by tests/test_start_up.py
"""Config values that name the data and the encoder inside the project; ``--help`` shows them."""

EMBEDDED = "embedded"
PACKAGED_ENCODER = "packaged-minilm"
