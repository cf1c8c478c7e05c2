"""The attention layers.

Self-attention is computed in one of four ways, with the same results:

    _attend               the equations, term by term: if scores are returned,
                          with "transpose", and if an encoding has no tables
                          of distances (ALiBi, T5)
    relative_attention    otherwise, as in most calls of `fit`; in less time
                          and memory (ops/relative_attention.py)
    _attend_recomputed    for long texts (ops/long_attention.py)
    decode_step           one position at a time (cache.py)

Attention between nodes of a graph is in `graph_attention.py`.
"""

import functools
from typing import Any
from typing import NamedTuple
from typing import Self
from typing import Unpack

import keras
from keras import constraints
from keras import initializers
from keras import ops
from keras import regularizers

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_rate
from relative_attention.layers.arguments import ConstraintLike
from relative_attention.layers.arguments import InitializerLike
from relative_attention.layers.arguments import LayerArguments
from relative_attention.layers.arguments import ProjectionArguments
from relative_attention.layers.arguments import RegularizerLike
from relative_attention.layers.arguments import SelfAttentionArguments
from relative_attention.layers.arguments import WeightArguments
from relative_attention.layers.cache import KeyValueCache
from relative_attention.layers.cache import cached_attention
from relative_attention.layers.dense import HeadProjection
from relative_attention.layers.dense import SublayerMaker
from relative_attention.layers.dense import draw_as_matrix
from relative_attention.layers.dense import width_spec
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.positions import find_position_encoding
from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.layers.positions.relative import RelationTables
from relative_attention.layers.positions.relative import Relative
from relative_attention.layers.positions.relative import RelativeGlobal
from relative_attention.layers.positions.relative import new_draws
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.attention import plain_product
from relative_attention.ops.attention import softmax_over_keys
from relative_attention.ops.backend import finds_shapes
from relative_attention.ops.backend import sizes
from relative_attention.ops.dropout import DrawKept
from relative_attention.ops.dropout import drop
from relative_attention.ops.long_attention import Block
from relative_attention.ops.long_attention import is_long
from relative_attention.ops.long_attention import long_attention
from relative_attention.ops.long_attention import long_relative_attention
from relative_attention.ops.masks import as_bool
from relative_attention.ops.masks import check_flags
from relative_attention.ops.masks import check_mask
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.masks import same_size
from relative_attention.ops.relative_attention import relative_attention
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor


class AttentionTerms(NamedTuple):
    """The terms of eqs. 3 and 4 of Shaw et al. (2018), and the scores.

    They need memory for every edge, and are for looking at a sentence.

    Attributes:
        query: float tensor `(B, N, T, H)`, `q_i / sqrt(d_z)`. Rotated, if the
            encoding rotates queries and keys.
        value: float tensor `(B, N, S, H_v)`, `v_j`.
        content_logits: float tensor `(B, N, T, S)`, `q_i k_j / sqrt(d_z)`.
        position_logits: what positions add to `content_logits`, such as
            `q_i a_ij^K / sqrt(d_z)`; or `None`. It may have a batch axis of 1.
        scores: float tensor `(B, N, T, S)`, the softmax of the sum.
        value_context: float tensor `(B, N, T, H_v)`, `sum_j alpha_ij v_j`.
        position_context: what positions add to `value_context`,
            `sum_j alpha_ij a_ij^V`; or `None`.
    """

    query: Tensor
    value: Tensor
    content_logits: Tensor
    position_logits: Tensor | None
    scores: Tensor
    value_context: Tensor
    position_context: Tensor | None

    def context(self) -> Tensor:
        """Returns the context vectors `z_i`."""
        if self.position_context is None:
            return self.value_context
        return self.value_context + self.position_context


class TracedLayer(keras.layers.Layer):
    """A layer that finds its symbolic outputs by tracing its call.

    `compute_output_shape` does not know whether scores are returned.
    """

    def compute_output_spec(self, *args: Any, **kwargs: Any) -> Any:
        try:
            return keras.Operation.compute_output_spec(self, *args, **kwargs)
        except ValueError as error:
            # Keras wraps the call, and would ask users to write our methods.
            raise (error.__context__ or error) from None


