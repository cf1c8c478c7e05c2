"""Checks labels where that costs nothing, and elsewhere on demand."""

from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.tensor_type import Tensor


def check_label_shapes(
    labels: Tensor, logits: Tensor, sample_weight: Tensor | None = None
) -> None:
    """Refuses labels and weights whose shapes are not those of the logits.

    What is not known before a graph runs is compared when it does, on
    TensorFlow; elsewhere all is known.

    Args:
        labels: int tensor `(B, T)`.
        logits: float tensor `(B, T, V)`.
        sample_weight: optional float tensor `(B,)` or `(B, T)`.

    Raises:
        ValueError: if a shape is wrong.
    """
    shape, logits_shape = tuple(labels.shape), tuple(logits.shape)
    if (
        len(logits_shape) != 3
        or len(shape) != 2
        or not _agree(shape, logits_shape[:2])
    ):
        raise ValueError(
            "`y_true` must have shape (B, T) and `y_pred` (B, T, V). "
            f"Received: y_true.shape={shape}, "
            f"y_pred.shape={logits_shape}."
        )
    if None in (*shape, *logits_shape[:2]):
        _check_when_run(labels, logits)
    if sample_weight is None:
        return
    weights = tuple(getattr(sample_weight, "shape", ()))
    rows = shape[:1]
    if not any(
        len(weights) == len(allowed) and _agree(weights, allowed)
        for allowed in ((), rows, (*rows, 1), shape)
    ):
        raise ValueError(
            "`sample_weight` must have shape (B,) or (B, T), that of `y_true`. "
            f"Received: sample_weight.shape={weights}, y_true.shape={shape}."
        )


def check_known_labels(
    labels: Tensor, vocabulary_size: int, anywhere: bool = False
) -> bool:
    """Refuses ids out of range, if they can be read without waiting.

    They can in arrays, and in tensors outside a graph in the processor's
    memory.

    Args:
        labels: int tensor `(B, T)`.
        vocabulary_size: int, `V`.
        anywhere: A boolean to indicate whether to wait for another device,
            too. Defaults to `False`.

    Returns:
        bool: whether they were read, and are right.

    Raises:
        ValueError: if an id is not in `[0, V)`.
    """
    values = _known_values(labels, anywhere)
    if values is None:
        return False
    if values.size:
        least, most = values.min(), values.max()
        # Not the other way round: that is false of nan.
        if not (least >= 0 and most < vocabulary_size):
            raise ValueError(
                f"{_message(vocabulary_size)} Received: ids from {least} to "
                f"{most}."
            )
    return True


def poison_wrong_labels(
    labels: Tensor, vocabulary_size: int, weights: Tensor
) -> Tensor:
    """Makes a loss with ids out of range an error, or nan, in a graph.

    TensorFlow ends the step with an error. A graph that XLA compiles has no
    errors, nor has one of another backend: there the loss is nan.

    Args:
        labels: int tensor `(B, T)`.
        vocabulary_size: int, `V`.
        weights: float tensor `(B, T)`, weights of the tokens in the loss.

    Returns:
        Float tensor `(B, T)`: the weights, nan where an id is out of range.
    """
    is_right = ops.logical_and(
        ops.greater_equal(labels, 0), ops.less(labels, vocabulary_size)
    )
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        tf.debugging.Assert(
            tf.reduce_all(is_right),
            [
                _message(vocabulary_size),
                "Received: ids from, to:",
                tf.reduce_min(labels),
                tf.reduce_max(labels),
            ],
        )
    return ops.where(is_right, weights, float("nan"))


def _message(vocabulary_size: int) -> str:
    return (
        f"`y_true` must hold ids in [0, {vocabulary_size}), the size of the "
        "last axis of `y_pred`, and 0 where there is no label."
    )


def _agree(shape: tuple[Any, ...], other: tuple[Any, ...]) -> bool:
    return all(
        None in (size, other_size) or size == other_size
        for size, other_size in zip(shape, other)
    )


def _check_when_run(labels: Tensor, logits: Tensor) -> None:
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    # A shape that is inferred symbolically has no tensors.
    if tf.is_tensor(labels) and tf.is_tensor(logits):
        tf.debugging.assert_equal(
            tf.shape(labels),
            tf.shape(logits)[:2],
            "`y_true` must have shape (B, T) and `y_pred` (B, T, V).",
        )


def _known_values(labels: Tensor, anywhere: bool) -> np.ndarray | None:
    """Returns labels as an array, or `None` where they cannot be read."""
    if isinstance(labels, np.ndarray | list | tuple):
        return np.asarray(labels)
    backend = keras.backend.backend()
    if isinstance(labels, keras.KerasTensor):
        return None
    if backend == "tensorflow":
        import tensorflow as tf

        if not tf.is_tensor(labels) or tf.is_symbolic_tensor(labels):
            return None
        is_near = "GPU" not in labels.device
    elif backend == "torch":
        import torch

        if torch.compiler.is_compiling() or labels.device.type == "meta":
            return None
        is_near = labels.device.type == "cpu"
    elif backend == "jax":
        import jax

        if isinstance(labels, jax.core.Tracer):
            return None
        is_near = all(device.platform == "cpu" for device in labels.devices())
    else:
        return None
    if not (is_near or anywhere):
        return None
    return keras.ops.convert_to_numpy(labels)
