"""Relative positions by embeddings of distances (Shaw et al. 2018)."""

from typing import TYPE_CHECKING
from typing import Any

import keras
from keras import initializers
from keras import ops

from relative_attention.argument_checks import checked_bool
from relative_attention.argument_checks import checked_int
from relative_attention.ops.attention import clipped_relative_positions
from relative_attention.ops.attention import edge_product
from relative_attention.ops.relative_attention import relative_attention
from relative_attention.ops.step_attention import last_relation_context
from relative_attention.ops.step_attention import last_relation_logits
from relative_attention.positions.position_encoding import PositionEncoding
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable(package="relative_attention")
class PerHeadInitializer(keras.initializers.Initializer):
    """Draws `(N, R, H)` as `N` tables `(R, H)`, each on its own.

    So a table has the same distribution whether heads share it or not.

    Args:
        initializer: `keras.initializers.Initializer` of one table. If it has
            a seed, head `n` adds `n` to it.
    """

    def __init__(self, initializer: Any) -> None:
        self.initializer = keras.initializers.get(initializer)

    def __call__(
        self, shape: tuple[int, ...], dtype: str | None = None
    ) -> Tensor:
        num_heads, *table_shape = shape
        return ops.stack(
            [
                self._of_head(head)(tuple(table_shape), dtype=dtype)
                for head in range(num_heads)
            ]
        )

    def _of_head(self, head: int) -> keras.initializers.Initializer:
        """Returns the initializer with a seed of its own for each head."""
        config = self.initializer.get_config()
        if isinstance(config.get("seed"), int):
            config["seed"] += head
        return type(self.initializer).from_config(config)

    def get_config(self) -> dict[str, Any]:
        return {"initializer": keras.initializers.serialize(self.initializer)}


class RelationTables(PositionEncoding):
    """Tables of embeddings that are added to keys and to values.

    Args:
        use_key_relations: bool. Whether keys have a table.
        use_value_relations: bool. Whether values have one.
        share_relations_across_heads: bool. One table for all heads, or one
            for each.
        relation_initializer: initializer of one table.
        relation_regularizer: regularizer of the tables.
        relation_constraint: constraint on the tables.
    """

    def __init__(
        self,
        use_key_relations: bool = True,
        use_value_relations: bool = True,
        share_relations_across_heads: bool = True,
        relation_initializer: Any = "glorot_uniform",
        relation_regularizer: Any = None,
        relation_constraint: Any = None,
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

    def make_initializer(self, layer: "SelfAttention") -> Any:
        """Returns the initializer of a table."""
        return self.relation_initializer.clone()

    def build(self, layer: "SelfAttention", bidirectional: bool) -> None:
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
        self, layer: "SelfAttention", name: str, shape: tuple[int, ...]
    ) -> keras.Variable:
        initializer = self.make_initializer(layer)
        if not self.share_relations_across_heads:
            # Section 4.1 of the paper: the base model has a table per head.
            shape = (layer.num_heads, *shape)
            initializer = PerHeadInitializer(initializer)
        # Not cast by itself: the gradients of all edges of a row are summed,
        # and in half precision that sum would be badly off.
        return layer.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            regularizer=self.relation_regularizer,
            constraint=self.relation_constraint,
            autocast=False,
        )

    def get_config(self) -> dict[str, Any]:
        return {
            "use_key_relations": self.use_key_relations,
            "use_value_relations": self.use_value_relations,
            "share_relations_across_heads": self.share_relations_across_heads,
            "relation_initializer": initializers.serialize(
                self.relation_initializer
            ),
            "relation_regularizer": keras.regularizers.serialize(
                self.relation_regularizer
            ),
            "relation_constraint": keras.constraints.serialize(
                self.relation_constraint
            ),
        }


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

    config_fields = (
        "max_relative_position",
        "use_key_relations",
        "use_value_relations",
        "share_relations_across_heads",
    )
    has_distance_tables = True

    def __init__(self, max_relative_position: int = 16, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.max_relative_position = checked_int(
            "max_relative_position",
            max_relative_position,
            minimum=0,
            allowed="a non-negative int (tokens on either side)",
        )

    def num_rows(self, bidirectional: bool) -> int:
        return 2 * self.max_relative_position + 1

    def logits(
        self,
        layer: "SelfAttention",
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes the second term of eq. 5, as tensor2tensor does."""
        return self._edge_product(
            query, layer.key_relation_embeddings, query_positions, key_positions
        )

    def context(
        self,
        layer: "SelfAttention",
        scores: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        """Computes the second term of eq. 3, as tensor2tensor does."""
        return self._edge_product(
            scores,
            layer.value_relation_embeddings,
            query_positions,
            key_positions,
            transpose=False,
        )

    def value_logits(
        self,
        layer: "SelfAttention",
        x: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        return self._edge_product(
            x, layer.value_relation_embeddings, query_positions, key_positions
        )

    def _edge_product(
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

    def attend(
        self,
        layer: "SelfAttention",
        query: Tensor,
        key: Tensor,
        value: Tensor,
        mask: Tensor | None,
        is_causal: bool,
        keep: Tensor | None,
        rate: float,
    ) -> Tensor:
        return relative_attention(
            query,
            key,
            value,
            layer.key_relation_embeddings,
            layer.value_relation_embeddings,
            mask=mask,
            is_causal=is_causal,
            keep=keep,
            rate=rate,
        )

    def step_logits(
        self,
        layer: "SelfAttention",
        query: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `logits` of the last query, of its last `K` keys alone.

        Softmax ignores what is added to all logits of a row, so that all may
        be taken relative to the farthest distance back.
        """
        if not (self.use_key_relations and self.max_relative_position):
            return None
        _, rows = self._past(layer.key_relation_embeddings, query.dtype)
        return last_relation_logits(query, rows, position, num_positions)

    def step_context(
        self,
        layer: "SelfAttention",
        scores: Tensor,
        position: int | Tensor,
        num_positions: int | Tensor,
    ) -> Tensor | None:
        """Computes `context` of the last query, by its last `K` keys.

        Scores sum to one, so that the embedding of the farthest distance back
        may be added once.
        """
        if not self.use_value_relations:
            return None
        farthest, rows = self._past(
            layer.value_relation_embeddings, scores.dtype
        )
        if not self.max_relative_position:
            return farthest
        return farthest + last_relation_context(scores, rows, position)

    def _past(self, table: Tensor, dtype: str) -> tuple[Tensor, Tensor]:
        """Returns `w_-K`, and `w_d - w_-K` of `d` from `1 - K` to 0."""
        rows = ops.cast(table[..., : self.max_relative_position + 1, :], dtype)
        farthest = rows[..., :1, :]
        return farthest[..., 0, :], rows[..., 1:, :] - farthest

    def get_config(self) -> dict[str, Any]:
        return {
            "max_relative_position": self.max_relative_position,
            **super().get_config(),
        }
