"""Bounds on what is read from a user, so that no input hangs the program or fills the memory."""

CONFIG_BYTES = 2**20  # of one YAML file
CONFIG_NODES = 50_000  # values of one YAML file, each use of an alias counted
CONFIG_FILES = 50  # that extend one another
TASKS = 500  # of one config
CLASSES = 1_000  # of one task
LARGEST_NUMBER = 10**12  # a whole number of a config; the seed may be larger
LAYERS = 1_000  # of an encoder, or of a method's option
SIZE = 10**7  # a width, a vocabulary or another size of an encoder or of a method's option
JSON_BYTES = 2**20  # config.json of an encoder, index.json
HEADER_BYTES = 2**23  # the header of a safetensors file: names and shapes
MOST_DROPOUT = 0.95  # what is left is divided by 1 - dropout
