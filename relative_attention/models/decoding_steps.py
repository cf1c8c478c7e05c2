"""A Transformer's decoder, a position at a time, from a cache."""

from typing import Any

import keras
from keras import ops

from relative_attention.layers.embeddings import TokenEmbedding
from relative_attention.models.adapted_model import AdaptedModel
from relative_attention.ops.backend import static_shape
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor


class DecodingSteps(AdaptedModel):
    """The part of `Transformer` that search and sampling call.

    The layers, and `encode`, `_embed` and `logits`, are those of
    `Transformer`.
    """

    decoder_blocks: list[Any]
    decoder_norm: keras.layers.Layer | None
    decoder_positions: keras.layers.Layer | None
    target_embedding: keras.layers.Layer
    output_embedding: TokenEmbedding
    encode: Any
    _embed: Any
    logits: Any

    def start_cache(self, source_token_ids: Tensor) -> dict[str, Any]:
        """Encodes, and prepares the cache that `decode_step` extends.

        Args:
            source_token_ids: int tensor `(B, S)`.

        Returns:
            Dict: `"source_padding_mask"` `(B, S)` and `"blocks"`, a list of
            what `TransformerDecoderBlock.start_cache` returns. The first axis
            of every tensor is that of the sentences.
        """
        encoder_outputs = self.encode(source_token_ids)
        return {
            "source_padding_mask": padding_mask(source_token_ids),
            "blocks": [
                block.start_cache(encoder_outputs)
                for block in self.decoder_blocks
            ],
        }

    def merge_cache(self, cache: dict[str, Any]) -> dict[str, Any]:
        """Merges the cache of every block.

        See `RelativeSelfAttention.merge_cache`.

        Args:
            cache: what `start_cache` or `decode_step` returned.
        """
        blocks = [
            block.merge_cache(block_cache)
            for block, block_cache in zip(self.decoder_blocks, cache["blocks"])
        ]
        return {**cache, "blocks": blocks}

    def decode_step(
        self,
        token_ids: Tensor,
        cache: dict[str, Any],
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes the logits of the next token from one token and the cache.

        Args:
            token_ids: int tensor `(B, M)`: the token at `position` of each of
                `M` hypotheses a sentence; `start_token_id` at the first.
            cache: what `start_cache`, `merge_cache` or the step before
                returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`: `ancestors[b, m, p]`
                is the beam that wrote position `p` of beam `m`'s history.
                Defaults to `None`: each beam wrote its own. See
                `RelativeSelfAttention.decode_step`.

        Returns:
            Pair of logits `(B, M, V)` and the cache, one position longer.
        """
        hidden, cache = self.step_outputs(token_ids, cache, position, ancestors)
        return self.logits(hidden), cache

    def prepare_steps(self) -> "PreparedSteps":
        """Returns the same decoder with weights laid out for many steps.

        What is laid out is a copy: it is to be made anew for every search,
        inside its graph, as weights may change from one to the next.
        """
        return PreparedSteps(self)

    def step_outputs(
        self,
        token_ids: Tensor,
        cache: dict[str, Any],
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes the hidden states that a step's logits are products of.

        Args:
            token_ids, cache, position, ancestors: see `decode_step`.

        Returns:
            Pair of hidden states `(B, M, D)` and the cache, one position
            longer.
        """
        # All `M` tokens are at one position: embedded as rows of length 1.
        hidden = self._embed(
            self.target_embedding,
            self.decoder_positions,
            ops.reshape(token_ids, (-1, 1)),
            start_position=position,
        )
        hidden = ops.reshape(
            hidden, (*static_shape(token_ids), self.config.hidden_dim)
        )
        blocks = []
        for block, block_cache in zip(self.decoder_blocks, cache["blocks"]):
            hidden, block_cache = block.decode_step(
                hidden,
                block_cache,
                position,
                ancestors=ancestors,
                source_padding_mask=cache["source_padding_mask"],
            )
            blocks.append(block_cache)
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        return hidden, {**cache, "blocks": blocks}


class PreparedSteps:
    """A decoder whose weights are laid out for the steps of one search.

    Args:
        model: `DecodingSteps`, a built model.
    """

    def __init__(self, model: DecodingSteps) -> None:
        self.start_cache = model.start_cache
        self.merge_cache = model.merge_cache
        self._model = model
        self._output_matrix = model.output_embedding.transposed_matrix()

    def decode_step(
        self,
        token_ids: Tensor,
        cache: dict[str, Any],
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes what `DecodingSteps.decode_step` does."""
        hidden, cache = self._model.step_outputs(
            token_ids, cache, position, ancestors
        )
        return self._model.logits(hidden, self._output_matrix), cache
