# Tested by tests/test_start_up.py
"""Names of the data and the encoder inside the project, and of environment variables."""

EMBEDDED = "embedded"
PACKAGED_ENCODER = "packaged-minilm"
# the meaning of `encoder.kernels: auto`, so that all runs of a sweep have the same
KERNELS_VARIABLE = "MULTITASK_KERNELS"
# the name of the sweep that a run belongs to: trackers group the runs by it
SWEEP_VARIABLE = "MULTITASK_SWEEP"
# packages whose classes a YAML file may name (`--allow-module`); the runs of a sweep inherit it
MODULES_VARIABLE = "MULTITASK_MODULES"
