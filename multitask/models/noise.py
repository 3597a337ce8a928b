"""The modules that make a training pass random or dependent on the batch, and how to still them."""

from collections.abc import Iterator
from contextlib import contextmanager

from torch import nn

from multitask.models.encoders.dropout import Dropout
from multitask.models.encoders.hf import HFEncoder

# a GRU, attention and an encoder of `transformers` have dropout inside
NOISY = (
    Dropout,
    nn.Dropout,
    nn.RReLU,
    nn.RNNBase,
    nn.MultiheadAttention,
    nn.BatchNorm1d,
    HFEncoder,
)


@contextmanager
def without_dropout(model: nn.Module) -> Iterator[None]:
    """Run a model without random numbers, and with the running statistics of batch norms.

    All else is as in training: the poolers of training, and the current strength of BitLinear.
    """
    training = model.training
    nn.Module.train(model)  # the method of a subclass may leave a frozen part out
    for module in model.modules():
        if isinstance(module, NOISY):
            module.eval()
    try:
        yield
    finally:
        model.train(training)
