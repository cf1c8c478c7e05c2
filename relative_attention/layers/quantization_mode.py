"""What the layers of this package can be quantized to."""

import keras

from relative_attention.errors import InputError


def check_quantization_mode(mode: str | None) -> None:
    """Raises `NotImplementedError` unless the mode is `"int8"`.

    Of this error `keras.Model.quantize` makes a warning, and goes on to the
    next layer.

    Args:
        mode: string.

    Raises:
        InputError: if the installed Keras is too old.
    """
    check_keras_quantizes()
    if mode != "int8":
        raise NotImplementedError(
            f'`mode` must be "int8". Received: mode={mode!r}.'
        )


def check_keras_quantizes() -> None:
    """Raises `InputError` if the installed Keras is too old for int8."""
    if not hasattr(keras.quantizers, "Int8QuantizationConfig"):
        raise InputError(
            "Weights in int8 need Keras 3.13 or newer. Received: Keras "
            f"{keras.__version__}. `pip install --upgrade keras` gets it."
        )
