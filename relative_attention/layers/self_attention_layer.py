"""The base class of self-attention layers with relation embeddings."""

from typing import Any

import keras
from keras import initializers

from relative_attention.argument_checks import checked_bool
from relative_attention.layers.argument_types import ConstraintLike
from relative_attention.layers.argument_types import InitializerLike
from relative_attention.layers.argument_types import RegularizerLike
from relative_attention.layers.argument_types import Shape
from relative_attention.layers.attention_output_spec import (
    attention_output_spec,
)
from relative_attention.layers.head_projection import project_to_heads
from relative_attention.layers.multi_head_layer import MultiHeadLayer
from relative_attention.layers.per_head_initializer import PerHeadInitializer
from relative_attention.ops.given_mask import check_mask
from relative_attention.ops.given_mask import check_padding_mask
from relative_attention.ops.given_mask import given_mask
from relative_attention.ops.given_mask import same_size
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


class SelfAttentionLayer(MultiHeadLayer):
    """Projections, masks and relation tables; subclasses choose the rows.

    A new kind of relation is a subclass with three methods:
     - `_num_relations` returns how many rows a relation table has;
     - `_edges` returns what tells the relation of each query to each key, of
       a sequence of a given length (a subclass with a `call` of its own may
       take that as an input in its place);
     - `_attend` computes context and scores from queries, keys, values and
       what `_edges` returned.
    Weights, masks, projections, symbolic shapes and the config are here.
    """

    def __init__(
        self,
        num_heads: int,
        key_dim: int,
        use_key_relations: bool = True,
        use_value_relations: bool = True,
        share_relations_across_heads: bool = True,
        relation_initializer: InitializerLike = "glorot_uniform",
        relation_regularizer: RegularizerLike = None,
        relation_constraint: ConstraintLike = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(num_heads, key_dim, **kwargs)
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

    def build(self, inputs_shape: Shape) -> None:
        self._build_projections(inputs_shape, inputs_shape)
        self.key_relation_embeddings = None
        self.value_relation_embeddings = None
        if self.use_key_relations:
            self.key_relation_embeddings = self._relation_embeddings(
                "key_relation_embeddings", self.key_dim
            )
        if self.use_value_relations:
            self.value_relation_embeddings = self._relation_embeddings(
                "value_relation_embeddings", self.value_dim
            )

    def _relation_embeddings(self, name: str, dim: int) -> keras.Variable:
        shape: tuple[int, ...] = (self._num_relations(), dim)
        initializer = self.relation_initializer.clone()
        if not self.share_relations_across_heads:
            # Section 4.1 of the paper: the base model has a table per head.
            shape = (self.num_heads, *shape)
            initializer = PerHeadInitializer(initializer)
        # Not cast by itself: the gradients of all edges of a row are summed,
        # and in half precision that sum would be badly off.
        return self.add_weight(
            name=name,
            shape=shape,
            initializer=initializer,
            regularizer=self.relation_regularizer,
            constraint=self.relation_constraint,
            autocast=False,
        )

    def _num_relations(self) -> int:
        """Returns the number `R` of rows of a relation table."""
        raise NotImplementedError

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
        outputs, scores = self._self_attention(
            inputs,
            self._edges(sizes(inputs)[1]),
            mask=self._merge_masks(
                inputs, attention_mask, padding_mask, use_causal_mask
            ),
            training=training,
            return_scores=return_attention_scores,
            is_causal=use_causal_mask,
        )
        return (outputs, scores) if return_attention_scores else outputs

    def _edges(self, length: int | Tensor) -> Any:
        """Returns what tells the relations within a sequence, for `_attend`."""
        raise NotImplementedError

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
        """Computes context `(B, N, T, H_v)` and scores `(B, N, T, T)`.

        Args:
            query: float tensor `(B, N, T, H)`, scaled.
            key: float tensor `(B, N, T, H)`.
            value: float tensor `(B, N, T, H_v)`.
            edges: what tells the relation of each query to each key.
            mask: bool tensor that broadcasts to `(B, N, T, T)`, or `None`.
            training: bool. Whether dropout is active.
            return_scores: bool. With `False` the scores may be `None`, so
                that they need not be computed as a whole.
            is_causal: bool. Whether `mask` hides every later key.
        """
        raise NotImplementedError

    def _self_attention(
        self,
        inputs: Tensor,
        edges: Any,
        mask: Tensor | None = None,
        training: bool | None = None,
        return_scores: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Computes outputs `(B, T, D)` and scores, see `_attend`."""
        query, key, value = self._project(inputs)
        # (B, N, T, H_v) and (B, N, T, T); what a subclass adds is in here.
        context, scores = self._attend(
            query,
            key,
            value,
            edges,
            mask=mask,
            training=training,
            return_scores=return_scores,
            is_causal=is_causal,
        )
        return self._merge_heads(context), scores

    def _project(self, inputs: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Projects inputs to queries, scaled, keys and values."""
        query, key, value = project_to_heads(
            inputs, [self.query_dense, self.key_dense, self.value_dense]
        )
        # 1 / sqrt(d_z): scaling the query scales both terms of eq. 5.
        return query * self.key_dim**-0.5, key, value

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