class MultiHeadLayer(SublayerMaker, TracedLayer):
    """Projections to heads and back, and attention in between.

    Sublayers and weights have the names and shapes of
    `keras.layers.MultiHeadAttention`: `query_dense`, `key_dense` and
    `value_dense` with kernels `(D, N, H)`, `output_dense` with kernel
    `(N, H_v, D)`. Only initial values differ: they are drawn for the matrix
    `(D, N * H)`, as in tensor2tensor. Keras draws them for the 3-D kernel as if
    it were a convolution, six times too small at base size.
    """

    # By default positions add nothing.
    position_encoding = PositionEncoding()
    implementation = "auto"
    implementations: tuple[str, ...] = ("auto", "recompute")

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
        **kwargs: Unpack[LayerArguments],
    ) -> None:
        super().__init__(**kwargs)
        self.num_heads = checked_int("num_heads", num_heads)
        self.key_dim = checked_int("key_dim", key_dim)
        self.value_dim = self.key_dim
        if value_dim is not None:
            self.value_dim = checked_int("value_dim", value_dim)
        self.dropout = checked_rate("dropout", dropout)
        self.use_bias = checked_bool("use_bias", use_bias)
        self.output_dim = output_shape
        if output_shape is not None:
            self.output_dim = checked_int("output_shape", output_shape)
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
            self.dropout, seed=seed, dtype=self.dtype_policy
        )

    # Keras passes the shapes of all inputs, by position or by name.
    def compute_output_shape(
        self, inputs_shape: Shape, *_: Shape, **__: Shape
    ) -> Shape:
        return (*inputs_shape[:-1], self.output_dim or inputs_shape[-1])

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            **super().get_config(),
            "num_heads": self.num_heads,
            "key_dim": self.key_dim,
            "value_dim": self.value_dim,
            "dropout": self.dropout,
            "use_bias": self.use_bias,
            "output_shape": self.output_dim,
            "kernel_initializer": serialize(self.kernel_initializer),
            "bias_initializer": serialize(self.bias_initializer),
            "kernel_regularizer": serialize(self.kernel_regularizer),
            "bias_regularizer": serialize(self.bias_regularizer),
            "kernel_constraint": serialize(self.kernel_constraint),
            "bias_constraint": serialize(self.bias_constraint),
            "seed": self.seed,
        }

    def _build_projections(
        self, inputs_shape: Shape, source_shape: Shape
    ) -> None:
        """Builds W^Q for `inputs`, W^K and W^V for the source, and W^O."""
        self.input_spec = width_spec(inputs_shape, ndim=3)
        for name, shape, size in (
            ("query", inputs_shape, self.key_dim),
            ("key", source_shape, self.key_dim),
            ("value", source_shape, self.value_dim),
        ):
            dense = self._make_dense(
                name, "btd,dnh->btnh", (None, self.num_heads, size), "nh"
            )
            dense.build((None, None, shape[-1]))
            setattr(self, f"{name}_dense", dense)
        self.output_dense = self._make_dense(
            "output",
            "btnh,nhd->btd",
            (None, self.output_dim or inputs_shape[-1]),
            "d",
        )
        self.output_dense.build((None, None, self.num_heads, self.value_dim))

    def _make_dense(
        self, name: str, equation: str, output_shape: Shape, bias_axes: str
    ) -> HeadProjection:
        return HeadProjection(
            equation,
            output_shape,
            bias_axes=bias_axes if self.use_bias else None,
            kernel_initializer=draw_as_matrix(
                new_draws(self.kernel_initializer),
                num_input_axes=2 if name == "output" else 1,
            ),
            bias_initializer=new_draws(self.bias_initializer),
            kernel_regularizer=self.kernel_regularizer,
            bias_regularizer=self.bias_regularizer,
            kernel_constraint=self.kernel_constraint,
            bias_constraint=self.bias_constraint,
            **self._sublayer_arguments(name),
        )

    def _queries(self, inputs: Tensor) -> Tensor:
        """Projects inputs to queries, scaled: `(B, N, T, H)`."""
        # 1 / sqrt(d_z): scaling the query scales both terms of eq. 5.
        return _to_heads(self.query_dense, inputs) * self.key_dim**-0.5

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        draw_kept: DrawKept | None = None,
        where: Tensor | None = None,
    ) -> AttentionTerms:
        """Computes attention of scaled queries, term by term.

        `where` are the positions of the queries, which are also the keys; or
        the edges of a graph.
        """
        encoding = self.position_encoding
        # Eq. 4, as the two terms of eq. 5:
        # e_ij = (x_i W^Q (x_j W^K)^T + x_i W^Q (a_ij^K)^T) / sqrt(d_z)
        logits = content_logits = plain_product(query, key, transpose=True)
        by_position = encoding.logits(self, query, where, where)
        if by_position is not None:
            by_position = ops.cast(by_position, logits.dtype)
            logits = content_logits + by_position
        # Eq. 2: alpha_ij = softmax_j(e_ij)
        scores = masked_softmax(logits, mask)  # (B, N, T, S)
        # Eq. 3: z_i = sum_j alpha_ij (x_j W^V + a_ij^V). Both terms use the
        # same scores after dropout; the scores returned are without it.
        kept = scores
        if draw_kept is not None:
            kept = drop(scores, draw_kept(sizes(scores)))
        return AttentionTerms(
            query,
            value,
            content_logits,
            by_position,
            scores,
            plain_product(kept, value, transpose=False),
            encoding.context(self, kept, where, where),
        )

    def _checked_implementation(self, name: str) -> str:
        if name not in self.implementations:
            raise ValueError(
                f"`implementation` must be one of {self.implementations}. "
                f"Received: implementation={name!r}."
            )
        return name

    def _recomputes(
        self, num_queries: int | Tensor | None, num_keys: int | Tensor | None
    ) -> bool:
        """Returns whether the gradient is to compute scores again."""
        if self.implementation == "auto":
            return is_long(num_queries, num_keys)
        # On JAX a length is unknown only when Keras asks for shapes, or exports
        # for all lengths. Then blocks cannot be counted.
        is_unknown = not isinstance(num_queries, int)
        if is_unknown and keras.backend.backend() == "jax":
            return False
        return self.implementation == "recompute"

    def _attend_recomputed(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        draw_kept: DrawKept | None = None,
        is_causal: bool = False,
    ) -> Tensor:
        """Computes the context vectors of scaled queries, in little memory."""
        options: dict[str, Any] = {
            "mask": mask,
            "is_causal": is_causal,
            "draw_kept": draw_kept,
        }
        tables = self.position_encoding.distance_tables(self)
        if tables is not None:
            return long_relative_attention(
                query, key, value, *tables, **options
            )
        weights = self._encoding_weights()
        floats = [w for w in weights if "float" in w.dtype]
        # Without a gradient: int8 of a layer that is part of the encoding.
        fixed = [
            (w, ops.convert_to_tensor(w))
            for w in weights
            if "float" not in w.dtype
        ]

        def attend(block: Block, *values: Tensor) -> Tensor:
            # On TensorFlow, a custom gradient takes tensors and no variables,
            # so tensors stand for the weights. This scope hides a scope around
            # it, so the mapping must have the values of `fixed`, too.
            mapping = [*zip(floats, values), *fixed]
            with keras.StatelessScope(state_mapping=mapping):
                return self._attend_block(block)

        values = map(ops.copy, floats)
        return long_attention(attend, query, key, value, *values, **options)

    def _encoding_weights(self) -> list[keras.Variable]:
        """Returns the weights of the position encoding, frozen ones too."""
        projections = (
            self.query_dense,
            self.key_dense,
            self.value_dense,
            self.output_dense,
        )
        others = {id(w) for layer in projections for w in layer.weights}
        return [w for w in self.weights if id(w) not in others]

    def _attend_block(self, block: Block) -> Tensor:
        """Computes the same as `_attend` for some queries."""
        encoding = self.position_encoding
        positions = (block.query_positions, block.key_positions)
        logits = plain_product(block.query, block.key, transpose=True)
        by_position = encoding.logits(self, block.query, *positions)
        if by_position is not None:
            logits = logits + by_position
        scores = drop(softmax_over_keys(logits, block.mask), block.kept)
        context = plain_product(scores, block.value, transpose=False)
        by_position = encoding.context(self, scores, *positions)
        return context if by_position is None else context + by_position

    def _outputs(
        self, terms: AttentionTerms, return_attention_scores: bool
    ) -> Tensor | tuple[Tensor, Tensor]:
        outputs = self._merge_heads(terms.context())
        return (outputs, terms.scores) if return_attention_scores else outputs

    def _merge_heads(self, context: Tensor) -> Tensor:
        """Projects context vectors `(B, N, T, H_v)` to outputs `(B, T, D)`."""
        # Concat(head_1, ..., head_N) W^O, as one sum over heads and columns.
        return self.output_dense(ops.transpose(context, (0, 2, 1, 3)))


