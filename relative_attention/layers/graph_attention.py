"""Attention between the nodes of a graph whose edges have labels."""

from typing import Any
from typing import NoReturn
from typing import Self
from typing import Unpack

import keras
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.layers.arguments import ConstraintLike
from relative_attention.layers.arguments import InitializerLike
from relative_attention.layers.arguments import RegularizerLike
from relative_attention.layers.arguments import SelfAttentionArguments
from relative_attention.layers.arguments import TableArguments
from relative_attention.layers.attention import AttentionTerms
from relative_attention.layers.attention import OneEncodingAttention
from relative_attention.layers.positions.relative import RelationTables
from relative_attention.ops.attention import label_context
from relative_attention.ops.attention import label_logits
from relative_attention.ops.backend import finds_shapes
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import sizes
from relative_attention.ops.dropout import DrawKept
from relative_attention.ops.masks import check_flags
from relative_attention.ops.masks import same_size
from relative_attention.tensor_type import Shape
from relative_attention.tensor_type import Tensor


class _Labels(RelationTables):
    """Tables with one row per label.

    Edges, as one-hot vectors, replace positions. A query is multiplied by `R`
    rows, not by `T * T` edges, and each edge picks one of the `R` products.
    """

    def __init__(
        self, num_relations: int, **kwargs: Unpack[TableArguments]
    ) -> None:
        super().__init__(**kwargs)
        self.num_relations = checked_int("num_relations", num_relations)

    def num_rows(self, bidirectional: bool) -> int:
        return self.num_relations

    # The layer passes its edges in place of positions of queries and keys.

    def logits(
        self, layer: keras.layers.Layer, query: Tensor, edges: Tensor, _: Tensor
    ) -> Tensor | None:
        table = layer.key_relation_embeddings
        return None if table is None else label_logits(query, table, edges)

    def context(
        self,
        layer: keras.layers.Layer,
        scores: Tensor,
        edges: Tensor,
        _: Tensor,
    ) -> Tensor | None:
        table = layer.value_relation_embeddings
        return None if table is None else label_context(scores, table, edges)

    def get_config(self) -> dict[str, Any]:
        return {"num_relations": self.num_relations, **super().get_config()}


