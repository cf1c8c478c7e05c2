"""What the layers of this package can be quantized to."""


def check_quantization_mode(mode: str | None) -> None:
    """Raises `NotImplementedError` unless the mode is `"int8"`.

    Of this error `keras.Model.quantize` makes a warning, and goes on to the
    next layer.

    Args:
        mode: string.
    """
    if mode != "int8":
        raise NotImplementedError(
            f'`mode` must be "int8". Received: mode={mode!r}.'
        )