def _to_heads(dense: HeadProjection, inputs: Tensor) -> Tensor:
    return ops.transpose(dense(inputs), (0, 2, 1, 3))


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
            `ra.positions`, which takes arguments. Defaults to `None`, no
            positions.
        value_dim: int. Size `H_v` of each head's values. Defaults to
            `key_dim`.
        bidirectional: bool. Whether the layer belongs to an encoder, whose
            queries see later keys. Some encodings have other weights in a
            decoder. This does not mask keys: see `use_causal_mask`. Defaults
            to `True`.
        implementation: string. How attention is computed. `"recompute"` is
            for long texts: memory grows with the length and not with its
            square, as the gradient computes scores again, for a few queries at
            a time. `"auto"` does so above 2,048 tokens, if the length is known
            when a graph is traced. For `"transpose"` see
            `RelativeSelfAttention`. Defaults to `"auto"`.
        **kwargs: `dropout`, `use_bias`, `output_shape`, initializers,
            regularizers and constraints of the projections and `seed`, as in
            `RelativeSelfAttention`; and the arguments of
            `keras.layers.Layer`, such as `name`, `dtype`.

    Call arguments:
        inputs: float tensor `(B, T, D)`.
        attention_mask: bool tensor, or tensor of zeros and ones, broadcast to
            `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True` and
            `1` = may attend.
        use_causal_mask: bool. Whether a query attends only to its own and
            earlier positions. Defaults to `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        inputs_mask: bool tensor `(B, T)`. The Keras padding mask of `inputs`,
            which Keras fills in.
        mask: The same, by the name that other layers of Keras have. With both,
            a position must be real in both.

    Returns:
        Float tensor `(B, T, D)`, with `output_shape` for `D` if it is given,
        or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive, the encoding or the
            implementation is unknown, or `attention_mask` does not broadcast.

    Example:
    >>> layer = ra.SelfAttention(8, key_dim=64, position_encoding="rotary")
    >>> keras.ops.shape(layer(keras.ops.zeros((2, 10, 512))))
    (2, 10, 512)
    """

    # Whether later keys are masked in every call.
    causal = False
    implementations: tuple[str, ...] = ("auto", "recompute", "transpose")

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        position_encoding: str | PositionEncoding | None = None,
        value_dim: int | None = None,
        bidirectional: bool = True,
        implementation: str = "auto",
        **kwargs: Unpack[ProjectionArguments],
    ) -> None:
        super().__init__(num_heads, key_dim, value_dim, **kwargs)
        self.position_encoding = find_position_encoding(position_encoding)
        self.bidirectional = checked_bool("bidirectional", bidirectional)
        self.implementation = self._checked_implementation(implementation)

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
        check_flags(
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
        )
        # Keras fills in `mask` when `inputs` is the only tensor argument and
        # `inputs_mask` when there are more.
        padding_mask = mask if mask is not None else inputs_mask
        if mask is not None and inputs_mask is not None:
            for one in (mask, inputs_mask):
                check_padding_mask("mask", one, *inputs.shape[:2])
            padding_mask = ops.logical_and(mask, inputs_mask)
        is_causal = use_causal_mask or self.causal
        length = inputs.shape[1]
        recomputes = not return_attention_scores and self._recomputes(
            length, length
        )
        merged = self._merge_masks(
            inputs, attention_mask, padding_mask, is_causal and not recomputes
        )
        query, key, value, positions = self._project(inputs)
        draw_kept = self.dropout_layer.for_call(training)
        if recomputes:
            context = self._attend_recomputed(
                query, key, value, merged, draw_kept, is_causal
            )
            return self._merge_heads(context)
        tables = self.position_encoding.distance_tables(self)
        if (
            tables is not None
            and self.implementation == "auto"
            and not return_attention_scores
        ):
            kept = None
            if draw_kept is not None:
                batch_size, num_heads, length, _ = sizes(query)
                kept = draw_kept((batch_size, num_heads, length, length))
            # Eqs. 2 to 4 in one function, without an embedding for each edge.
            # `tables` are w^K and w^V, a row for each distance.
            context = relative_attention(
                query,
                key,
                value,
                *tables,
                mask=merged,
                is_causal=is_causal,
                kept=kept,
            )
            return self._merge_heads(context)
        terms = self._attend(query, key, value, merged, draw_kept, positions)
        return self._outputs(terms, return_attention_scores)

    def attention_terms(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
    ) -> tuple[Tensor, AttentionTerms]:
        """Computes the outputs, and the terms that they are the sum of.

        Dropout is off. The Keras mask of `inputs` is not used.

        Args:
            inputs, attention_mask, use_causal_mask: as of a call.

        Returns:
            Pair of outputs `(B, T, D)` and `AttentionTerms`.

        Raises:
            ValueError: if `attention_mask` does not broadcast.

        Reference:
         - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3 and 4
        """
        is_causal = use_causal_mask or self.causal
        mask = self._merge_masks(inputs, attention_mask, None, is_causal)
        query, key, value, positions = self._project(inputs)
        terms = self._attend(query, key, value, mask, where=positions)
        return self._merge_heads(terms.context()), terms

    def start_cache(self, batch_size: int | Tensor) -> KeyValueCache:
        """Returns the empty cache, for `decode_step`.

        Args:
            batch_size: int. Number of sentences.

        Returns:
            `KeyValueCache` without positions.
        """
        key, value = (
            ops.zeros((batch_size, self.num_heads, 0, size), self.compute_dtype)
            for size in (self.key_dim, self.value_dim)
        )
        return KeyValueCache(key, value, recent_key=key, recent_value=value)

    def decode_step(
        self,
        inputs: Tensor,
        cache: KeyValueCache,
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, KeyValueCache]:
        """Attends from one position to itself and to those in the cache.

        The cache holds what every beam of a sentence wrote at each position.
        It is never reordered when one beam continues another: `ancestors` says
        which entries belong to which beam. So a step only copies the last few
        positions.

        Args:
            inputs: float tensor `(B, M, D)`, the token at `position` of each
                of the `M` beams of a sentence.
            cache: what `start_cache` or the previous step returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`.
                `ancestors[b, m, p]` is the beam that wrote position `p` of
                beam `m`'s history; at the last position it is `m` itself.
                Defaults to `None`: every beam wrote its own history.

        Returns:
            Pair of outputs `(B, M, D)` and the cache, one position longer.

        Example:
        >>> layer = ra.SelfAttention(4, key_dim=8, position_encoding="rotary")
        >>> x = keras.random.normal((2, 3, 32))
        >>> one_pass = layer(x, use_causal_mask=True)
        >>> cache = layer.start_cache(batch_size=2)
        >>> for position in range(3):
        ...     token = x[:, position : position + 1]
        ...     y, cache = layer.decode_step(token, cache, position)
        >>> bool(keras.ops.max(keras.ops.abs(y - one_pass[:, 2:])) < 1e-5)
        True
        """
        # The beams have the axis of the tokens of a sentence, so the same
        # projections serve both: queries `(B, M, N, H)`, and a column of the
        # cache for each beam.
        rotate = self.position_encoding.rotate
        query = rotate(self.query_dense(inputs) * self.key_dim**-0.5, position)
        cache = cache.extended(
            ops.swapaxes(rotate(self.key_dense(inputs), position), 1, 2),
            ops.swapaxes(self.value_dense(inputs), 1, 2),
        )
        # The new position is included: a token attends to itself too.
        context = cached_attention(self, query, cache, position, ancestors)
        return self.output_dense(context), cache

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "position_encoding": keras.saving.serialize_keras_object(
                self.position_encoding
            ),
            "bidirectional": self.bidirectional,
            "implementation": self.implementation,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        # Files of older versions have this name for it.
        if config.get("implementation") == "blocks":
            config = {**config, "implementation": "auto"}
        return super().from_config(config)

    def _merge_masks(
        self,
        inputs: Tensor,
        attention_mask: Tensor | None,
        padding_mask: Tensor | None,
        is_causal: bool,
    ) -> Tensor | None:
        """Checks masks and merges them; `None` when every pair may attend."""
        batch_size, length, _ = inputs.shape
        if padding_mask is not None:
            check_padding_mask("mask", padding_mask, batch_size, length)
        if attention_mask is not None:
            shape = check_mask("attention_mask", attention_mask)
            heads = (self.num_heads,) if len(shape) == 4 else ()
            expected = (batch_size, *heads, length, length)
            # As NumPy broadcasts: aligned at the last axis, 1 fits any size.
            fits = len(shape) <= 4 and all(
                size == 1 or same_size(size, wanted)
                for size, wanted in zip(shape[::-1], expected[::-1])
            )
            if not fits:
                raise ValueError(
                    f"`attention_mask` must broadcast to {expected}. Received "
                    f"shape: {shape}. To hide padded keys, pass "
                    "`padding_mask[:, None, :]`."
                )
        return merge_masks(
            sizes(inputs)[1], padding_mask, attention_mask, is_causal
        )

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Projects inputs to queries, scaled, keys and values; positions."""
        positions = ops.arange(sizes(inputs)[1], dtype="int32")
        rotate = self.position_encoding.rotate
        return (
            rotate(self._queries(inputs), positions),
            rotate(_to_heads(self.key_dense, inputs), positions),
            _to_heads(self.value_dense, inputs),
            positions,
        )


