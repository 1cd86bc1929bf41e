"""Shapes of published transformer models: parameters, operations and bytes that follow from them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from netsim.core.errors import InputError, closest

__all__ = ["MODELS", "ModelShape", "model_shape"]


@dataclass(frozen=True, kw_only=True)
class ModelShape:
    """A decoder-only transformer.

    Attributes
    ----------
    layers, hidden, heads, kv_heads, ffn, vocab, sequence : int
        Layers, width, attention heads, heads of keys and values, width of the feed-forward block, vocabulary, context.
    gated : bool
        Feed-forward block of three matrices (SwiGLU) without biases and learnt positions, with an output layer of its own; else
        two matrices, with biases, positions, and an output layer shared with the embedding (GPT).
    experts, top_k : int
        Feed-forward blocks per layer, and how many a token uses.
    source : str
        Where the numbers were published.

    Examples
    --------
    >>> shape = MODELS["llama-2-7b"]
    >>> shape.parameters, shape.kv_bytes_per_token
    (6738415616, 524288)
    """

    layers: int
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    vocab: int
    sequence: int
    gated: bool
    experts: int = 1
    top_k: int = 1
    source: str

    @property
    def head_dim(self) -> int:
        """Width of a head."""
        return self.hidden // self.heads

    @property
    def attention_weights(self) -> int:
        """Matrix entries of one attention block: queries and output, keys and values."""
        return 2 * self.hidden * self.hidden + 2 * self.hidden * self.kv_heads * self.head_dim

    @property
    def expert_weights(self) -> int:
        """Matrix entries of one feed-forward block."""
        return (3 if self.gated else 2) * self.hidden * self.ffn

    @property
    def dense_parameters(self) -> int:
        """Parameters of a layer but for its experts; all of a layer without experts, matrices, biases and norms."""
        router = self.hidden * self.experts if self.experts > 1 else 0
        small = 2 * self.hidden if self.gated else 9 * self.hidden + 4 * self.hidden
        ours = 0 if self.experts > 1 else self.expert_weights
        return self.attention_weights + router + small + ours

    @property
    def expert_parameters(self) -> int:
        """Parameters of all experts of a layer; 0 without experts."""
        return self.experts * self.expert_weights if self.experts > 1 else 0

    @property
    def embedding_parameters(self) -> int:
        """Parameters of the embedding, with learnt positions."""
        return (self.vocab + (0 if self.gated else self.sequence)) * self.hidden

    @property
    def output_parameters(self) -> int:
        """Parameters of the output layer and of the norm before it; 0 where the layer is that of the embedding."""
        return self.vocab * self.hidden + self.hidden if self.gated else 0

    @property
    def parameters(self) -> int:
        """All parameters."""
        per_layer = self.dense_parameters + self.expert_parameters
        return self.layers * per_layer + self.embedding_parameters + self.output_parameters

    def layer_flops(self, tokens: int, sequence: int) -> float:
        """Operations of one layer forward: 2 per weight and token, and 4 s h per token for the scores and what they weight.

        Source: Narayanan et al., SC 2021, appendix: 24 B s h^2 + 4 B s^2 h for a GPT layer.
        """
        weights = self.attention_weights + self.top_k * self.expert_weights
        return tokens * (2.0 * weights + 4.0 * sequence * self.hidden)

    def output_flops(self, tokens: int) -> float:
        """Operations of the output layer forward."""
        return 2.0 * tokens * self.hidden * self.vocab

    @property
    def kv_bytes_per_token(self) -> int:
        """Keys and values of a token over all layers, 2 B each number."""
        return 2 * 2 * self.layers * self.kv_heads * self.head_dim


def _gpt(layers: int, hidden: int, heads: int, source: str) -> ModelShape:
    return ModelShape(
        layers=layers, hidden=hidden, heads=heads, kv_heads=heads, ffn=4 * hidden, vocab=51200, sequence=2048, gated=False,
        source=source,
    )  # fmt: skip


_MEGATRON: Final = "Narayanan et al., SC 2021 (arXiv:2104.04473), table 1"

MODELS: Final = {
    "gpt-1.7b": _gpt(24, 2304, 24, _MEGATRON),
    "gpt-7.5b": _gpt(36, 4096, 32, _MEGATRON),
    "gpt-39.1b": _gpt(48, 8192, 64, _MEGATRON),
    "gpt-145.6b": _gpt(80, 12288, 96, _MEGATRON),
    "gpt-1t": _gpt(128, 25600, 160, _MEGATRON),
    "gpt3-175b": _gpt(96, 12288, 96, "Brown et al., NeurIPS 2020, table 2.1; vocabulary padded as in Narayanan et al."),
    "llama-2-7b": ModelShape(
        layers=32, hidden=4096, heads=32, kv_heads=32, ffn=11008, vocab=32000, sequence=4096, gated=True,
        source="Touvron et al., 2023 (arXiv:2307.09288), and the published configuration",
    ),
    "llama-2-70b": ModelShape(
        layers=80, hidden=8192, heads=64, kv_heads=8, ffn=28672, vocab=32000, sequence=4096, gated=True,
        source="Touvron et al., 2023 (arXiv:2307.09288), and the published configuration",
    ),
    "mixtral-8x7b": ModelShape(
        layers=32, hidden=4096, heads=32, kv_heads=8, ffn=14336, vocab=32000, sequence=4096, gated=True, experts=8, top_k=2,
        source="Jiang et al., 2024 (arXiv:2401.04088), table 1; trained at shorter sequences than its context",
    ),
    "test-gpt": ModelShape(
        layers=4, hidden=64, heads=4, kv_heads=4, ffn=256, vocab=512, sequence=128, gated=False,
        source="made up: small enough for a look",
    ),
    "test-moe": ModelShape(
        layers=4, hidden=64, heads=4, kv_heads=2, ffn=128, vocab=512, sequence=128, gated=True, experts=4, top_k=2,
        source="made up: small enough for a look",
    ),
}  # fmt: skip


def model_shape(name: str) -> ModelShape:
    """A shape by name.

    >>> model_shape("llama-2")
    Traceback (most recent call last):
    ...
    netsim.core.errors.InputError: model: unknown name, got 'llama-2'; did you mean 'llama-2-7b'? valid: gpt-1.7b, gpt-145.6b, \
gpt-1t, gpt-39.1b, gpt-7.5b, gpt3-175b, llama-2-70b, llama-2-7b, mixtral-8x7b, test-gpt, test-moe
    """
    if name not in MODELS:
        raise InputError("model", "unknown name", got=repr(name), remedy=closest(name, MODELS))
    return MODELS[name]
