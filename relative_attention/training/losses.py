"""Cross entropy over real tokens, with label smoothing."""

from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_number
from relative_attention.ops.backend import known_values
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import sum_over_replicas
from relative_attention.ops.cross_entropy import TokenScores
from relative_attention.ops.cross_entropy import projected_cross_entropy
from relative_attention.ops.cross_entropy import smoothed_cross_entropy
from relative_attention.ops.cross_entropy import token_weights
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class MaskedCrossEntropy(keras.losses.Loss):
    """Label-smoothed cross entropy, the mean over tokens that are not 0.

    This is tensor2tensor's training loss. The target distribution gives
    `1 - label_smoothing` to the label and spreads the rest evenly over the
    other `V - 1` ids. Its entropy is subtracted, so the lowest loss is 0. The
    sum over the tokens whose id is not 0 (the end of sentence counts) is
    divided by their number.

    Under a `tf.distribute` strategy the tokens of all replicas are counted.
    So the losses and gradients of the replicas add up to those of the whole
    batch, however unevenly it is split. Do not divide them by the number of
    replicas.

    Loss and gradient are computed in blocks of rows that stay in the
    processor's cache, without one-hot labels, and in float32, whatever the
    dtype of the logits.

    Args:
        label_smoothing: float. In `[0, 1)`. Defaults to `0.1`.
        check_labels: bool. Whether to check the range of ids in compiled steps
            and on accelerators, too. A step of TensorFlow then ends with an
            error; a step compiled by XLA, as on one GPU or on JAX, has a loss
            of `nan`, and a `Transformer` leaves out its update. Otherwise such
            ids may be read as ids of another row. Defaults to `False`.
        name: string. Defaults to `"masked_cross_entropy"`.

    Call arguments:
        y_true: int tensor `(B, T)` of labels, 0 where there is none.
        y_pred: float tensor `(B, T, V)` of logits.
        sample_weight: optional float tensor `(B,)` or `(B, T)`. Weights of
            sentences or tokens; the divisor is then the sum of the weights.
        num_tokens: optional float scalar, the divisor, if the rows are a part
            of a batch. Defaults to the number of tokens, or the sum of their
            weights, on all replicas.

    Returns:
        float32 scalar; 0 if all labels are 0.

    Raises:
        ValueError: if `label_smoothing` is out of range, a shape is wrong, or,
            outside a graph, an id is not in `[0, V)`.

    Example:
    >>> loss = ra.MaskedCrossEntropy(label_smoothing=0.0)
    >>> ids, logits = np.array([[5, 1, 0]]), np.zeros((1, 3, 100), "float32")
    >>> round(float(loss(ids, logits)), 3)  # log(100); 0 is padding
    4.605

    Reference:
     - [Szegedy et al., 2016](https://arxiv.org/abs/1512.00567), section 7
    """

    def __init__(
        self,
        label_smoothing: float = 0.1,
        name: str = "masked_cross_entropy",
        check_labels: bool = False,
    ) -> None:
        # The loss itself is the mean over tokens; Keras' reductions divide by
        # the number of sentences or positions.
        super().__init__(name=name, reduction="sum")
        self.label_smoothing = checked_number(
            "label_smoothing",
            label_smoothing,
            lambda rate: 0 <= rate < 1,
            "in [0, 1)",
        )
        self.check_labels = check_labels

    def __call__(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Tensor | None = None,
        num_tokens: Tensor | None = None,
    ) -> Tensor:
        # Keras would cast labels to float and all logits to float32 here.
        if num_tokens is None:
            # A subclass may have a `call` without it.
            return self.call(y_true, y_pred, sample_weight)
        return self.call(y_true, y_pred, sample_weight, num_tokens)

    def call(
        self,
        y_true: Tensor,
        y_pred: Tensor,
        sample_weight: Tensor | None = None,
        num_tokens: Tensor | None = None,
    ) -> Tensor:
        labels, weights = self._labels_and_weights(
            y_true, y_pred, sample_weight
        )
        if num_tokens is None:
            num_tokens = sum_over_replicas(ops.sum(weights))
        # No token at all: the sum is 0, and so is the mean.
        weights = weights / ops.where(num_tokens == 0, 1.0, num_tokens)
        return smoothed_cross_entropy(
            ops.reshape(y_pred, (-1, y_pred.shape[-1])),
            ops.reshape(labels, (-1,)),
            ops.reshape(weights, (-1,)),
            self.label_smoothing,
        )

    def score_projection(
        self,
        y_true: Tensor,
        hidden: Tensor,
        embeddings: keras.Variable | Tensor,
        bias: keras.Variable | Tensor | None,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
    ) -> TokenScores:
        """Computes the loss of the logits `hidden embeddings^T + bias`.

        The logits of all tokens are never in memory at once.

        Args:
            y_true: int tensor `(B, T)` of labels, 0 where there is none.
            hidden: float tensor `(B, T, D)`.
            embeddings: float tensor or variable `(V, D)`.
            bias: float tensor or variable `(V,)`, or `None`.
            sample_weight: optional float tensor `(B,)` or `(B, T)`.
            num_tokens: float scalar to divide by.

        Returns:
            `TokenScores`.

        Raises:
            ValueError: as a call.
        """
        logits = keras.KerasTensor((*hidden.shape[:2], embeddings.shape[0]))
        labels, weights = self._labels_and_weights(
            y_true, logits, sample_weight
        )
        loss, negative_log_likelihoods, matches = projected_cross_entropy(
            ops.reshape(hidden, (-1, hidden.shape[-1])),
            _value(embeddings),
            _value(bias),
            ops.reshape(labels, (-1,)),
            ops.reshape(weights, (-1,)),
            # No token at all: the sum is 0, and so is the mean.
            ops.where(num_tokens == 0, 1.0, num_tokens),
            self.label_smoothing,
        )
        shape = sizes(y_true)
        return TokenScores(
            ops.reshape(negative_log_likelihoods, shape),
            ops.reshape(matches, shape),
            loss,
        )

    def _labels_and_weights(
        self,
        y_true: Tensor,
        logits: Tensor,
        sample_weight: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Returns ids in `[0, V)`, and weights, `nan` where they were not."""
        is_checked = check_labels(y_true, logits, sample_weight)
        labels = ops.cast(y_true, "int32")
        weights = token_weights(y_true, sample_weight)
        if self.check_labels and not is_checked:
            vocabulary_size = logits.shape[-1]
            weights = _nan_where_wrong(weights, y_true, vocabulary_size)
            labels = ops.clip(labels, 0, vocabulary_size - 1)
        return labels, weights

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the constructor."""
        return {
            "label_smoothing": self.label_smoothing,
            "name": self.name,
            "check_labels": self.check_labels,
        }


def _value(weight: keras.Variable | Tensor | None) -> Tensor | None:
    """Reads a variable, as a custom gradient does not accept variables.

    An adapted or quantized matrix is a tensor already.
    """
    if isinstance(weight, keras.Variable):
        weight = weight.value
    if weight is None or keras.backend.backend() != "tensorflow":
        return weight
    import tensorflow as tf

    return tf.convert_to_tensor(weight)


def check_labels(
    labels: Tensor, logits: Tensor, sample_weight: Tensor | None = None
) -> bool:
    """Refuses labels and weights that do not fit the logits.

    Sizes that a TensorFlow graph does not know yet are compared when it runs;
    other backends know all sizes. Ids are checked if they can be read without
    waiting.

    Args:
        labels: int tensor `(B, T)`.
        logits: float tensor `(B, T, V)`.
        sample_weight: optional float tensor `(B,)` or `(B, T)`.

    Returns:
        bool: whether the ids were read and are right.

    Raises:
        ValueError: if a shape is wrong, or an id is not in `[0, V)`.
    """
    shape, logits_shape = tuple(labels.shape), tuple(logits.shape)
    if len(logits_shape) != 3 or not _agree(shape, logits_shape[:2]):
        raise ValueError(
            "`y_true` must have shape (B, T) and `y_pred` (B, T, V). "
            f"Received: y_true.shape={shape}, "
            f"y_pred.shape={logits_shape}."
        )
    if None in (*shape, *logits_shape[:2]):
        _check_when_run(labels, logits)
    weights = tuple(getattr(sample_weight, "shape", ()))
    rows = shape[:1]
    if not any(
        _agree(weights, allowed) for allowed in ((), rows, (*rows, 1), shape)
    ):
        raise ValueError(
            "`sample_weight` must have shape (B,) or (B, T), that of `y_true`. "
            f"Received: sample_weight.shape={weights}, y_true.shape={shape}."
        )
    is_array = isinstance(labels, np.ndarray)
    values = labels if is_array else known_values(labels)
    if values is None:
        return False
    # "Not in range": `nan` compares as false with everything.
    if values.size and not (
        values.min() >= 0 and values.max() < logits_shape[-1]
    ):
        raise ValueError(
            f"{_message(logits_shape[-1])} Received: ids from {values.min()} "
            f"to {values.max()}."
        )
    return True


def _nan_where_wrong(
    weights: Tensor, labels: Tensor, vocabulary_size: int
) -> Tensor:
    """Returns the weights, `nan` where an id is out of range.

    TensorFlow ends the step with an error. XLA and other backends cannot raise
    errors; there the loss is `nan`.
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
    return len(shape) == len(other) and all(
        None in (size, other_size) or size == other_size
        for size, other_size in zip(shape, other)
    )


def _check_when_run(labels: Tensor, logits: Tensor) -> None:
    if keras.backend.backend() != "tensorflow":
        return
    import tensorflow as tf

    # For Keras' symbolic shapes, there are no tensors.
    if tf.is_tensor(labels) and tf.is_tensor(logits):
        tf.debugging.assert_equal(
            tf.shape(labels),
            tf.shape(logits)[:2],
            "`y_true` must have shape (B, T) and `y_pred` (B, T, V).",
        )