class OneEncodingAttention(SelfAttention):
    """A `SelfAttention` whose class says which relation tables it has.

    The arguments of the tables are arguments and attributes of the layer, and
    part of its config.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        encoding: RelationTables,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, encoding, **kwargs)
        self.use_key_relations = encoding.use_key_relations
        self.use_value_relations = encoding.use_value_relations
        self.share_relations_across_heads = (
            encoding.share_relations_across_heads
        )
        self.relation_initializer = encoding.relation_initializer
        self.relation_regularizer = encoding.relation_regularizer
        self.relation_constraint = encoding.relation_constraint

    def get_config(self) -> dict[str, Any]:
        config = super().get_config()
        del config["position_encoding"], config["bidirectional"]
        return {**config, **self.position_encoding.get_config()}


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeSelfAttention(OneEncodingAttention):
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
        use_key_relations: bool. Whether to add relations to the keys (eq. 4).
            Defaults to `True`.
        use_value_relations: bool. Whether to add relations to the values
            (eq. 3). Defaults to `True`. With neither (Table 3, last row), the
            layer is plain self-attention.
        share_relations_across_heads: bool. One table for all heads, as in
            tensor2tensor and the paper's big model, or one per head, as in
            the paper's base model. Defaults to `True`.
        dropout: float. Rate in `[0, 1)` on attention scores. Defaults to
            `0.0`.
        use_bias: bool. Whether projections have biases. Defaults to `False`,
            as in tensor2tensor.
        implementation: string. How the relations are computed. Both methods
            give the same numbers. `"transpose"` is tensor2tensor's way, as in
            `relative_attention_inner`: an embedding for every edge,
            `(T, T, H)`. `"auto"` makes none, except if scores are
            returned, when it computes like `"transpose"`. `"recompute"` is
            for long texts, see `SelfAttention`. Defaults to `"auto"`.
        output_shape: int. Size of the outputs. Defaults to `D`, the size of
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
        attention_mask: bool tensor, or tensor of zeros and ones, broadcast to
            `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True` and
            `1` = may attend.
        use_causal_mask: bool. Whether a query attends only to its own and
            earlier positions. Defaults to `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        inputs_mask: bool tensor `(B, T)`. The Keras padding mask of `inputs`,
            which Keras fills in.
        mask: The same, by the name that other layers of Keras have. With both,
            a position must be real in both.

    Returns:
        Float tensor `(B, T, D)`, with `output_shape` for `D` if it is given,
        or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive, the clipping distance is
            negative, the implementation is unknown, or `attention_mask` does
            not broadcast.

    Example:
    >>> layer = ra.RelativeSelfAttention(8, 64, max_relative_position=16)
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
        seed: int | None = None,
        relation_initializer: InitializerLike = "glorot_uniform",
        relation_regularizer: RegularizerLike = None,
        relation_constraint: ConstraintLike = None,
        **kwargs: Unpack[WeightArguments],
    ) -> None:
        encoding = Relative(
            max_relative_position,
            use_key_relations=use_key_relations,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            relation_initializer=relation_initializer,
            relation_regularizer=relation_regularizer,
            relation_constraint=relation_constraint,
        )
        super().__init__(
            num_heads,
            key_dim,
            encoding,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            implementation=implementation,
            output_shape=output_shape,
            kernel_initializer=kernel_initializer,
            seed=seed,
            **kwargs,
        )
        self.max_relative_position = encoding.max_relative_position


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeGlobalAttention(OneEncodingAttention):
    """Relative self-attention that does not clip: far tokens have no edge.

    This is the attention of the Music Transformer (Huang et al. 2018),
    tensor2tensor's `dot_product_relative_v2` (`causal=True`) and
    `dot_product_unmasked_relative_v2`. `RelativeSelfAttention` gives all
    tokens beyond its limit one shared embedding. Here distances of
    `max_relative_position` and more add nothing. No tensor of edges
    `(T, T, H)` is made, unless scores are returned.

    Weights are those of `RelativeSelfAttention`, but the relation tables have
    `2M - 1` rows, or `M` with `causal`; row `r` belongs to the distance
    `r - (M - 1)`. Masks work in the same way.

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
        attention_mask: bool tensor, or tensor of zeros and ones, broadcast to
            `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True` and
            `1` = may attend.
        use_causal_mask: bool. Like `causal`, for this call. Defaults to
            `False`.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        inputs_mask: bool tensor `(B, T)`. The Keras padding mask of `inputs`,
            which Keras fills in.
        mask: The same, by the name that other layers of Keras have. With both,
            a position must be real in both.

    Returns:
        Float tensor `(B, T, D)`, with `output_shape` for `D` if it is given,
        or the pair of it and scores `(B, N, T, T)`.

    Raises:
        ValueError: if a size is not positive or `attention_mask` does not
            broadcast.

    Example:
    >>> layer = ra.RelativeGlobalAttention(
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
        **kwargs: Unpack[SelfAttentionArguments],
    ) -> None:
        encoding = RelativeGlobal(
            max_relative_position,
            use_key_relations=use_key_relations,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            relation_initializer=relation_initializer,
            relation_regularizer=relation_regularizer,
            relation_constraint=relation_constraint,
        )
        causal = checked_bool("causal", causal)
        super().__init__(
            num_heads, key_dim, encoding, bidirectional=not causal, **kwargs
        )
        self.max_relative_position = encoding.max_relative_position
        self.causal = causal

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "causal": self.causal}


