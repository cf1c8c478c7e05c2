"""Attention from the decoder to the encoder."""

from typing import Any

import keras
from keras import ops

from relative_attention.layers.argument_types import Shape
from relative_attention.layers.attention_output_spec import (
    attention_output_spec,
)
from relative_attention.layers.head_projection import project_to_heads
from relative_attention.layers.multi_head_layer import MultiHeadLayer
from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.attention import masked_softmax
from relative_attention.ops.masks import check_padding_mask
from relative_attention.ops.masks import given_mask
from relative_attention.ops.masks import same_size
from relative_attention.ops.step_attention import step_product
from relative_attention.ops.step_attention import step_scores
from relative_attention.tensor_type import Tensor


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


def _key_mask(padding_mask: Tensor | None) -> Tensor | None:
    """Returns the mask `(B, 1, 1, S)`, the same for every head and query."""
    if padding_mask is None:
        return None
    return given_mask("padding_mask", padding_mask)[:, None, None, :]
