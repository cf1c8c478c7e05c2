"""Perplexity and accuracy of real tokens."""

from typing import Any

import keras
from keras import ops

from relative_attention.ops.cross_entropy import TokenScores
from relative_attention.ops.cross_entropy import score_logits
from relative_attention.ops.cross_entropy import token_weights
from relative_attention.tensor_type import Tensor
from relative_attention.training.losses import check_labels


class TokenMean(keras.metrics.Mean):
    """The mean of a field of `TokenScores` over tokens whose label is not 0."""

    _field: str

    def update_state(
        self,
        y_true: Tensor,
        y_pred: Tensor | TokenScores,
        sample_weight: Tensor | None = None,
    ) -> None:
        if not isinstance(y_pred, TokenScores):
            check_labels(y_true, y_pred, sample_weight)
            y_pred = score_logits(y_pred, y_true)
        # As rows of one token: Keras would first take the mean of each row of a
        # matrix, and long batches would count less.
        super().update_state(
            ops.reshape(getattr(y_pred, self._field), (-1,)),
            ops.reshape(token_weights(y_true, sample_weight), (-1,)),
        )


@keras.saving.register_keras_serializable(package="relative_attention")
class Perplexity(TokenMean):
    """Computes the exponential of the mean negative log-likelihood.

    It has no label smoothing, and covers all tokens since the last reset whose
    label is not 0. It is the exponential of a mean, not a mean of perplexities.

    Args:
        name: string. Defaults to `"perplexity"`.
        dtype: dtype of the result.

    Call arguments:
        y_true: int tensor `(B, T)` of labels, 0 where there is none.
        y_pred: float tensor `(B, T, V)` of logits, or `TokenScores`.
        sample_weight: optional float tensor `(B,)` or `(B, T)`.

    Raises:
        ValueError: if a shape is wrong, or an id is not in `[0, V)`. In a
            graph ids are not checked here; `MaskedCrossEntropy` does that with
            `check_labels=True`.
    """

    _field = "negative_log_likelihoods"

    def __init__(self, name: str = "perplexity", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)

    def result(self) -> Tensor:
        """Returns the perplexity of the tokens since the last reset."""
        return ops.exp(super().result())


@keras.saving.register_keras_serializable(package="relative_attention")
class TokenAccuracy(TokenMean):
    """Computes the share of real tokens whose label has the highest logit.

    A tie counts as right.

    Args:
        name: string. Defaults to `"accuracy"`.
        dtype: dtype of the result.

    Call arguments:
        y_true: int tensor `(B, T)` of labels, 0 where there is none.
        y_pred: float tensor `(B, T, V)` of logits, or `TokenScores`.
        sample_weight: optional float tensor `(B,)` or `(B, T)`.

    Raises:
        ValueError: if a shape is wrong, or an id is not in `[0, V)`. In a
            graph ids are not checked here; `MaskedCrossEntropy` does that with
            `check_labels=True`.
    """

    _field = "matches"

    def __init__(self, name: str = "accuracy", dtype: Any = None) -> None:
        super().__init__(name=name, dtype=dtype)
