"""Which layers of a model can be quantized."""

import re
from collections.abc import Callable
from typing import Any

import keras


def quantizable_layers(filters: Any = None) -> Callable[[Any], bool]:
    """Makes a filter for `keras.Model.quantize` that leaves out what cannot.

    Without it Keras warns of each layer that has nothing to quantize, such as
    dropout.

    Args:
        filters: as of `keras.Model.quantize`: a regular expression that is to
            be found in the names of layers, a list of such, or a function
            from layer to bool. Defaults to `None`, every layer.

    Returns:
        Function from layer to bool.
    """
    if isinstance(filters, str):
        filters = [filters]

    def is_quantizable(layer: Any) -> bool:
        if type(layer).quantize is keras.layers.Layer.quantize:
            return False
        if filters is None:
            return True
        if callable(filters):
            return bool(filters(layer))
        return any(re.search(pattern, layer.name) for pattern in filters)

    return is_quantizable
