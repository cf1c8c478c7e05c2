"""The attention layers.

`SelfAttention.call` has the equations. Without scores to return, the same is
computed by `ops/relative_attention.py`, in less time and memory.
"""

from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import TypeAlias

import keras
from keras import constraints
from keras import initializers
from keras import ops
from keras import regularizers

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.cache import KeyValueCache
from relative_attention.layers.cache import cached_attention
from relative_attention.layers.dense import HeadProjection
from relative_attention.layers.dense import MatrixInitializer
from relative_attention.layers.dense import project_to_heads
from relative_attention.layers.dense import width_spec
from relative_attention.layers.dropout import Dropout
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import label_context
from relative_attention.ops.attention import label_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import sizes
from relative_attention.ops.masks import check_mask
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import given_mask
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.masks import same_size
from relative_attention.ops.relative_attention import relative_attention
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.positions import find_position_encoding
from relative_attention.positions.position_encoding import PositionEncoding
from relative_attention.positions.relative import RelationTables
from relative_attention.positions.relative import Relative
from relative_attention.positions.relative import RelativeGlobal
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor

# What `keras.initializers.get` and its siblings turn into an object: a name,
# a config, or the object itself.
InitializerLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.initializers.Initializer
)
RegularizerLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.regularizers.Regularizer
    | None
)
ConstraintLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.constraints.Constraint
    | None
)


