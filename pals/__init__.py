"""Task-specific parts inside the encoder, one file each (``config.registry.ADAPTERS``).

An adapter is a module that the encoder calls at three places of a layer (``pals.base.Adapter``).
It sees packed rows: the real tokens of a batch [N, d] without padding, the tokens of a sequence
next to one another. It is built with flat keyword arguments, of which the program supplies ``dim``
(width d) and ``num_layers``; the rest are options of the YAML file.
"""
