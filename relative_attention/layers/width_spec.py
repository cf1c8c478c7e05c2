"""The specification by which Keras checks the inputs of a built layer."""

import keras

from relative_attention.layers.argument_types import Shape


def width_spec(inputs_shape: Shape, **spec: int) -> keras.layers.InputSpec:
    """Specifies inputs of the width that a layer was built for.

    Args:
        inputs_shape: shape of the inputs, a tuple.
        **spec: arguments of `keras.layers.InputSpec`, `ndim` or `min_ndim`.

    Returns:
        `keras.layers.InputSpec`.

    Raises:
        ValueError: if the last size is not known.
    """
    return keras.layers.InputSpec(axes={-1: known_width(inputs_shape)}, **spec)


def known_width(inputs_shape: Shape) -> int:
    """Returns the last size of a shape; raises `ValueError` for `None`."""
    width = inputs_shape[-1]
    if width is None:
        raise ValueError(
            "The last axis of `inputs` must have a known size. Received "
            f"shape: {tuple(inputs_shape)}."
        )
    return width
