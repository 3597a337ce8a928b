# Tested by tests/config/test_schema.py
"""``encoder`` and ``init_from``: the shared encoder, and what it starts from."""

from typing import Any, Literal

from pydantic import (
    Field,
    model_validator,
)

from multitask.config.base import Strict
from multitask.utils.limits import MOST_DROPOUT
from multitask.utils.names import PACKAGED_ENCODER


class BitLinearConfig(Strict):
    """BitNet b1.58 (Ma et al. 2024): the layers' weights as -1, 0 or 1, their inputs in 8 bits."""

    layers: Literal["all", "inner"] = Field(
        "all", description="Which layers: `all`, or `inner`: all but the first and the last."
    )
    gradual: float = Field(
        0.0,
        ge=0,
        le=1,
        description="Share of the planned steps in which training goes over from plain to "
        "quantised values; 0: quantised from the first step. Evaluations are always quantised.",
    )


class EncoderConfig(Strict):
    """The shared encoder."""

    name: str = Field(
        PACKAGED_ENCODER,
        description=f"Hub id or local directory of a BERT-family model, or `{PACKAGED_ENCODER}` "
        "(all-MiniLM-L6-v2 from the pinned Python package, no hub needed).",
    )
    revision: str | None = Field(None, description="Hub revision: a branch, tag or commit.")
    implementation: Literal["own", "transformers"] = Field(
        "own",
        description="`own`: the padding-free encoder of this project, for BERT and RoBERTa "
        "architectures; others run in `transformers`, and a line says so.",
    )
    freeze: bool | list[str] = Field(
        False,
        description="`true`: train heads and adapters only. Or a list of parts that do not move, "
        "such as `[embeddings, layer_1, layer_2]` (`layer_1` is the lowest).",
    )
    reinit_layers: int = Field(
        0, ge=0, description="Fresh weights for this many top layers (own encoder only)."
    )
    from_scratch: bool = Field(
        False,
        description="Fresh weights for the whole encoder: only the architecture and the tokenizer "
        "of `name` are taken (own encoder only).",
    )
    bitlinear: BitLinearConfig | None = Field(
        None,
        description="Quantise the linear layers inside the encoder's layers (`bitlinear: {}` for "
        "the paper's way; own encoder only).",
    )
    gradient_checkpointing: bool = Field(
        False,
        description="Compute each layer again in the backward pass: less memory, about a third "
        "more time (own encoder only).",
    )
    kernels: Literal["torch", "compiled", "varlen"] = Field(
        "torch",
        description="`compiled`: on a CPU, attention and dropout + sum + LayerNorm in C++, built "
        "on first use (a minute, once). `varlen`: on a GPU, attention over nested tensors, which "
        "is a flash kernel in bf16. Where it cannot be had a line says so and torch goes on (own "
        "encoder only).",
    )
    dropout: float | None = Field(
        None,
        ge=0,
        le=MOST_DROPOUT,
        description="Hidden dropout inside the encoder; default: the model's own.",
    )
    seen_corpora: dict[str, str] | None = Field(
        None,
        description="Corpora the pretrained weights have seen, and how; tasks that declare one as "
        "`data.corpus` get a warning. Default: what is known of the packaged encoder, else none.",
    )


class InitFromConfig(Strict):
    """A finished run whose weights this one starts from; its directory alone is enough."""

    run: str = Field(description="Run directory with weights (`ablate` needs `--keep-weights`).")
    task: str | None = Field(
        None, description="The run's task whose selected weights are taken; default: its first."
    )
    take: Literal["encoder", "pooling", "head"] = Field(
        "encoder",
        description="`pooling`: also that task's pooling, projection and adapter, for every task "
        "here. `head`: also its head, which fits only the same classes.",
    )

    @model_validator(mode="before")
    @classmethod
    def _from_run(cls, value: Any) -> Any:
        return {"run": value} if isinstance(value, str) else value
