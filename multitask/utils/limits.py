# Tested by tests/config/test_yaml_reader.py
"""Bounds on what is read from a user, so that no input hangs the program or fills the memory."""

CONFIG_BYTES = 2**20  # of one YAML file
CONFIG_NODES = 50_000  # values of one YAML file, each use of an alias counted
CONFIG_FILES = 50  # that extend one another
TASKS = 500  # of one config
LARGEST_NUMBER = 10**12  # a whole number of a config; the seed may be larger
MOST_DROPOUT = 0.95  # what is left is divided by 1 - dropout
