"""Self-attention with relative position representations."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.layers.argument_types import ConstraintLike
from relative_attention.layers.argument_types import InitializerLike
from relative_attention.layers.argument_types import RegularizerLike
from relative_attention.layers.cached_attention import cached_attention
from relative_attention.layers.key_value_cache import KeyValueCache
from relative_attention.layers.self_attention_layer import SelfAttentionLayer
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.relative_attention import relative_attention
from relative_attention.ops.relative_positions import clipped_relative_positions
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeSelfAttention(SelfAttentionLayer):
    """Multi-head self-attention that knows how far apart two tokens are.

    Position `i` attends to position `j` through an edge representation chosen
    by the distance `j - i`, clipped to `max_relative_position` on either side
    (Shaw et al. 2018, section 3.2). It is added to the key (eq. 4) and to the
    value (eq. 3). The layer knows no absolute position.

    Weights: `query_dense.kernel` and `key_dense.kernel` `(D, N, H)`,
    `value_dense.kernel` `(D, N, H_v)`, `output_dense.kernel` `(N, H_v, D)`;
    `key_relation_embeddings` `(2K + 1, H)` and `value_relation_embeddings`
    `(2K + 1, H_v)`, with a leading axis `N` when heads do not share them.
    Row `r` belongs to the distance `r - K`.

    Masking: a Keras padding mask on `inputs` hides padded keys and is passed
    on. A query that may attend to nothing returns zeros, before the output
    projection.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys (d_z in the
            paper).
        max_relative_position: int. Clipping distance `K`, in tokens; farther
            tokens share one embedding, and `0` makes every edge alike.
        value_dim: int. Size `H_v` of each head's values. Defaults to
            `key_dim`.
        use_key_relations: bool. Whether there is an a^K (eq. 4). Defaults to
            `True`.
        use_value_relations: bool. Whether there is an a^V (eq. 3). Defaults
            to `True`. With neither (Table 3, last row), the layer is plain
            self-attention.
        share_relations_across_heads: bool. One table for all heads, as in
            tensor2tensor and the paper's big model, or one for each, as in
            the paper's base model. Defaults to `True`.
        dropout: float. Rate in `[0, 1)` on attention scores. Defaults to
            `0.0`.
        use_bias: bool. Whether projections have biases. Defaults to `False`,
            as in tensor2tensor.
        implementation: string. How the relations are computed. Both ways give
            the same numbers. `"transpose"` is tensor2tensor's
            (`relative_attention_inner`), which makes an embedding for every
            edge, `(T, T, H)`. `"auto"` makes none, and computes as
            `"transpose"` does where scores are asked for. `"blocks"`, of older
            versions, means `"auto"`. Defaults to `"auto"`.
        output_shape: int. Size of the outputs. Defaults to `D`, that of
            `inputs`.
        kernel_initializer: initializer of the projections, drawn as matrices
            `(D, N * H)`. Defaults to `"glorot_uniform"`, tensor2tensor's.
        bias_initializer: initializer of the biases. Defaults to `"zeros"`.
        relation_initializer: initializer of one relation table. Defaults to
            `"glorot_uniform"`, tensor2tensor's.
        kernel_regularizer: regularizer of the projections.
        bias_regularizer: regularizer of the biases.
        relation_regularizer: regularizer of the relation tables.
        kernel_constraint: constraint on the projections.
        bias_constraint: constraint on the biases.
        relation_constraint: constraint on the relation tables.
        seed: int. Seed of the dropout.
        **kwargs: arguments of `keras.layers.Layer`, such as `name`, `dtype`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        attention_mask: bool tensor, or int tensor of zeros and ones, broadcast
            to `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True`
            and `1` = may attend.
        use_causal_mask: bool. Whether a query attends only to its own and
            earlier positions. Defaults to `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        mask, inputs_mask: bool tensor `(B, T)`. The Keras padding mask of
            `inputs`, which Keras fills in.

    Returns:
        Float tensor `(B, T, D)`, or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive, the clipping distance is
            negative, the implementation is unknown, or `attention_mask` does
            not broadcast.

    Example:
    >>> layer = RelativeSelfAttention(8, key_dim=64, max_relative_position=16)
    >>> keras.ops.shape(layer(keras.ops.zeros((2, 10, 512))))
    (2, 10, 512)

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3-5
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        max_relative_position: int,
        value_dim: int | None = None,
        use_key_relations: bool = True,
        use_value_relations: bool = True,
        share_relations_across_heads: bool = True,
        dropout: float = 0.0,
        use_bias: bool = False,
        implementation: str = "auto",
        output_shape: int | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        relation_initializer: InitializerLike = "glorot_uniform",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        relation_regularizer: RegularizerLike = None,
        kernel_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        relation_constraint: ConstraintLike = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        max_relative_position = checked_int(
            "max_relative_position",
            max_relative_position,
            minimum=0,
            allowed="a non-negative int (tokens on either side)",
        )
        # "blocks" is what "auto" took in older versions.
        if implementation == "blocks":
            implementation = "auto"
        if implementation not in ("auto", "transpose"):
            raise ValueError(
                "`implementation` must be one of ('auto', 'transpose'). "
                f"Received: implementation={implementation!r}."
            )
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            use_key_relations=use_key_relations,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            relation_initializer=relation_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            relation_regularizer=relation_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            relation_constraint=relation_constraint,
            seed=seed,
            **kwargs,
        )
        self.max_relative_position = max_relative_position
        self.implementation = implementation

    def _num_relations(self) -> int:
        return 2 * self.max_relative_position + 1

    def _edges(self, length: int | Tensor) -> tuple[Tensor, Tensor]:
        positions = ops.arange(length, dtype="int32")
        return positions, positions

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
    ) -> tuple[Tensor, Tensor | None]:
        """Attends with clipped distances between query and key positions.

        Arguments are those of `SelfAttentionLayer._attend`; `edges` is a
        pair of int tensors `(T,)`, the positions of queries and of keys.
        """
        if self.implementation == "auto" and not return_scores:
            # Without dropout no random number is drawn, so that the state of
            # the seed and the graph of inference stay as they are.
            drops = training and self.dropout_layer.rate > 0
            context = relative_attention(
                query,
                key,
                value,
                self.key_relation_embeddings,
                self.value_relation_embeddings,
                mask=mask,
                is_causal=is_causal,
                dropout=self.dropout_layer if drops else None,
            )
            return context, None
        key_relations, value_relations = self._edge_relations(
            edges, query.dtype
        )
        # Eq. 5: e_ij = (x_i W^Q (x_j W^K)^T + x_i W^Q (a_ij^K)^T) / sqrt(d_z)
        logits = attention_logits(query, key, key_relations)
        # Eq. 2: alpha_ij = softmax_j(e_ij)
        scores = masked_softmax(logits, mask)  # (B, N, T, T)
        # Eq. 3: z_i = sum_j alpha_ij (x_j W^V + a_ij^V)
        context = attention_context(
            self.dropout_layer(scores, training=training),
            value,
            value_relations,
        )
        return context, scores

    def _edge_relations(
        self, edges: Any, dtype: str
    ) -> tuple[Tensor | None, Tensor | None]:
        """Returns a^K and a^V of every edge, `None` for those not used."""
        key_relations = value_relations = None
        if self.use_key_relations or self.use_value_relations:
            # Section 3.2: clip(j - i, k), as an index into w^K and w^V.
            query_positions, key_positions = edges
            relative_positions = clipped_relative_positions(
                query_positions, key_positions, self.max_relative_position
            )  # (T, T), in [0, 2K]
        if self.use_key_relations:
            # a_ij^K = w^K_clip(j - i, k)
            key_relations = self._gather_relations(
                self.key_relation_embeddings, relative_positions, dtype
            )
        if self.use_value_relations:
            # a_ij^V = w^V_clip(j - i, k)
            value_relations = self._gather_relations(
                self.value_relation_embeddings, relative_positions, dtype
            )
        return key_relations, value_relations

    @staticmethod
    def _gather_relations(
        embeddings: Tensor, relative_positions: Tensor, dtype: str
    ) -> Tensor:
        """Gathers table rows by edge: `(T, S, H)`, or `(N, T, S, H)`."""
        rows = ops.take(embeddings, relative_positions, axis=-2)
        return ops.cast(rows, dtype)

    def start_cache(self, batch_size: int | Tensor) -> KeyValueCache:
        """Returns the empty cache, for `decode_step`.

        Args:
            batch_size: int. Number of sentences.

        Returns:
            `KeyValueCache` of no position.
        """
        return KeyValueCache.empty(
            batch_size,
            self.num_heads,
            self.key_dim,
            self.value_dim,
            self.compute_dtype,
        )

    @staticmethod
    def merge_cache(cache: KeyValueCache) -> KeyValueCache:
        """Moves what is recent in a cache to the rest of it.

        Each step copies what is recent, so there should not be much of it;
        this copies all. Done every 32 steps or so, both cost little.

        Args:
            cache: what `start_cache` or `decode_step` returned.

        Returns:
            The same `KeyValueCache` with nothing recent.
        """
        return cache.merged()

    def decode_step(
        self,
        inputs: Tensor,
        cache: KeyValueCache,
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, KeyValueCache]:
        """Attends from one position to itself and to those in the cache.

        The cache holds what every beam of a sentence wrote at each position,
        and is never reordered when beams continue one another: `ancestors`
        says which of it is whose. So a step copies nothing but the last few
        positions.

        Args:
            inputs: float tensor `(B, M, D)`, the token at `position` of each
                of `M` beams a sentence.
            cache: what `start_cache`, `merge_cache` or the step before
                returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`.
                `ancestors[b, m, p]` is the beam that wrote position `p` of
                beam `m`'s history; at the last position it is `m` itself.
                Defaults to `None`, when every beam wrote its own history.

        Returns:
            Pair of outputs `(B, M, D)` and the cache, one position longer.
        """
        # A beam's token stands where a sentence's tokens do in a pass, so
        # the projections serve both: queries `(B, M, N, H)`, and a column of
        # the cache for each beam.
        query = self.query_dense(inputs) * self.key_dim**-0.5
        cache = cache.extended(
            ops.swapaxes(self.key_dense(inputs), 1, 2),
            ops.swapaxes(self.value_dense(inputs), 1, 2),
        )
        # The new position is in it: a token attends to itself too.
        context = cached_attention(
            query,
            cache,
            position,
            ancestors,
            self.key_relation_embeddings,
            self.value_relation_embeddings,
        )
        return self.output_dense(context), cache

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "max_relative_position": self.max_relative_position,
            "implementation": self.implementation,
        }