@keras.saving.register_keras_serializable(package="relative_attention")
class CrossAttention(MultiHeadLayer):
    """Multi-head attention from target positions to source positions.

    It has no relations, as in the paper and tensor2tensor: there is no
    distance between source and target positions. Keys and values only depend
    on the source, so decoding computes them once (`project_source`).

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
        implementation: string. `"recompute"` is for long texts, see
            `SelfAttention`. Defaults to `"auto"`: above 2,048 times 2,048
            tokens, if lengths are known.
        **kwargs: arguments of `keras.layers.Layer`, such as `name`, `dtype`.

    Call arguments:
        inputs: float tensor `(B, T, D)`, the target side.
        encoder_outputs: float tensor `(B, S, D)`.
        padding_mask: bool tensor, or tensor of zeros and ones, `(B, S)`. `True`
            and `1` = real token.
        return_attention_scores: bool. Also return the scores, before dropout.
            Defaults to `False`.
        training: bool. Whether dropout is active.
        encoder_outputs_mask: bool tensor `(B, S)`. The Keras padding mask of
            `encoder_outputs`, which Keras fills in.

    Returns:
        Float tensor `(B, T, D)`, with `output_shape` for `D` if it is given,
        or the pair of it and scores `(B, N, T, S)`.

    Raises:
        ValueError: if a size is not positive, or `encoder_outputs` or a mask
            has the wrong shape.

    Example:
    >>> layer = ra.CrossAttention(4, key_dim=8)
    >>> target = keras.ops.zeros((2, 5, 32))
    >>> source = keras.ops.zeros((2, 7, 32))
    >>> keras.ops.shape(layer(target, source))
    (2, 5, 32)

    Reference:
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762), section 3.2.3
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        value_dim: int | None = None,
        dropout: float = 0.0,
        use_bias: bool = False,
        output_shape: int | None = None,
        implementation: str = "auto",
        kernel_initializer: InitializerLike = "glorot_uniform",
        seed: int | None = None,
        **kwargs: Unpack[WeightArguments],
    ) -> None:
        super().__init__(
            num_heads,
            key_dim,
            value_dim=value_dim,
            dropout=dropout,
            use_bias=use_bias,
            output_shape=output_shape,
            kernel_initializer=kernel_initializer,
            seed=seed,
            **kwargs,
        )
        self.implementation = self._checked_implementation(implementation)

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
        check_flags(return_attention_scores=return_attention_scores)
        mask = self._merge_masks(
            inputs, encoder_outputs, padding_mask, encoder_outputs_mask
        )
        # Vaswani et al., eq. 1: softmax(Q K^T / sqrt(d_k)) V
        options = {
            "query": self._queries(inputs),
            **self.project_source(encoder_outputs),
            "mask": mask,
            "draw_kept": self.dropout_layer.for_call(training),
        }
        recomputes = self._recomputes(inputs.shape[1], encoder_outputs.shape[1])
        if recomputes and not return_attention_scores:
            return self._merge_heads(self._attend_recomputed(**options))
        terms = self._attend(**options)
        return self._outputs(terms, return_attention_scores)

    def project_source(self, encoder_outputs: Tensor) -> dict[str, Tensor]:
        """Computes keys and values of the source, once for all queries.

        Args:
            encoder_outputs: float tensor `(B, S, D)`.

        Returns:
            Dict of `"key"` `(B, N, S, H)` and `"value"` `(B, N, S, H_v)`.
        """
        return {
            "key": _to_heads(self.key_dense, encoder_outputs),
            "value": _to_heads(self.value_dense, encoder_outputs),
        }

    def attention_terms(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        padding_mask: Tensor | None = None,
    ) -> tuple[Tensor, AttentionTerms]:
        """Computes the outputs, and the terms that they are the sum of.

        Source and target have no distance, so all terms are content. Dropout is
        off. The Keras mask of `encoder_outputs` is not used.

        Args:
            inputs, encoder_outputs, padding_mask: as of a call.

        Returns:
            Pair of outputs `(B, T, D)` and `AttentionTerms`.

        Raises:
            ValueError: if the source does not fit `inputs`.
        """
        mask = self._merge_masks(inputs, encoder_outputs, padding_mask)
        source = self.project_source(encoder_outputs)
        terms = self._attend(self._queries(inputs), **source, mask=mask)
        return self._merge_heads(terms.context()), terms

    def decode_step(
        self,
        inputs: Tensor,
        source: dict[str, Tensor],
        padding_mask: Tensor | None = None,
    ) -> Tensor:
        """Attends from one position of every beam.

        Args:
            inputs: float tensor `(B, M, D)`, a token of each of the `M` beams
                of a sentence.
            source: what `project_source` returned.
            padding_mask: bool tensor `(B, S)`. `True` = real token.

        Returns:
            Float tensor `(B, M, D)`.
        """
        # The same equations with other kernels: see `ops/step_attention.py`.
        query = self.query_dense(inputs) * self.key_dim**-0.5
        logits = step_product(query, source["key"], transpose=True)
        mask = None if padding_mask is None else padding_mask[:, None, None]
        scores = step_scores(logits, mask)  # (B, M, N, S)
        return self.output_dense(step_product(scores, source["value"]))

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "implementation": self.implementation}

    def _merge_masks(
        self,
        inputs: Tensor,
        encoder_outputs: Tensor,
        padding_mask: Tensor | None,
        encoder_outputs_mask: Tensor | None = None,
    ) -> Tensor | None:
        """Checks source and masks; returns the mask `(B, 1, 1, S)`."""
        shape = tuple(encoder_outputs.shape)
        # A built layer takes the width of its kernel.
        expected = (inputs.shape[0], "S", self.key_dense.kernel.shape[0])
        if len(shape) != 3 or not all(map(same_size, shape, expected)):
            raise ValueError(
                "`encoder_outputs` must have shape "
                f"({expected[0]}, S, {expected[2]}), a source for each row of "
                f"`inputs`. Received shape: {shape}."
            )
        masks = []
        for name, mask in (
            ("padding_mask", padding_mask),
            ("encoder_outputs_mask", encoder_outputs_mask),
        ):
            if mask is not None:
                check_padding_mask(name, mask, *shape[:2])
                masks.append(mask)
        if not masks or finds_shapes():
            return None
        mask = functools.reduce(ops.logical_and, map(as_bool, masks))
        return ops.expand_dims(mask, (1, 2))