class MultiHeadLayer(keras.layers.Layer):
    """Projections into heads and back, and the arguments that shape them.

    Sub-layers and weights are named and shaped as in
    `keras.layers.MultiHeadAttention`: `query_dense`, `key_dense` and
    `value_dense` with kernels `(D, N, H)`, `output_dense` with kernel
    `(N, H_v, D)`. One thing differs: initial values are drawn for the matrix
    `(D, N * H)`, as in tensor2tensor. Keras draws them for the 3-D kernel as
    if it were a convolution's, six times too small at base size.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
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
        value_dim = key_dim if value_dim is None else value_dim
        num_heads = checked_int("num_heads", num_heads)
        key_dim = checked_int("key_dim", key_dim)
        value_dim = checked_int("value_dim", value_dim)
        if output_shape is not None:
            output_shape = checked_int("output_shape", output_shape)
        dropout = checked_rate("dropout", dropout)
        use_bias = checked_bool("use_bias", use_bias)
        super().__init__(**kwargs)
        self.num_heads = num_heads
        self.key_dim = key_dim
        self.value_dim = value_dim
        self.dropout = dropout
        self.use_bias = use_bias
        self.output_dim = output_shape
        self.kernel_initializer = initializers.get(kernel_initializer)
        self.bias_initializer = initializers.get(bias_initializer)
        self.kernel_regularizer = regularizers.get(kernel_regularizer)
        self.bias_regularizer = regularizers.get(bias_regularizer)
        self.kernel_constraint = constraints.get(kernel_constraint)
        self.bias_constraint = constraints.get(bias_constraint)
        self.seed = seed
        self.supports_masking = True
        self.input_spec = keras.layers.InputSpec(ndim=3)
        self.dropout_layer = Dropout(
            dropout, seed=seed, dtype=self.dtype_policy
        )

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_dim,
            "kernel_initializer": initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": initializers.serialize(self.bias_initializer),
            "kernel_regularizer": regularizers.serialize(
                self.kernel_regularizer
            ),
            "bias_regularizer": regularizers.serialize(self.bias_regularizer),
            "kernel_constraint": constraints.serialize(self.kernel_constraint),
            "bias_constraint": constraints.serialize(self.bias_constraint),
            "seed": self.seed,
        }

    def _build_projections(
        self, inputs_shape: Shape, source_shape: Shape
    ) -> None:
        """Builds W^Q for `inputs`, W^K and W^V for the source, and W^O."""
        self.input_spec = width_spec(inputs_shape, ndim=3)
        query_dim, source_dim = inputs_shape[-1], source_shape[-1]
        self.query_dense = self._head_dense("query", query_dim, self.key_dim)
        self.key_dense = self._head_dense("key", source_dim, self.key_dim)
        self.value_dense = self._head_dense("value", source_dim, self.value_dim)
        self.output_dense = HeadProjection(
            "btnh,nhd->btd",
            output_shape=(None, self.output_dim or query_dim),
            bias_axes="d" if self.use_bias else None,
            name="output",
            **self._dense_arguments(num_input_axes=2),
        )
        self.output_dense.build((None, None, self.num_heads, self.value_dim))

    def _head_dense(
        self, name: str, input_dim: int | None, head_dim: int
    ) -> HeadProjection:
        dense = HeadProjection(
            "btd,dnh->btnh",
            output_shape=(None, self.num_heads, head_dim),
            bias_axes="nh" if self.use_bias else None,
            name=name,
            **self._dense_arguments(num_input_axes=1),
        )
        dense.build((None, None, input_dim))
        return dense

    def _dense_arguments(self, num_input_axes: int) -> dict[str, Any]:
        # Initializers are cloned: one object used thrice would make query,
        # key and value start equal.
        return {
            "kernel_initializer": MatrixInitializer(
                self.kernel_initializer.clone(), num_input_axes
            ),
            "bias_initializer": self.bias_initializer.clone(),
            "kernel_regularizer": self.kernel_regularizer,
            "bias_regularizer": self.bias_regularizer,
            "kernel_constraint": self.kernel_constraint,
            "bias_constraint": self.bias_constraint,
            "dtype": self.dtype_policy,
        }

    def _merge_heads(self, context: Tensor) -> Tensor:
        """Projects context vectors `(B, N, T, H_v)` to outputs `(B, T, D)`."""
        # Concat(head_1, ..., head_N) W^O, as one sum over heads and columns.
        return self.output_dense(ops.transpose(context, (0, 2, 1, 3)))

    def _outputs_shape(self, inputs_shape: Shape) -> Shape:
        return (*inputs_shape[:-1], self.output_dim or inputs_shape[-1])


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

    # Whether later keys are hidden in every call.
    causal = False

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
        is_causal = use_causal_mask or self.causal
        merged = self._merge_masks(
            inputs, attention_mask, padding_mask, is_causal
        )
        query, key, value, positions = self._project(inputs)
        tables = self.position_encoding.distance_tables(self)
        if (
            tables is not None
            and self.implementation == "auto"
            and not return_attention_scores
        ):
            # Eqs. 2 to 4 in one function, without an embedding for each edge.
            context = relative_attention(
                query,
                key,
                value,
                *tables,
                mask=merged,
                is_causal=is_causal,
                keep=self._draw_kept_scores(inputs) if training else None,
                rate=self.dropout_layer.rate,
            )
            return self._merge_heads(context)
        # Eq. 5: e_ij = (x_i W^Q (x_j W^K)^T + x_i W^Q (a_ij^K)^T) / sqrt(d_z)
        logits = attention_logits(query, key)
        by_position = self.position_encoding.logits(
            self, query, positions, positions
        )
        if by_position is not None:
            logits = logits + by_position
        # Eq. 2: alpha_ij = softmax_j(e_ij)
        scores = masked_softmax(logits, merged)  # (B, N, T, T)
        # Eq. 3: z_i = sum_j alpha_ij (x_j W^V + a_ij^V)
        kept = self.dropout_layer(scores, training=training)
        context = attention_context(kept, value)
        of_positions = self.position_encoding.context(
            self, kept, positions, positions
        )
        if of_positions is not None:
            context = context + of_positions
        outputs = self._merge_heads(context)
        return (outputs, scores) if return_attention_scores else outputs

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

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "position_encoding": keras.saving.serialize_keras_object(
                self.position_encoding
            ),
            "bidirectional": self.bidirectional,
            "implementation": self.implementation,
        }

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

    def _draw_kept_scores(self, inputs: Tensor) -> Tensor | None:
        """Draws which scores dropout keeps, `(B, N, T, T)`; `None` for all."""
        if self.dropout_layer.rate == 0:
            return None
        batch_size, length, _ = sizes(inputs)
        return self.dropout_layer.draw_keep_mask(
            (batch_size, self.num_heads, length, length)
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


class _OneEncoding(SelfAttention):
    """A `SelfAttention` whose class decides on the position encoding.

    The arguments of the encoding are attributes of the layer, and part of its
    config.
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
class RelativeSelfAttention(_OneEncoding):
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
class RelativeGlobalAttention(_OneEncoding):
    """Relative self-attention that does not clip: far tokens have no edge.

    The Music Transformer's (Huang et al. 2018), tensor2tensor's
    `dot_product_relative_v2` (`causal=True`) and
    `dot_product_unmasked_relative_v2`. `RelativeSelfAttention` gives all
    tokens beyond its reach one shared embedding. Here distances of
    `max_relative_position` and more add nothing. No tensor of edges
    `(T, T, H)` is made, unless scores are returned.

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

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "causal": self.causal}


@keras.saving.register_keras_serializable(package="relative_attention")
class RelationAwareSelfAttention(_OneEncoding):
    """Multi-head self-attention between the nodes of a labelled graph.

    Node `i` attends to node `j` through an edge representation chosen by the
    label of the edge from `i` to `j` (Shaw et al. 2018, section 3.1). It is
    added to the key (eq. 4) and to the value (eq. 3). The labels may be
    anything: syntactic relations, links of a database schema, clipped
    distances; with those it equals `RelativeSelfAttention`. Nodes that may
    not attend to one another at all are hidden by `attention_mask`.

    Weights are those of `RelativeSelfAttention`, with relation tables
    `(R, H)` and `(R, H_v)`, or `(N, R, H)` and `(N, R, H_v)`, a row for each
    label. Masks work as there.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys (d_z in the
            paper).
        num_relations: int. Number of labels `R`.
        no_relation: int. A label for pairs without an edge: nothing is added
            to their key and value. It may lie outside the `R` labels, `-1`
            say; then every row of the tables is used. Defaults to `None`,
            when every pair has an edge.
        use_key_relations: bool. Whether keys have a table (eq. 4). Defaults
            to `True`.
        use_value_relations: bool. Whether values have one (eq. 3). Defaults
            to `True`.
        share_relations_across_heads: bool. One table for all heads, or one
            for each. Defaults to `True`.
        relation_initializer: initializer of one table. Defaults to
            `"glorot_uniform"`.
        relation_regularizer: regularizer of the tables.
        relation_constraint: constraint on the tables.
        **kwargs: the other arguments of `SelfAttention`: `value_dim`,
            `dropout`, `use_bias`, `output_shape`, initializers, regularizers
            and constraints of projections, `seed`, and the arguments of
            `keras.layers.Layer`.

    Call arguments:
        inputs: float tensor `(B, T, D)`, the nodes.
        relations: int tensor `(T, T)`, or `(B, T, T)` for a graph each: the
            label, in `[0, R)` or `no_relation`, of the edge from each query
            (row) to each key (column). With padded nodes, any label will do
            for theirs.
        attention_mask: bool tensor, or int tensor of zeros and ones, broadcast
            to `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True`
            and `1` = may attend.
        use_causal_mask: bool. Whether a node attends only to itself and those
            before it. Defaults to `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        inputs_mask: bool tensor `(B, T)`. The Keras padding mask of
            `inputs`, which Keras fills in.

    Returns:
        Float tensor `(B, T, D)`, or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive, a mask does not broadcast, or
            `relations` has another shape or another label (checked where its
            values are known, so not inside a compiled function).

    Example:
    >>> layer = RelationAwareSelfAttention(2, key_dim=8, num_relations=3)
    >>> nodes = keras.ops.zeros((1, 3, 16))
    >>> relations = np.array([[0, 1, 2], [1, 0, 1], [2, 2, 0]])
    >>> keras.ops.shape(layer(nodes, relations))
    (1, 3, 16)

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), section 3.1
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        num_relations: int,
        no_relation: int | None = None,
        use_key_relations: bool = True,
        use_value_relations: bool = True,
        share_relations_across_heads: bool = True,
        relation_initializer: InitializerLike = "glorot_uniform",
        relation_regularizer: RegularizerLike = None,
        relation_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        num_relations = checked_int("num_relations", num_relations)
        if no_relation is not None:
            no_relation = checked_int(
                "no_relation",
                no_relation,
                minimum=None,
                allowed="an int, the label of pairs without an edge, or None",
            )
        super().__init__(
            num_heads,
            key_dim,
            _Labels(
                num_relations,
                use_key_relations=use_key_relations,
                use_value_relations=use_value_relations,
                share_relations_across_heads=share_relations_across_heads,
                relation_initializer=relation_initializer,
                relation_regularizer=relation_regularizer,
                relation_constraint=relation_constraint,
            ),
            **kwargs,
        )
        self.no_relation = no_relation

    def build(
        self, inputs_shape: Shape, relations_shape: Shape | None = None
    ) -> None:
        super().build(inputs_shape)

    # Keras calls a layer with arguments of its own; no caller relies on those
    # of the base class, which are what mypy compares with.
    def call(  # type: ignore[override]
        self,
        inputs: Tensor,
        relations: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        inputs_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        self._check_relations(inputs.shape, relations)
        edges = self._one_hot(relations)
        mask = self._merge_masks(
            inputs, attention_mask, inputs_mask, use_causal_mask
        )
        query, key, value, _ = self._project(inputs)
        # Eq. 5: e_ij = (x_i W^Q (x_j W^K)^T + x_i W^Q (a_ij^K)^T) / sqrt(d_z)
        logits = attention_logits(query, key)
        if self.key_relation_embeddings is not None:
            # A query meets R rows, not T * T edges: the one-hot vector of
            # an edge picks among the R products.
            logits = logits + label_logits(
                query, self.key_relation_embeddings, edges
            )
        scores = masked_softmax(logits, mask)
        # Both terms of eq. 3 must see the same scores dropped.
        weights = self.dropout_layer(scores, training=training)
        # Eq. 3: z_i = sum_j alpha_ij x_j W^V + sum_j alpha_ij a_ij^V
        context = attention_context(weights, value)
        if self.value_relation_embeddings is not None:
            context = context + label_context(
                weights, self.value_relation_embeddings, edges
            )
        outputs = self._merge_heads(context)
        return (outputs, scores) if return_attention_scores else outputs

    def compute_output_shape(
        self, inputs_shape: Shape, relations_shape: Shape | None = None
    ) -> Shape:
        return self._outputs_shape(inputs_shape)

    def compute_output_spec(  # type: ignore[override]  # As of `call`.
        self,
        inputs: Tensor,
        relations: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
        return_attention_scores: bool = False,
        training: bool | None = None,
        inputs_mask: Tensor | None = None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        self._check_relations(inputs.shape, relations)
        return self._output_spec(
            inputs, return_attention_scores, attention_mask, inputs_mask
        )

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "no_relation": self.no_relation}

    def _one_hot(self, relations: Tensor) -> Tensor:
        """Returns labels as one-hot vectors, `(..., T, T, R)`."""
        relations = ops.cast(relations, "int32")
        if self.no_relation is not None:
            # The one-hot vector of -1 is zero, so it takes no row of a table.
            relations = ops.where(
                ops.equal(relations, self.no_relation), -1, relations
            )
        return ops.one_hot(
            relations, self.num_relations, dtype=self.compute_dtype
        )

    def _check_relations(self, inputs_shape: Shape, relations: Tensor) -> None:
        """Raises `ValueError` for another dtype, shape or label."""
        batch_size, length, _ = inputs_shape
        dtype = keras.backend.standardize_dtype(relations.dtype)
        if "int" not in dtype and dtype != "bool":
            raise ValueError(
                "`relations` must be integers, the labels of the edges. "
                f"Received: {dtype} of shape {tuple(relations.shape)}. Cast "
                'them, or pass `dtype="int32"` to `keras.Input`.'
            )
        shape = tuple(relations.shape)
        allowed = (batch_size, length, length)[-len(shape) :]
        if len(shape) not in (2, 3) or not all(map(same_size, shape, allowed)):
            raise ValueError(
                f"`relations` must have shape {(length, length)}, the same "
                f"graph for all, or {(batch_size, length, length)}. Received "
                f"shape: {shape}."
            )
        labels = known_values(relations)
        if labels is None:
            return
        wrong = (labels < 0) | (labels >= self.num_relations)
        if self.no_relation is not None:
            wrong &= labels != self.no_relation
        if wrong.any():
            raise ValueError(
                f"`relations` must hold labels from 0 to "
                f"{self.num_relations - 1}, or `no_relation` "
                f"({self.no_relation}). Received: {labels[wrong][0]}. Raise "
                "`num_relations`, or name a `no_relation`."
            )


class _Labels(RelationTables):
    """Tables of one row for each label."""

    def __init__(self, num_relations: int, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.num_relations = num_relations

    def num_rows(self, bidirectional: bool) -> int:
        return self.num_relations

    def get_config(self) -> dict[str, Any]:
        return {"num_relations": self.num_relations, **super().get_config()}


@keras.saving.register_keras_serializable(package="relative_attention")
class CrossAttention(MultiHeadLayer):
    """Multi-head attention from target positions to source positions.

    It has no relations: source and target positions have no distance from
    one another, and neither the paper nor tensor2tensor gives them one. Keys
    and values depend on the source alone, so that decoding computes them once
    (`project_source`) and attends from any number of queries (`attend`).

    Masking: `padding_mask` and the Keras mask of `encoder_outputs` hide padded
    source positions; with both, a position must be real in both. The Keras
    mask of `inputs` is passed on. A query that may attend to nothing returns
    zeros, before the output projection.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys.
        value_dim: int. Size `H_v` of each head's values. Defaults to
            `key_dim`.
        dropout: float. Rate in `[0, 1)` on attention scores. Defaults to
            `0.0`.
        use_bias: bool. Whether projections have biases. Defaults to `False`.
        output_shape: int. Size of the outputs. Defaults to that of `inputs`.
        kernel_initializer: initializer of the projections. Defaults to
            `"glorot_uniform"`.
        bias_initializer: initializer of the biases. Defaults to `"zeros"`.
        kernel_regularizer: regularizer of the projections.
        bias_regularizer: regularizer of the biases.
        kernel_constraint: constraint on the projections.
        bias_constraint: constraint on the biases.
        seed: int. Seed of the dropout.
        **kwargs: arguments of `keras.layers.Layer`, such as `name`, `dtype`.

    Call arguments:
        inputs: float tensor `(B, T, D)`, the target side.
        encoder_outputs: float tensor `(B, S, D)`.
        padding_mask: bool tensor, or int tensor of zeros and ones, `(B, S)`.
            `True` and `1` = real token.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        encoder_outputs_mask: bool tensor `(B, S)`. The Keras padding mask of
            `encoder_outputs`, which Keras fills in.

    Returns:
        Float tensor `(B, T, D)`, or the pair of it and scores `(B, N, T, S)`.

    Raises:
        ValueError: if a size is not positive, `encoder_outputs` has another
            batch size or width than it should, or a mask is not a mask of the
            source.

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2.3
    """

    def build(self, inputs_shape: Shape, encoder_outputs_shape: Shape) -> None:
        self._build_projections(inputs_shape, encoder_outputs_shape)

    def call(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        encoder_outputs_mask: Tensor | None = None,
    ) -> Tensor | tuple[Tensor, Tensor]:
        self._check_source(
            inputs, encoder_outputs, padding_mask, encoder_outputs_mask
        )
        if padding_mask is None:
            padding_mask = encoder_outputs_mask
        elif encoder_outputs_mask is not None:
            padding_mask = ops.logical_and(
                given_mask("padding_mask", padding_mask),
                given_mask("encoder_outputs_mask", encoder_outputs_mask),
            )
        outputs, scores = self.attend(
            inputs,
            self.project_source(encoder_outputs),
            padding_mask=padding_mask,
            training=training,
        )
        return (outputs, scores) if return_attention_scores else outputs

    def project_source(self, encoder_outputs: Tensor) -> dict[str, Tensor]:
        """Computes keys and values of the source, once for all queries.

        Args:
            encoder_outputs: float tensor `(B, S, D)`.

        Returns:
            Dict of `"key"` `(B, N, S, H)` and `"value"` `(B, N, S, H_v)`.
        """
        key, value = project_to_heads(
            encoder_outputs, [self.key_dense, self.value_dense]
        )
        return {"key": key, "value": value}

    def attend(
        self,
        inputs: Tensor,
        source: dict[str, Tensor],
        padding_mask: Tensor | None = None,
        training: bool | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Attends to the keys and values that `project_source` returned.

        Args:
            inputs: float tensor `(B, T, D)`, the target side.
            source: what `project_source` returned.
            padding_mask: bool tensor `(B, S)`. `True` = real token.
            training: bool. Whether dropout is active.

        Returns:
            Pair of outputs `(B, T, D)` and scores `(B, N, T, S)`.
        """
        (query,) = project_to_heads(inputs, [self.query_dense])
        # Vaswani et al., eq. 1: softmax(Q K^T / sqrt(d_k)) V
        logits = attention_logits(query * self.key_dim**-0.5, source["key"])
        scores = masked_softmax(logits, _key_mask(padding_mask))  # (B, N, T, S)
        # As in tensor2tensor, scores are dropped, and those that are
        # returned are whole.
        context = attention_context(
            self.dropout_layer(scores, training=training), source["value"]
        )
        return self._merge_heads(context), scores

    def decode_step(
        self,
        inputs: Tensor,
        source: dict[str, Tensor],
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Attends as `attend` does, from one position of every beam.

        Args:
            inputs: float tensor `(B, M, D)`, a token of each of `M` beams a
                sentence.
            source: what `project_source` returned.
            padding_mask: bool tensor `(B, S)`. `True` = real token.

        Returns:
            Float tensor `(B, M, D)`.
        """
        # The same equations by other kernels: see `ops/step_attention.py`.
        query = self.query_dense(inputs) * self.key_dim**-0.5
        logits = step_product(query, source["key"], transpose=True)
        scores = step_scores(logits, _key_mask(padding_mask))  # (B, M, N, S)
        return self.output_dense(step_product(scores, source["value"]))

    def compute_output_shape(
        self, inputs_shape: Shape, encoder_outputs_shape: Shape
    ) -> Shape:
        return self._outputs_shape(inputs_shape)

    def compute_output_spec(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        padding_mask: Tensor | None = None,
        return_attention_scores: bool = False,
        training: bool | None = None,
        encoder_outputs_mask: Tensor | None = None,
    ) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
        self._check_source(
            inputs, encoder_outputs, padding_mask, encoder_outputs_mask
        )
        b, t, _ = inputs.shape
        return attention_output_spec(
            self._outputs_shape(inputs.shape),
            self.compute_dtype,
            [(b, self.num_heads, t, encoder_outputs.shape[1])],
            return_attention_scores,
        )

    def _check_source(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        padding_mask: Tensor | None,
        encoder_outputs_mask: Tensor | None = None,
    ) -> None:
        """Raises `ValueError` if the source does not fit `inputs`."""
        shape = tuple(encoder_outputs.shape)
        # Its width is that of the kernel, once the layer is built for it.
        expected: tuple[Any, ...] = (
            inputs.shape[0],
            "S",
            self.key_dense.kernel.shape[0],
        )
        if len(shape) != 3 or not all(map(same_size, shape, expected)):
            raise ValueError(
                "`encoder_outputs` must have shape "
                f"({expected[0]}, S, {expected[2]}), a source for each row of "
                f"`inputs`. Received shape: {shape}."
            )
        for name, mask in (
            ("padding_mask", padding_mask),
            ("encoder_outputs_mask", encoder_outputs_mask),
        ):
            if mask is not None:
                check_padding_mask(name, mask, *shape[:2])


def _key_mask(padding_mask: Tensor | None) -> Tensor | None:
    """Returns the mask `(B, 1, 1, S)`, the same for every head and query."""
    if padding_mask is None:
        return None
    return given_mask("padding_mask", padding_mask)[:, None, None, :]


def attention_output_spec(
    shape: Shape,
    dtype: str,
    score_shapes: Sequence[Shape],
    return_scores: bool,
) -> keras.KerasTensor | tuple[keras.KerasTensor, ...]:
    """Returns symbolic outputs, followed by scores if they are asked for.

    Keras would make them from `compute_output_shape`, which is not told
    whether scores are to be returned.

    Args:
        shape: shape of the outputs `(B, T, D)`.
        dtype: string. The dtype of outputs and scores.
        score_shapes: list of shapes, one for each tensor of scores.
        return_scores: A boolean to indicate whether scores are returned.

    Returns:
        `keras.KerasTensor`, or a tuple of it and one for each shape.
    """
    outputs = keras.KerasTensor(shape, dtype=dtype)
    if not return_scores:
        return outputs
    scores = [keras.KerasTensor(shape, dtype=dtype) for shape in score_shapes]
    return outputs, *scores
