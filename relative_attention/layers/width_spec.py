"""What a layer takes once it is built, by which Keras checks its inputs."""

import keras


def width_spec(inputs_shape, **spec):
    """Inputs of the width that a layer was built for.

    Args:
        inputs_shape: shape of the inputs, a tuple.
        **spec: arguments of `keras.layers.InputSpec`, `ndim` or `min_ndim`.

    Returns:
        `keras.layers.InputSpec`.

    Raises:
        ValueError: if the last size is not known.
    """
    width = inputs_shape[-1]
    if width is None:
        raise ValueError(
            "The last axis of `inputs` must have a known size. Received "
            f"shape: {tuple(inputs_shape)}."
        )
    return keras.layers.InputSpec(axes={-1: width}, **spec)