@keras.saving.register_keras_serializable(package="relative_attention")
class RelationAwareSelfAttention(OneEncodingAttention):
    """Multi-head self-attention between the nodes of a labeled graph.

    Node `i` attends to node `j` through an edge representation chosen by the
    label of the edge from `i` to `j` (Shaw et al. 2018, section 3.1). It is
    added to the key (eq. 4) and to the value (eq. 3). The labels may be
    syntactic relations, links of a database schema, or anything else; with
    clipped distances it equals `RelativeSelfAttention`. Use `attention_mask`
    to hide nodes from each other.

    Weights are those of `RelativeSelfAttention`, with relation tables
    `(R, H)` and `(R, H_v)`, or `(N, R, H)` and `(N, R, H_v)`, a row per label.
    Masks work in the same way.

    Args:
        num_heads: int. Number of attention heads `N`.
        key_dim: int. Size `H` of each head's queries and keys (d_z in the
            paper).
        num_relations: int. Number of labels `R`.
        no_relation: int. A label for pairs without an edge: nothing is added
            to their key and value. It may be outside the `R` labels, such as
            `-1`; then every row of the tables is used. Defaults to `None`:
            every pair has an edge.
        use_key_relations: bool. Whether keys have a table (eq. 4). Defaults
            to `True`.
        use_value_relations: bool. Whether values have one (eq. 3). Defaults
            to `True`.
        share_relations_across_heads: bool. One table for all heads, or one
            per head. Defaults to `True`.
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
            (row) to each key (column). Padded nodes may have any label.
        attention_mask: bool tensor, or tensor of zeros and ones, broadcast to
            `(B, T, T)`, or with an axis of heads to `(B, N, T, T)`. `True` and
            `1` = may attend.
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
            `relations` has a wrong shape or label (labels are checked if values
            are known, so not inside a compiled function).

    Example:
    >>> layer = ra.RelationAwareSelfAttention(2, key_dim=8, num_relations=3)
    >>> nodes = keras.ops.zeros((1, 3, 16))
    >>> relations = np.array([[0, 1, 2], [1, 0, 1], [2, 2, 0]])
    >>> keras.ops.shape(layer(nodes, relations))
    (1, 3, 16)

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), section 3.1
    """

    # All scores are in memory: there is one way to compute them.
    implementations: tuple[str, ...] = ("auto",)

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
        **kwargs: Unpack[SelfAttentionArguments],
    ) -> None:
        encoding = _Labels(
            num_relations,
            use_key_relations=use_key_relations,
            use_value_relations=use_value_relations,
            share_relations_across_heads=share_relations_across_heads,
            relation_initializer=relation_initializer,
            relation_regularizer=relation_regularizer,
            relation_constraint=relation_constraint,
        )
        super().__init__(num_heads, key_dim, encoding, **kwargs)
        self.num_relations = encoding.num_relations
        self.no_relation = no_relation
        if no_relation is not None:
            self.no_relation = checked_int(
                "no_relation",
                no_relation,
                minimum=None,
                allowed="an int, the label of pairs without an edge, or None",
            )

    def build(
        self, inputs_shape: Shape, relations_shape: Shape | None = None
    ) -> None:
        super().build(inputs_shape)

    # Keras allows each layer its own call arguments; mypy compares them with
    # those of the base class, which no caller relies on.
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
        check_flags(
            use_causal_mask=use_causal_mask,
            return_attention_scores=return_attention_scores,
        )
        mask = self._merge_masks(
            inputs, attention_mask, inputs_mask, use_causal_mask
        )
        draw_kept = self.dropout_layer.for_call(training)
        terms = self._terms(inputs, relations, mask, draw_kept)
        return self._outputs(terms, return_attention_scores)

    def attention_terms(  # type: ignore[override]
        self,
        inputs: Tensor,
        relations: Tensor,
        attention_mask: Tensor | None = None,
        use_causal_mask: bool = False,
    ) -> tuple[Tensor, AttentionTerms]:
        """Computes the outputs, and the terms that they are the sum of.

        Dropout is off. The Keras mask of `inputs` is not used.

        Args:
            inputs, relations, attention_mask, use_causal_mask: as of a call.

        Returns:
            Pair of outputs `(B, T, D)` and `AttentionTerms`.
        """
        mask = self._merge_masks(inputs, attention_mask, None, use_causal_mask)
        terms = self._terms(inputs, relations, mask)
        return self._merge_heads(terms.context()), terms

    def start_cache(self, batch_size: int | Tensor) -> NoReturn:
        """Raises an error: the nodes of a graph come all at once.

        Args:
            batch_size: not used.

        Raises:
            NotImplementedError: always.
        """
        raise NotImplementedError(
            "The nodes of a graph cannot be decoded step by step. Call the "
            "layer on all of them."
        )

    def decode_step(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Raises an error, as `start_cache` does.

        Args:
            *args, **kwargs: not used.

        Raises:
            NotImplementedError: always.
        """
        self.start_cache(1)

    def _terms(
        self,
        inputs: Tensor,
        relations: Tensor,
        mask: Tensor | None,
        draw_kept: DrawKept | None = None,
    ) -> AttentionTerms:
        self._check_relations(inputs.shape, relations)
        if finds_shapes():
            # `relations` may have a known size but `inputs` an unknown one.
            length = sizes(inputs)[1]
            relations = ops.zeros((length, length), "int32")
        query, key, value, _ = self._project(inputs)
        edges = self._one_hot(relations)
        return self._attend(query, key, value, mask, draw_kept, edges)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "no_relation": self.no_relation}

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        # Files of older versions may have another one, which was not used.
        return super().from_config({**config, "implementation": "auto"})

    def _one_hot(self, relations: Tensor) -> Tensor:
        """Returns labels as one-hot vectors, `(..., T, T, R)`."""
        relations = ops.cast(relations, "int32")
        if self.no_relation is not None:
            # The one-hot vector of -1 is zero, so it uses no row of a table.
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
