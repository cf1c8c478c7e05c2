"""The weights of a model as files of named arrays."""

import os
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.files import atomic_file
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import keras


def save_weights(
    variables: "Sequence[keras.Variable]", path: str | pathlib.Path
) -> None:
    """Writes variables to a `.safetensors` file, whole or not at all.

    Args:
        variables: list of Keras variables. Each is stored under its `path`
            without the name of the model, which differs between models.
        path: path of the file.
    """
    save_arrays({weight_name(v): np.asarray(v) for v in variables}, path)


def save_arrays(
    arrays: Mapping[str, np.ndarray], path: str | pathlib.Path
) -> None:
    """Writes a dict of NumPy arrays, whole or not at all."""
    _check_safetensors()
    from safetensors.numpy import save

    with atomic_file(path) as file:
        file.write(save(dict(arrays)))


def load_weights(
    variables: "Sequence[keras.Variable]", path: str | pathlib.Path
) -> None:
    """Reads variables from a file that `save_weights` wrote.

    Nothing is assigned unless everything fits.

    Args:
        variables: list of Keras variables.
        path: path of the file.

    Raises:
        InputError: if the file is missing, cut short or damaged, or if a
            variable is missing, left over, or of another shape.
    """
    assign_arrays(variables, load_arrays(path), path)


def assign_arrays(
    variables: "Sequence[keras.Variable]",
    arrays: Mapping[str, np.ndarray],
    path: str | pathlib.Path,
) -> None:
    """Assigns the arrays of the file `path` by name, if everything fits."""
    by_key = {weight_name(variable): variable for variable in variables}
    missing = sorted(by_key.keys() - arrays.keys())
    left_over = sorted(arrays.keys() - by_key.keys())
    if missing or left_over:
        raise InputError(
            f"{path} does not fit the model: it lacks {_some(missing)} and "
            f"has {_some(left_over)} more than the model. Load it into a "
            "model with the same config."
        )
    for key, variable in by_key.items():
        if arrays[key].shape != tuple(variable.shape):
            raise InputError(
                f"{path} does not fit the model: {key} must have shape "
                f"{tuple(variable.shape)}. Received: {arrays[key].shape}."
            )
    for key, variable in by_key.items():
        variable.assign(arrays[key])


def weight_name(variable: "keras.Variable") -> str:
    """Returns the name of a variable in a file that `save_weights` wrote."""
    return variable.path.split("/", 1)[-1]


def load_arrays(path: str | pathlib.Path) -> dict[str, np.ndarray]:
    """Reads a `.safetensors` file as a dict of NumPy arrays.

    Raises:
        InputError: if the file is missing, cut short or damaged.
    """
    if not os.path.isfile(path):
        raise InputError(f"No weights at {path}.")
    _check_safetensors()
    from safetensors import SafetensorError
    from safetensors.numpy import load_file

    try:
        return load_file(path)
    except (SafetensorError, OSError) as error:
        raise InputError(
            f"{path} cannot be read: it is cut short, damaged or not a "
            f".safetensors file ({error})."
        ) from error


def _check_safetensors() -> None:
    # Imported when it is used: a model trains without it.
    check_packages(
        "Files of weights need the package safetensors", None, "safetensors"
    )


# === The weights of a model folder ===


def stored_weights(model: "keras.Model", dtype: str) -> dict[str, np.ndarray]:
    """Returns the weights as arrays, by the names in a new model.

    Adapters are merged into the kernels, so that the file fits a model of the
    same config and gives the same numbers.

    Args:
        model: `Transformer`.
        dtype: string. `"float32"` or `"float16"`.

    Returns:
        Dict of name to NumPy array.

    Raises:
        InputError: if a weight is not finite, or overflows the dtype; or if a
            layer is quantized.
    """
    import keras

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


def _merge(layer: "keras.layers.Layer", weights: dict[str, Tensor]) -> None:
    """Replaces a layer's kernel and adapters by the adapted kernel."""
    import keras

    own = {variable.name: weight_name(variable) for variable in layer.variables}
    for name in [name for name in own if name.startswith("lora_")]:
        # `lora_kernel_a` and `lora_kernel_b` adapt `kernel`.
        adapted = name.removeprefix("lora_").rsplit("_", 1)[0]
        if name.endswith("_a"):
            # Not the layer's own sum, which is in the dtype of its results.
            factors = (
                weights[own[f"lora_{adapted}_{end}"]].value for end in "ab"
            )
            product = keras.ops.matmul(*factors)
            scale = layer.lora_alpha / layer.lora_rank
            kernel = weights[own[adapted]].value
            weights[own[adapted]] = kernel + scale * product
    for name in [name for name in own if name.startswith("lora_")]:
        del weights[own[name]]


def check_finite(arrays: Mapping[str, Tensor], dtype: str = "float32") -> None:
    """Refuses weights that are not finite, or would overflow a dtype.

    A model with such weights would silently translate to nothing.

    Args:
        arrays: dict of name to array.
        dtype: string. The dtype to store them in. Defaults to `"float32"`.

    Raises:
        InputError: naming a weight and its largest magnitude.
    """
    for name, array in arrays.items():
        array = np.asarray(array)
        if not np.isfinite(array).all():
            raise InputError(not_finite(name))
        with np.errstate(over="ignore"):
            is_stored = np.isfinite(array.astype(dtype)).all()
        if not is_stored:
            raise InputError(
                f"`dtype` must have room for every weight; {dtype} ends at "
                f"{np.finfo(dtype).max:g}. Received: {name} with a magnitude "
                f"of {np.abs(array).max():g}. Store the weights in float32."
            )


def not_finite(name: str) -> str:
    """Returns the message for a weight that holds nan or inf."""
    return (
        f"The weights of the model must be finite. Received: {name} holds nan "
        "or inf; the training that made it diverged. Take a checkpoint from "
        "before."
    )


def _some(names: Sequence[str], most: int = 3) -> str:
    if not names:
        return "nothing"
    rest = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(names[:most]) + rest
