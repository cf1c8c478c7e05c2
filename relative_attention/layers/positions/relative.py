"""Relative positions by embeddings of distances (Shaw et al. 2018)."""

from collections.abc import Callable
from typing import Any
from typing import Unpack

import keras
from keras import initializers
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.layers.arguments import ConstraintLike
from relative_attention.layers.arguments import InitializerLike
from relative_attention.layers.arguments import RegularizerLike
from relative_attention.layers.arguments import TableArguments
from relative_attention.layers.positions.position_encoding import (
    PositionEncoding,
)
from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.ops.attention import edge_product
from relative_attention.ops.step_attention import last_relation_context
from relative_attention.ops.step_attention import last_relation_logits
from relative_attention.tensor_type import Tensor


class RelationTables(PositionEncoding):
    """Tables of embeddings that are added to keys and to values.

    Args:
        use_key_relations: bool. Whether keys have a table.
        use_value_relations: bool. Whether values have one.
        share_relations_across_heads: bool. One table for all heads, or one
            per head.
        relation_initializer: initializer of one table.
        relation_regularizer: regularizer of the tables.
        relation_constraint: constraint on the tables.
    """

    def __init__(
        self,
        use_key_relations: bool = True,
        use_value_relations: bool = True,
        share_relations_across_heads: bool = True,
        relation_initializer: InitializerLike | None = "glorot_uniform",
        relation_regularizer: RegularizerLike = None,
        relation_constraint: ConstraintLike = None,
    ) -> None:
        self.use_key_relations = checked_bool(
            "use_key_relations", use_key_relations
        )
        self.use_value_relations = checked_bool(
            "use_value_relations", use_value_relations
        )
        self.share_relations_across_heads = checked_bool(
            "share_relations_across_heads", share_relations_across_heads
        )
        self.relation_initializer = initializers.get(relation_initializer)
        self.relation_regularizer = keras.regularizers.get(relation_regularizer)
        self.relation_constraint = keras.constraints.get(relation_constraint)

    def num_rows(self, bidirectional: bool) -> int:
        """Returns the number `R` of rows of a table."""
        raise NotImplementedError

    def make_initializer(self, layer: keras.layers.Layer) -> Any:
        """Returns the initializer of a table."""
        return new_draws(self.relation_initializer)

    def build(self, layer: keras.layers.Layer, bidirectional: bool) -> None:
        """Adds `key_relation_embeddings` and `value_relation_embeddings`."""
        rows = self.num_rows(bidirectional)
        if self.use_key_relations:
            layer.key_relation_embeddings = self._add_table(
                layer, "key_relation_embeddings", (rows, layer.key_dim)
            )
        if self.use_value_relations:
            layer.value_relation_embeddings = self._add_table(
                layer, "value_relation_embeddings", (rows, layer.value_dim)
            )

    def _add_table(
        self, layer: keras.layers.Layer, name: str, shape: tuple[int, ...]
    ) -> keras.Variable:
        initializer = self.make_initializer(layer)
        if not self.share_relations_across_heads:
            # Section 4.1 of the paper: the base model has a table per head.
            shape = (layer.num_heads, *shape)
            initializer = _draw_each_head(initializer)
        # No autocast: the gradients of all edges of a row are summed, and in
        # half precision that sum would be badly off.
        return layer.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            regularizer=self.relation_regularizer,
            constraint=self.relation_constraint,
            autocast=False,
        )

    def get_config(self) -> dict[str, Any]:
        serialize = keras.saving.serialize_keras_object
        return {
            "use_key_relations": self.use_key_relations,
            "use_value_relations": self.use_value_relations,
            "share_relations_across_heads": self.share_relations_across_heads,
            "relation_initializer": serialize(self.relation_initializer),
            "relation_regularizer": serialize(self.relation_regularizer),
            "relation_constraint": serialize(self.relation_constraint),
        }


