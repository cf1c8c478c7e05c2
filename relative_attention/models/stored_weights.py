"""The weights of a model as its folder stores them."""

import keras
import numpy as np

from relative_attention.errors import InputError
from relative_attention.models.finite_weights import check_finite
from relative_attention.models.weights import weight_name
from relative_attention.tensor_type import Tensor


def stored_weights(model: keras.Model, dtype: str) -> dict[str, np.ndarray]:
    """Returns the weights as arrays, by the names in a new model.

    What `enable_lora` added is merged into the kernels, so that the file fits
    a model of the same config and gives the same numbers.

    Args:
        model: `Transformer`.
        dtype: string. `"float32"` or `"float16"`.

    Returns:
        Dict of name to NumPy array.

    Raises:
        InputError: if a weight is not finite, or would not be in the dtype;
            or if a layer is quantized.
    """
    weights = {weight_name(weight): weight for weight in model.weights}
    for layer in model._flatten_layers():
        if layer.quantization_mode is not None:
            raise InputError(
                "The model must not be quantized: its folder holds plain "
                f"weights. Received: {layer.path}, quantized to "
                f"{layer.quantization_mode}. Save it before `quantize`."
            )
        if getattr(layer, "lora_enabled", False):
            _merge(layer, weights)
    arrays = {
        name: keras.ops.convert_to_numpy(weight)
        for name, weight in weights.items()
    }
    check_finite(arrays, dtype)
    return {name: array.astype(dtype) for name, array in arrays.items()}


def _merge(layer: keras.layers.Layer, weights: dict[str, Tensor]) -> None:
    """Puts a layer's adapted matrix in the place of those it is made of."""
    own = {variable.name: weight_name(variable) for variable in layer.variables}
    for name in [name for name in own if name.startswith("lora_")]:
        del weights[own[name]]
        # `lora_kernel_a` and `lora_kernel_b` adapt `kernel`.
        adapted = name.removeprefix("lora_").rsplit("_", 1)[0]
        weights[own[adapted]] = getattr(layer, adapted)
