"""Relative positions that are not clipped (Huang et al. 2018)."""

from typing import TYPE_CHECKING
from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.ops.attention import edge_product
from relative_attention.ops.attention import table_product
from relative_attention.ops.skew import skew
from relative_attention.ops.skew import unskew
from relative_attention.positions.position_encoding import PositionBias
from relative_attention.positions.position_encoding import distances
from relative_attention.positions.relative import RelationTables
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    from relative_attention.layers.self_attention import SelfAttention


@keras.saving.register_keras_serializable(package="relative_attention")
class RelativeGlobal(PositionBias, RelationTables):
    """An embedding for each distance up to a reach, and none beyond.

    The Music Transformer's. Where `Relative` gives all tokens beyond its
    reach one shared embedding, here distances of `max_relative_position` and
    more add nothing. Tables have `2M - 1` rows, or `M` in a decoder; row `r`
    belongs to the distance `j - i = r - (M - 1)`. Over a whole sequence
    relations are skewed: no tensor of edges `(T, T, H)` is made.

    Args:
        max_relative_position: int. `M`, the first distance without an
            embedding, in tokens. Defaults to `16`.
        use_key_relations: bool. Defaults to `True`.
        use_value_relations: bool. Defaults to `False`, as in the paper and in
            tensor2tensor.
        share_relations_across_heads: bool. Defaults to `False`, as in
            tensor2tensor.
        relation_initializer: initializer of one table. Defaults to `None`:
            tensor2tensor's, normal with standard deviation `H^-0.5`.
        **kwargs: `relation_regularizer`, `relation_constraint`.

    Raises:
        ValueError: if `max_relative_position` is not positive.

    Example:
    >>> layer = ra.SelfAttention(8, 64, ra.positions.RelativeGlobal(512))

    Reference:
     - [Huang et al., 2018](https://arxiv.org/abs/1809.04281), section 3.4
    """

    config_fields = ("max_relative_position",)

    def __init__(
        self,
        max_relative_position: int = 16,
        use_key_relations: bool = True,
        use_value_relations: bool = False,
        share_relations_across_heads: bool = False,
        relation_initializer: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            use_key_relations=use_key_relations,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            relation_initializer=relation_initializer,
            **kwargs,
        )
        self.max_relative_position = checked_int(
            "max_relative_position", max_relative_position
        )

    def num_rows(self, bidirectional: bool) -> int:
        # Distances 1 - M to 0, and those of the future, 1 to M - 1.
        num_past = self.max_relative_position
        return 2 * num_past - 1 if bidirectional else num_past

    def make_initializer(self, layer: "SelfAttention") -> Any:
        if self.relation_initializer is None:
            return keras.initializers.RandomNormal(stddev=layer.key_dim**-0.5)
        return super().make_initializer(layer)

    def logits(
        self,
        layer: "SelfAttention",
        query: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        if not self.use_key_relations:
            return None
        table = layer.key_relation_embeddings
        if query_positions is not key_positions:
            edges = distances(query_positions, key_positions)
            relations = self._rows(layer, table, edges)
            return edge_product(
                query, ops.cast(relations, query.dtype), transpose=True
            )
        # S_rel = skew(Q E^T), section 3.4.1: column d of Q E^T belongs to a
        # distance, column j of S_rel to a key.
        rows = self._rows(layer, table, _every(layer, query_positions))
        return skew(table_product(query, ops.swapaxes(rows, -1, -2)))

    def context(
        self,
        layer: "SelfAttention",
        scores: Tensor,
        query_positions: Tensor,
        key_positions: Tensor,
    ) -> Tensor | None:
        if not self.use_value_relations:
            return None
        table = layer.value_relation_embeddings
        if query_positions is not key_positions:
            edges = distances(query_positions, key_positions)
            relations = self._rows(layer, table, edges)
            return edge_product(
                scores, ops.cast(relations, scores.dtype), transpose=False
            )
        # The way back: scores by key become scores by distance, of which `T`
        # belong to the past and the token itself.
        every = _every(layer, query_positions)
        num_future = ops.shape(every)[0] - ops.shape(query_positions)[0]
        by_distance = unskew(scores, num_future)
        return table_product(by_distance, self._rows(layer, table, every))

    def _rows(
        self, layer: "SelfAttention", table: Tensor, distance: Tensor
    ) -> Tensor:
        """Gathers embeddings by distance, zeros beyond the reach."""
        last = self.max_relative_position - 1
        highest = last if layer.bidirectional else 0
        rows = ops.take(table, ops.clip(distance, -last, highest) + last, -2)
        is_near = ops.cast(ops.abs(distance) <= last, rows.dtype)
        return rows * is_near[..., None]

    def get_config(self) -> dict[str, Any]:
        return {
            "max_relative_position": self.max_relative_position,
            **super().get_config(),
        }


def _every(layer: "SelfAttention", positions: Tensor) -> Tensor:
    """Returns every distance between two tokens of a sequence, ascending."""
    length = ops.shape(positions)[0]
    # A sequence without tokens has the distance 0 all the same, as a range
    # must not end before it starts.
    if isinstance(length, int):
        length = max(length, 1)
    else:
        length = ops.maximum(length, 1)
    end = length if layer.bidirectional else 1
    return ops.arange(1 - length, end, dtype="int32")
