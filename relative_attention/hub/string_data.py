"""What `fit` takes: arrays of strings, as batches that any backend takes."""

from typing import Any

import keras
import numpy as np

from relative_attention.errors import InputError

# `fit`'s own when it is given arrays.
_BATCH_SIZE = 32


def string_batches(
    x: Any, y: Any, sample_weight: Any, batch_size: int | None
) -> tuple[Any, Any, Any, int | None]:
    """Makes a data set of arrays; what is no array stays as it is.

    On TensorFlow it is a `tf.data.Dataset`: what KerasHub would make of
    arrays wants all batches after the first few to be of their shapes.

    Args:
        x, y, sample_weight, batch_size: arguments of `fit`.

    Returns:
        The same four, of which the last three may be `None` now.

    Raises:
        InputError: if there are not as many of one as of the others.
    """
    if isinstance(x, tuple) and y is None and len(x) in (2, 3):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(x)
    if not is_array(x):
        return x, y, sample_weight, batch_size
    x, y, sample_weight = arrays_of(x, y, sample_weight)
    if keras.backend.backend() != "tensorflow":
        return x, y, sample_weight, batch_size
    import tensorflow as tf

    data = keras.utils.pack_x_y_sample_weight(x, y, sample_weight)
    dataset = tf.data.Dataset.from_tensor_slices(data)
    return dataset.batch(batch_size or _BATCH_SIZE), None, None, None


def check_targets(x: Any, y: Any) -> None:
    """Refuses sources without targets, from which nothing can be learnt.

    Args:
        x, y: arguments of `fit`.

    Raises:
        InputError: if there are none. What a generator will yield is not
            known, and not looked at.
    """
    if isinstance(x, tuple) or y is not None:
        return
    parts = getattr(x, "element_spec", x)
    has_targets = (
        "decoder_text" in parts or "decoder_token_ids" in parts
        if isinstance(parts, dict)
        else isinstance(parts, tuple)
    )
    if not has_targets and (parts is not x or is_array(x)):
        raise InputError(
            "There must be a target for each source. Received: `y=None`. Give "
            'targets as `y`, as the second of a pair, or as "decoder_text".'
        )


def split_arrays(
    x: Any, y: Any, sample_weight: Any, validation_split: float
) -> tuple[tuple[Any, Any, Any], tuple[Any, Any, Any]]:
    """Takes the last part of arrays for validation, as Keras does.

    Args:
        x, y, sample_weight: arguments of `fit`.
        validation_split: float. The share of the last part.

    Returns:
        Pair of triples: what to train on, and what to validate with.
    """
    arrays = arrays_of(x, y, sample_weight)
    (num_rows,) = {len(array) for array in keras.tree.flatten(arrays[0])}
    first = int(num_rows * (1 - validation_split))

    def part(rows: slice) -> Any:
        return keras.tree.map_structure(
            lambda array: None if array is None else array[rows], arrays
        )

    return part(slice(first)), part(slice(first, None))


def is_array(x: Any) -> bool:
    """Tells whether it is an array or a list, or a dict of them."""
    if isinstance(x, dict):
        return all(is_array(value) for value in x.values())
    return isinstance(x, list) or hasattr(x, "shape")


def arrays_of(x: Any, y: Any, sample_weight: Any) -> tuple[Any, Any, Any]:
    """Makes arrays of lists, and compares their lengths.

    Raises:
        InputError: if there are not as many of one as of the others.
    """

    def as_array(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: as_array(part) for name, part in value.items()}
        if isinstance(value, list) and value and isinstance(value[0], str):
            return np.array(value, object)
        return np.asarray(value) if isinstance(value, list) else value

    arrays = {
        "x": as_array(x),
        "y": as_array(y),
        "sample_weight": as_array(sample_weight),
    }
    lengths = {
        name: len(part)
        for whole, value in arrays.items()
        if value is not None
        for name, part in (
            value.items() if isinstance(value, dict) else [(whole, value)]
        )
    }
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n} of `{name}`" for name, n in lengths.items())
        raise InputError(
            "There must be a target for each source, and a weight for each "
            f"pair if there are any. Received: {listed}."
        )
    return arrays["x"], arrays["y"], arrays["sample_weight"]
