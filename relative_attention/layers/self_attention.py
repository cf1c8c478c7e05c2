"""Self-attention: one layer for every position encoding."""

from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.layers.argument_types import ConstraintLike
from relative_attention.layers.argument_types import InitializerLike
from relative_attention.layers.argument_types import RegularizerLike
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.attention_output_spec import (
    attention_output_spec,
)
from relative_attention.layers.cached_attention import cached_attention
from relative_attention.layers.head_projection import project_to_heads
from relative_attention.layers.key_value_cache import KeyValueCache
from relative_attention.layers.multi_head_layer import MultiHeadLayer
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.backend import sizes
from relative_attention.ops.masks import check_mask
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import given_mask
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.masks import same_size
from relative_attention.positions import find_position_encoding
from relative_attention.positions.position_encoding import PositionEncoding
from relative_attention.positions.relative import Relative
from relative_attention.positions.relative_global import RelativeGlobal
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class SelfAttention(MultiHeadLayer):
    """Multi-head self-attention with any position encoding.

    Weights: `query_dense.kernel` and `key_dense.kernel` `(D, N, H)`,
    `value_dense.kernel` `(D, N, H_v)`, `output_dense.kernel` `(N, H_v, D)`,
    and those of the position encoding.

    Masking: a Keras padding mask on `inputs` hides padded keys and is passed
    on. A query that may attend to nothing returns zeros, before the output
    projection.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys (d_z in the
            paper).
        position_encoding: string, the name of an encoding that works inside
            attention, such as `"relative"` or `"rotary"`; or an object of
            `ra.positions`, which takes arguments. Defaults to `None`: the
            layer knows no positions.
        value_dim: int. Size `H_v` of each head's values. Defaults to
            `key_dim`.
        bidirectional: bool. Whether the layer belongs to an encoder, whose
            queries see later keys. Some encodings have other weights in a
            decoder. It hides no keys: see `use_causal_mask`. Defaults to
            `True`.
        dropout: float. Rate in `[0, 1)` on attention scores. Defaults to
            `0.0`.
        use_bias: bool. Whether projections have biases. Defaults to `False`,
            as in tensor2tensor.
        implementation: string. How relative positions are computed; see
            `RelativeSelfAttention`. Defaults to `"auto"`.
        output_shape: int. Size of the outputs. Defaults to `D`, that of
            `inputs`.
        kernel_initializer: initializer of the projections, drawn as matrices
            `(D, N * H)`. Defaults to `"glorot_uniform"`, tensor2tensor's.
        bias_initializer: initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: regularizer of the projections.
        bias_regularizer: regularizer of the biases.
        kernel_constraint: constraint on the projections.
        bias_constraint: constraint on the biases.
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
        ValueError: if a size is not positive, the encoding or the
            implementation is unknown, or `attention_mask` does not broadcast.

    Example:
    >>> layer = SelfAttention(8, key_dim=64, position_encoding="relative")
    >>> keras.ops.shape(layer(keras.ops.zeros((2, 10, 512))))
    (2, 10, 512)
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        position_encoding: str | PositionEncoding | None = None,
        value_dim: int | None = None,
        bidirectional: bool = True,
        dropout: float = 0.0,
        use_bias: bool = False,
        implementation: str = "auto",
        output_shape: int | None = None,
        kernel_initializer: InitializerLike = "glorot_uniform",
        bias_initializer: InitializerLike = "zeros",
        kernel_regularizer: RegularizerLike = None,
        bias_regularizer: RegularizerLike = None,
        kernel_constraint: ConstraintLike = None,
        bias_constraint: ConstraintLike = None,
        seed: int | None = None,
        **kwargs: Any,
    ) -> None:
        # "blocks" is what "auto" took in older versions.
        if implementation == "blocks":
            implementation = "auto"
        if implementation not in ("auto", "transpose"):
            raise ValueError(
                "`implementation` must be one of ('auto', 'transpose'). "
                f"Received: implementation={implementation!r}."
            )
        encoding: PositionEncoding = find_position_encoding(position_encoding)
        bidirectional = checked_bool("bidirectional", bidirectional)
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            seed=seed,
            **kwargs,
        )
        self.position_encoding = encoding
        self.bidirectional = bidirectional
        self.implementation = implementation

    def build(self, inputs_shape: Shape) -> None:
        self._build_projections(inputs_shape, inputs_shape)
        self.key_relation_embeddings = None
        self.value_relation_embeddings = None
        self.position_encoding.build(self, self.bidirectional)

    def call(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        # Keras fills in `mask` when `inputs` is the only tensor argument and
        # `inputs_mask` when there are more.
        padding_mask = mask if mask is not None else inputs_mask
        merged = self._merge_masks(
            inputs, attention_mask, padding_mask, use_causal_mask
        )
        query, key, value, positions = self._project(inputs)
        if self.implementation == "auto" and not return_attention_scores:
            # Without dropout no random number is drawn, so that the state of
            # the seed and the graph of inference stay as they are.
            keep = None
            if training and self.dropout_layer.rate > 0:
                batch_size, length, _ = sizes(inputs)
                keep = self.dropout_layer.draw_keep_mask(
                    (batch_size, self.num_heads, length, length)
                )
            context = self.position_encoding.attend(
                self,
                query,
                key,
                value,
                mask=merged,
                is_causal=use_causal_mask,
                keep=keep,
                rate=self.dropout_layer.rate,
            )
            if context is not None:
                return self._merge_heads(context)
        # Eq. 5: e_ij = (x_i W^Q (x_j W^K)^T + x_i W^Q (a_ij^K)^T) / sqrt(d_z)
        logits = ops.matmul(query, ops.swapaxes(key, -1, -2))
        by_position = self.position_encoding.logits(
            self, query, positions, positions
        )
        if by_position is not None:
            logits = logits + by_position
        # Eq. 2: alpha_ij = softmax_j(e_ij)
        scores = masked_softmax(logits, merged)  # (B, N, T, T)
        # Eq. 3: z_i = sum_j alpha_ij (x_j W^V + a_ij^V)
        kept = self.dropout_layer(scores, training=training)
        context = ops.matmul(kept, value)
        of_positions = self.position_encoding.context(
            self, kept, positions, positions
        )
        if of_positions is not None:
            context = context + of_positions
        outputs = self._merge_heads(context)
        return (outputs, scores) if return_attention_scores else outputs

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Projects inputs to queries, scaled, keys and values; positions."""
        query, key, value = project_to_heads(
            inputs, [self.query_dense, self.key_dense, self.value_dense]
        )
        positions = ops.arange(sizes(inputs)[1], dtype="int32")
        # 1 / sqrt(d_z): scaling the query scales both terms of eq. 5.
        query = self.position_encoding.rotate(
            query * self.key_dim**-0.5, positions
        )
        key = self.position_encoding.rotate(key, positions)
        return query, key, value, positions

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
        rotate = self.position_encoding.rotate
        query = rotate(self.query_dense(inputs) * self.key_dim**-0.5, position)
        cache = cache.extended(
            ops.swapaxes(rotate(self.key_dense(inputs), position), 1, 2),
            ops.swapaxes(self.value_dense(inputs), 1, 2),
        )
        # The new position is in it: a token attends to itself too.
        context = cached_attention(self, query, cache, position, ancestors)
        return self.output_dense(context), cache

    def _merge_masks(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None,
        padding_mask: Tensor | None,
        use_causal_mask: bool,
    ) -> Tensor | None:
        """Merges all masks to one; `None` when every pair may attend."""
        self._check_masks(inputs.shape, attention_mask, padding_mask)
        if attention_mask is not None:
            attention_mask = given_mask("attention_mask", attention_mask)
        return merge_masks(
            sizes(inputs)[1], padding_mask, attention_mask, use_causal_mask
        )

    def _check_masks(
        self,
        inputs_shape: Shape,
        attention_mask: Tensor | None,
        padding_mask: Tensor | None,
    ) -> None:
        """Raises `ValueError` if a mask has another dtype or another shape."""
        batch_size, length, _ = inputs_shape
        if padding_mask is not None:
            check_padding_mask("mask", padding_mask, batch_size, length)
        if attention_mask is None:
            return
        mask_shape = check_mask("attention_mask", attention_mask)
        heads = (self.num_heads,) if len(mask_shape) == 4 else ()
        expected = (batch_size, *heads, length, length)
        # As NumPy broadcasts: aligned at the last axis, 1 fits any size.
        fits = len(mask_shape) <= 4 and all(
            size == 1 or same_size(size, wanted)
            for size, wanted in zip(mask_shape[::-1], expected[::-1])
        )
        if not fits:
            raise ValueError(
                f"`attention_mask` must broadcast to {expected}. Received "
                f"shape: {mask_shape}. To hide padded keys, pass "
                "`padding_mask[:, None, :]`."
            )

    def compute_output_shape(self, inputs_shape: Shape) -> Shape:
        return self._outputs_shape(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        mask: Tensor | None = None,
        inputs_mask: Tensor | None = None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        padding_mask = mask if mask is not None else inputs_mask
        return self._output_spec(
            inputs, return_attention_scores, attention_mask, padding_mask
        )

    def _output_spec(
        self,
        inputs: Tensor,
        return_attention_scores: bool,
        attention_mask: Tensor | None,
        padding_mask: Tensor | None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        self._check_masks(inputs.shape, attention_mask, padding_mask)
        b, t, _ = inputs.shape
        return attention_output_spec(
            self._outputs_shape(inputs.shape),
            self.compute_dtype,
            [(b, self.num_heads, t, t)],
            return_attention_scores,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "position_encoding": keras.saving.serialize_keras_object(
                self.position_encoding
            ),
            "bidirectional": self.bidirectional,
            "implementation": self.implementation,
        }


class OwnEncoding(SelfAttention):
    """A `SelfAttention` with the arguments of one position encoding.

    They are attributes of the layer and part of its config.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        position_encoding: PositionEncoding,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, position_encoding, **kwargs)
        for name in position_encoding.get_config():
            setattr(self, name, getattr(position_encoding, name))

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["position_encoding"], config["bidirectional"]
        return {**config, **self.position_encoding.get_config()}


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeSelfAttention(OwnEncoding):
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
            tokens share one embedding, and with `0` all edges share one.
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
            `"transpose"` does where scores are asked for. On a CPU it takes
            operations of TensorFlow that LiteRT has not: set the attribute
            to `"transpose"` before `export(format="litert")`. `"blocks"`, of
            older versions, means `"auto"`. Defaults to `"auto"`.
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
        super().__init__(
            num_heads,
            key_dim,
            Relative(
                max_relative_position,
                use_key_relations=use_key_relations,
                use_value_relations=use_value_relations,
                share_relations_across_heads=share_relations_across_heads,
                relation_initializer=relation_initializer,
                relation_regularizer=relation_regularizer,
                relation_constraint=relation_constraint,
            ),
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            implementation=implementation,
            output_shape=output_shape,
            kernel_initializer=kernel_initializer,
            bias_initializer=bias_initializer,
            kernel_regularizer=kernel_regularizer,
            bias_regularizer=bias_regularizer,
            kernel_constraint=kernel_constraint,
            bias_constraint=bias_constraint,
            seed=seed,
            **kwargs,
        )


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeGlobalAttention(OwnEncoding):
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
        use_key_relations: bool. Whether keys have relations. Defaults to
            `True`.
        use_value_relations: bool. Whether values have relations too. Defaults
            to `False`, as in the paper and in tensor2tensor.
        share_relations_across_heads: bool. Defaults to `False`, as in
            tensor2tensor.
        relation_initializer: initializer of one relation table. Defaults to
            tensor2tensor's, normal with standard deviation `H^-0.5`.
        relation_regularizer: regularizer of the relation tables.
        relation_constraint: constraint on the relation tables.
        **kwargs: the other arguments of `SelfAttention`: `value_dim`,
            `dropout`, `use_bias`, `output_shape`, initializers, regularizers
            and constraints of projections, `seed`, and the arguments of
            `keras.layers.Layer`.

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
        use_key_relations: bool = True,
        use_value_relations: bool = False,
        share_relations_across_heads: bool = False,
        relation_initializer: InitializerLike | None = None,
        relation_regularizer: RegularizerLike = None,
        relation_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        causal = checked_bool("causal", causal)
        super().__init__(
            num_heads,
            key_dim,
            RelativeGlobal(
                max_relative_position,
                use_key_relations=use_key_relations,
                use_value_relations=use_value_relations,
                share_relations_across_heads=share_relations_across_heads,
                relation_initializer=relation_initializer,
                relation_regularizer=relation_regularizer,
                relation_constraint=relation_constraint,
            ),
            bidirectional=not causal,
            **kwargs,
        )
        self.causal = causal

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

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "causal": self.causal}
