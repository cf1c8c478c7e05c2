"""The relative self-attention of the Music Transformer."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.layers.argument_types import InitializerLike
from relative_attention.layers.self_attention_layer import SelfAttentionLayer
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.skew import skew
from relative_attention.ops.skew import unskew
from relative_attention.ops.table_product import table_product
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeGlobalAttention(SelfAttentionLayer):
    """Relative self-attention that does not clip: far tokens have no edge.

    The Music Transformer's (Huang et al. 2018), tensor2tensor's
    `dot_product_relative_v2` (`causal=True`) and
    `dot_product_unmasked_relative_v2`. Where `RelativeSelfAttention` gives
    all tokens beyond its reach one shared embedding, here distances of
    `max_relative_position` and more add nothing. Relations are computed by
    skewing: no tensor of edges `(T, T, H)` is made.

    Weights are those of `RelativeSelfAttention`, but the relation tables have
    `2M - 1` rows, or `M` with `causal`; row `r` belongs to the distance
    `r - (M - 1)`. Masks work as there.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys.
        max_relative_position: int. `M`, the first distance without an
            embedding, in tokens.
        causal: bool. Whether a query attends only to its own and earlier
            positions, always. Defaults to `False`.
        use_value_relations: bool. Whether values have relations too. Defaults
            to `False`, as in the paper and in tensor2tensor.
        share_relations_across_heads: bool. Defaults to `False`, as in
            tensor2tensor.
        relation_initializer: initializer of one relation table. Defaults to
            tensor2tensor's, normal with standard deviation `H^-0.5`.
        **kwargs: `value_dim`, `use_key_relations`, `dropout`, `use_bias`,
            `output_shape`, the other initializers, all regularizers and
            constraints, `seed`, and the arguments of `keras.layers.Layer`, as
            in `RelativeSelfAttention`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        attention_mask: bool tensor, or int tensor of zeros and ones, broadcast
            to `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True`
            and `1` = may attend.
        use_causal_mask: bool. As `causal`, for this call. Defaults to
            `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        mask, inputs_mask: bool tensor `(B, T)`. The Keras padding mask of
            `inputs`, which Keras fills in.

    Returns:
        Float tensor `(B, T, D)`, or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive or `attention_mask` does not
            broadcast.

    Example:
    >>> layer = RelativeGlobalAttention(
    ...     8, key_dim=64, max_relative_position=512, causal=True
    ... )
    >>> keras.ops.shape(layer(keras.ops.zeros((2, 10, 512))))
    (2, 10, 512)

    Reference:
     - [Huang et al., 2018](https://arxiv.org/abs/1809.04281), section 3.4
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_relative_position: int,
        causal: bool = False,
        use_value_relations: bool = False,
        share_relations_across_heads: bool = False,
        relation_initializer: InitializerLike | None = None,
        **kwargs: Any,
    ) -> None:
        key_dim = checked_int("key_dim", key_dim)
        max_relative_position = checked_int(
            "max_relative_position", max_relative_position
        )
        causal = checked_bool("causal", causal)
        if relation_initializer is None:
            relation_initializer = keras.initializers.RandomNormal(
                stddev=key_dim**-0.5
            )
        super().__init__(
            num_heads,
            key_dim,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            relation_initializer=relation_initializer,
            **kwargs,
        )
        self.max_relative_position = max_relative_position
        self.causal = causal

    def _num_relations(self) -> int:
        # Distances 1 - M to 0, and those of the future, 1 to M - 1.
        num_past = self.max_relative_position
        return num_past if self.causal else 2 * num_past - 1

    def _edges(self, length: int | Tensor) -> Tensor:
        # A sequence without tokens has the distance 0 all the same: `skew`
        # needs one row.
        if isinstance(length, int):
            length = max(length, 1)
        last = 0 if self.causal else length - 1
        return ops.arange(1 - length, last + 1, dtype="int32")

    def _merge_masks(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None,
        padding_mask: Tensor | None,
        use_causal_mask: bool,
    ) -> Tensor | None:
        return super()._merge_masks(
            inputs, attention_mask, padding_mask, use_causal_mask or self.causal
        )

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        edges: Any,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_scores: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor]:
        """Attends with one embedding for each distance within reach.

        Arguments are those of `SelfAttentionLayer._attend`; `edges` is an int
        tensor of every distance between two tokens, ascending.
        """
        # Huang et al., eq. 3: Softmax((Q K^T + S_rel) / sqrt(D_h)) V
        logits = attention_logits(query, key)
        if self.use_key_relations:
            rows = self._rows(self.key_relation_embeddings, edges)
            # S_rel = skew(Q E^T), section 3.4.1: column d of Q E^T belongs
            # to a distance, column j of S_rel to a key.
            logits = logits + skew(
                table_product(query, ops.swapaxes(rows, -1, -2))
            )
        scores = masked_softmax(logits, mask)
        weights = self.dropout_layer(scores, training=training)
        context = attention_context(weights, value)
        if self.use_value_relations:
            rows = self._rows(self.value_relation_embeddings, edges)
            # The way back: scores by key become scores by distance, of which
            # T belong to the past and the token itself.
            num_future = ops.shape(edges)[0] - ops.shape(value)[2]
            context = context + table_product(unskew(weights, num_future), rows)
        return context, scores

    def _rows(self, embeddings: Tensor, distances: Tensor) -> Tensor:
        """Gathers embeddings by distance, `(..., distances, H)`.

        Distances of `max_relative_position` and more get zeros.
        """
        last = self.max_relative_position - 1
        rows = ops.take(
            embeddings, ops.clip(distances, -last, last) + last, axis=-2
        )
        is_near = ops.cast(ops.abs(distances) <= last, rows.dtype)
        return rows * is_near[:, None]

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_relative_position": self.max_relative_position,
            "causal": self.causal,
        }
