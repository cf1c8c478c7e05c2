"""Shapes of what an attention layer returns, for symbolic calls."""

from collections.abc import Sequence

import keras

from relative_attention.layers.argument_types import Shape


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