def new_draws(
    initializer: Callable[..., Tensor], add_to_seed: int = 0
) -> Callable[..., Tensor]:
    """Returns the initializer of one more weight.

    One without a seed is copied, as it would draw the same values again.
    """
    seed = getattr(initializer, "seed", None)
    # A function, and a generator of seeds, draw other values at each call.
    if isinstance(seed, keras.random.SeedGenerator) or not isinstance(
        initializer, keras.initializers.Initializer
    ):
        return initializer
    config = initializer.get_config()
    if isinstance(config.get("seed"), int):
        config["seed"] += add_to_seed
    return type(initializer).from_config(config)


def _draw_each_head(
    initializer: Callable[..., Tensor],
) -> Callable[..., Tensor]:
    """Makes an initializer draw `(N, R, H)` as `N` separate tables.

    So a table has the same distribution whether heads share it or not. If the
    initializer has a seed, `n` is added to it for head `n`.
    """

    def draw(shape: tuple[int, ...], dtype: str | None = None) -> Tensor:
        size = tuple(shape[1:])
        return ops.stack(
            [
                new_draws(initializer, head)(size, dtype=dtype)
                for head in range(shape[0])
            ]
        )

    return draw


@keras.saving.register_keras_serializable(package="relative_attention")
class Relative(RelationTables):
    """An embedding for each distance, clipped to `K` on either side.

    It is added to the key (eq. 4) and to the value (eq. 3). Tables have
    `2K + 1` rows; row `r` belongs to the distance `j - i = r - K`.

    Args:
        max_relative_position: int. Clipping distance `K`, in tokens; farther
            tokens share one embedding. Defaults to `16`.
        **kwargs: arguments of `RelationTables`: `use_key_relations`,
            `use_value_relations`, `share_relations_across_heads`, and
            initializer, regularizer and constraint of the tables.

    Raises:
        ValueError: if the clipping distance is negative.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.Relative(16))

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), section 3.2
    """

    config_fields: tuple[str, ...] = (
        "max_relative_position",
        "use_key_relations",
        "use_value_relations",
        "share_relations_across_heads",
    )

    def __init__(
        self, max_relative_position: int = 16, **kwargs: Unpack[TableArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.max_relative_position = checked_int(
            "max_relative_position",
            max_relative_position,
            minimum=0,
            allowed="a non-negative int (tokens on either side)",
        )

    def num_rows(self, bidirectional: bool) -> int:
        return 2 * self.max_relative_position + 1

    def distance_tables(
        self, layer: keras.layers.Layer
    ) -> tuple[Tensor | None, Tensor | None] | None:
        return None if self._is_overridden() else self._tables(layer)

    def _is_overridden(self) -> bool:
        """Returns whether a subclass adds something else."""
        own = type(self)
        return (own.logits, own.context) != (Relative.logits, Relative.context)

    def _tables(
        self, layer: keras.layers.Layer
    ) -> tuple[Tensor | None, Tensor | None]:
        return layer.key_relation_embeddings, layer.value_relation_embeddings

    def logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes the second term of eq. 5, as tensor2tensor does."""
        table, _ = self._tables(layer)
        return self._edges(query, table, query_positions, key_positions)

    def context(
        self,
        layer: keras.layers.Layer,
        scores: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes the second term of eq. 3, as tensor2tensor does."""
        _, table = self._tables(layer)
        return self._edges(
            scores, table, query_positions, key_positions, transpose=False
        )

    def _edges(
        self,
        x: Tensor,
        table: Tensor | None,
        query_positions: Tensor,
        key_positions: Tensor,
        transpose: bool = True,
    ) -> Tensor | None:
        if table is None:
            return None
        # a_ij = w_clip(j - i, K): `(T, S, H)`, or `(N, T, S, H)`.
        relative_positions = clipped_relative_positions(
            query_positions, key_positions, self.max_relative_position
        )
        relations = ops.take(table, relative_positions, axis=-2)
        return edge_product(x, ops.cast(relations, x.dtype), transpose)

    # In a step of decoding no key is ahead of the query. All keys get the
    # embedding `w_-K` of the farthest distance. The last `K` keys also get the
    # difference of their embedding from `w_-K`. In the logits `w_-K` is left
    # out, as the softmax ignores a number that is added to all logits. In the
    # context `w_-K` is added once, as scores sum to one.

    def step_logits(
        self,
        layer: keras.layers.Layer,
        query: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `logits` of the last query, for its last `K` keys only."""
        if self._is_overridden():
            return super().step_logits(layer, query, position, num_positions)
        table, _ = self._tables(layer)
        if table is None or not self.max_relative_position:
            return None
        _, rows = self._past(table, query.dtype)
        return last_relation_logits(query, rows, position, num_positions)

    def step_context(
        self,
        layer: keras.layers.Layer,
        scores: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `context` of the last query, from its last `K` keys."""
        if self._is_overridden():
            return super().step_context(layer, scores, position, num_positions)
        _, table = self._tables(layer)
        if table is None:
            return None
        farthest, rows = self._past(table, scores.dtype)
        if not self.max_relative_position:
            return farthest
        return farthest + last_relation_context(scores, rows, position)

    def _past(self, table: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
        """Returns `w_-K`, and `w_d - w_-K` for `d` from `1 - K` to 0."""
        rows = ops.cast(table[..., : self.max_relative_position + 1, :], dtype)
        farthest = rows[..., :1, :]
        return farthest[..., 0, :], rows[..., 1:, :] - farthest

    def get_config(self) -> dict[str, Any]:
        return {
            "max_relative_position": self.max_relative_position,
            **super().get_config(),
        }


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeGlobal(Relative):
    """An embedding for each distance below a limit, and none beyond.

    This is the encoding of the Music Transformer. `Relative` gives all tokens
    beyond its limit one shared embedding. Here distances of
    `max_relative_position` and more add nothing, as if their embedding were
    zero. Tables have `2M - 1` rows, or `M` in a decoder; row `r` belongs to the
    distance `j - i = r - (M - 1)`.

    Args:
        max_relative_position: int. `M`, the first distance without an
            embedding, in tokens. Defaults to `16`.
        **kwargs: arguments of `RelationTables`, as for `Relative`, but with
            tensor2tensor's defaults: `use_value_relations` and
            `share_relations_across_heads` are `False`, and
            `relation_initializer` is normal with standard deviation `H^-0.5`.

    Raises:
        ValueError: if `max_relative_position` is not positive.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.RelativeGlobal(512))

    Reference:
     - [Huang et al., 2018](https://arxiv.org/abs/1809.04281), section 3.4
    """

    config_fields = ("max_relative_position",)

    def __init__(
        self, max_relative_position: int = 16, **kwargs: Unpack[TableArguments]
    ) -> None:
        max_relative_position = checked_int(
            "max_relative_position", max_relative_position
        )
        arguments: TableArguments = {
            "use_value_relations": False,
            "share_relations_across_heads": False,
            "relation_initializer": None,
            **kwargs,
        }
        super().__init__(max_relative_position, **arguments)

    def num_rows(self, bidirectional: bool) -> int:
        # Distances 1 - M to 0, and 1 to M - 1 for later keys.
        num_past = self.max_relative_position
        return 2 * num_past - 1 if bidirectional else num_past

    def make_initializer(self, layer: keras.layers.Layer) -> Any:
        if self.relation_initializer is None:
            return keras.initializers.RandomNormal(stddev=layer.key_dim**-0.5)
        return super().make_initializer(layer)

    def _tables(
        self, layer: keras.layers.Layer
    ) -> tuple[Tensor | None, Tensor | None]:
        """Returns tables of `2M + 1` rows; missing distances are zero."""
        key_table, value_table = super()._tables(layer)
        num_future = 1 if layer.bidirectional else self.max_relative_position

        def padded(table: Tensor | None) -> Tensor | None:
            if table is None:
                return None
            heads = [(0, 0)] * (len(table.shape) - 2)
            return ops.pad(table, [*heads, (1, num_future), (0, 0)])

        return padded(key_table), padded(value_table)
