"""Shapes of what an attention layer returns, for symbolic calls."""

import keras


def attention_output_spec(shape, dtype, score_shapes, return_scores):
    """Outputs, followed by scores where asked for.

    Keras would make it from `compute_output_shape`, which is not told whether
    scores are to be returned.

    Args:
        shape: shape of the outputs `(B, T, D)`.
        dtype: string. Of outputs and scores.
        score_shapes: list of shapes.
        return_scores: bool.

    Returns:
        `keras.KerasTensor`, or a tuple of it and one for each shape.
    """
    outputs = keras.KerasTensor(shape, dtype=dtype)
    if not return_scores:
        return outputs
    scores = [keras.KerasTensor(shape, dtype=dtype) for shape in score_shapes]
    return outputs, *scores
