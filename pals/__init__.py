"""Adapters: parameters of one task inside the encoder, a file each (``config.registry.ADAPTERS``).

An adapter is a module that the encoder calls at three places of a layer (``pals.base.Adapter``).
Its input is packed: the tokens of a batch [N, d] without padding, one sequence after another. Its
constructor has flat keyword arguments. The program supplies ``dim`` (width d) and ``num_layers``;
all others are options in YAML.
"""
