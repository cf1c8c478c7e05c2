"""A loss that adds up to that of the whole batch, over replicas and parts.

Each replica, or each part of its rows, divides the sum of its tokens' losses
by the number of tokens of the whole batch. Counting those takes a sum over
replicas; a step makes it once: `MaskedCrossEntropy` does where every replica
takes its rows at once, and the step does before it takes parts, inside whose
loop replicas cannot meet.
"""

import inspect
from collections.abc import Callable
from typing import Any

import keras
from keras import ops

from relative_attention.models.own_step import has_own_step
from relative_attention.ops.backend import num_replicas
from relative_attention.ops.backend import sum_over_replicas
from relative_attention.ops.losses import TokenScores
from relative_attention.ops.losses import token_weights
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor


class WholeBatchLoss(keras.Model):
    """A Keras model of token ids that shows the mean loss over tokens.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loss_weight = 1.0
        self.accumulation_steps = 1
        self.loss_metric = keras.metrics.Mean(name="loss")
        self.tokens_metric = keras.metrics.Sum(name="tokens")

    def count_tokens(self, x: Any, y: Tensor) -> Tensor:
        """Counts the tokens of a batch, which `fit` shows as `tokens`.

        To be overridden by models whose inputs have other names. Counts
        labels, and `"source_token_ids"` where the inputs have them.

        Args:
            x: inputs of the model.
            y: int tensor `(B, T)` of labels, 0 where there is none.

        Returns:
            float32 scalar.
        """
        num_tokens = ops.sum(ops.cast(padding_mask(y), "float32"))
        if isinstance(x, dict) and "source_token_ids" in x:
            source = padding_mask(x["source_token_ids"])
            num_tokens = num_tokens + ops.sum(ops.cast(source, "float32"))
        return num_tokens

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor | None = None,
        y_pred: Tensor | TokenScores | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
        num_tokens: Tensor | None = None,
    ) -> Tensor:
        """Computes the loss as `keras.Model.compute_loss`, and counts tokens.

        Args:
            x: inputs of the model.
            y: int tensor `(B, T)` of labels.
            y_pred: float tensor `(B, T, V)` of logits; or `TokenScores`, with
                `num_tokens`.
            sample_weight: optional float tensor `(B,)` or `(B, T)`.
            training: bool. Whether the model is trained or evaluated.
            num_tokens: float scalar where `y` is one of several parts of a
                batch, or was scored already: the weight of all its tokens, on
                all replicas.
                Defaults to `None`, where replicas take their rows at once.

        Returns:
            float32 scalar: what this replica, or part, adds to the loss of
            the whole batch.
        """
        if num_tokens is None:
            if num_replicas() > 1:
                self._check_added_losses()
            loss = super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
        else:
            is_whole = isinstance(y_pred, TokenScores) and num_replicas() == 1
            if not is_whole or self.accumulation_steps > 1:
                self._check_added_losses()
            loss = self._loss_of_part(
                x, y, y_pred, sample_weight, training, num_tokens
            )
        if x is not None and y is not None:
            self.tokens_metric.update_state(self.count_tokens(x, y))
            # Our own step shows the loss itself, when it has the sum over
            # replicas and parts.
            if not (training and has_own_step()):
                self.loss_metric.update_state(
                    sum_over_replicas(ops.cast(loss, "float32")),
                    sample_weight=ops.sum(token_weights(y, sample_weight)),
                )
        return loss

    def _loss_of_part(
        self,
        x: Any,
        y: Tensor,
        y_pred: Tensor | TokenScores,
        sample_weight: Tensor | None,
        training: bool,
        num_tokens: Tensor,
    ) -> Tensor:
        """Computes a part's share of the loss of the whole batch.

        With weights `w` of tokens, regularizers `R` of the model's weights
        and `W = num_tokens`, the losses of all parts add up to

            sum(w * token_losses) / W + R,    share = sum(w of the part) / W
        """
        share = ops.sum(token_weights(y, sample_weight)) / ops.maximum(
            num_tokens, 1e-9
        )
        regularization = sum(map(ops.sum, self.losses)) if self.losses else 0.0
        if isinstance(y_pred, TokenScores):
            return y_pred.loss * self.loss_weight + share * regularization
        token_loss = _loss_over_tokens(self.loss)
        if token_loss is not None:
            loss = token_loss(y, y_pred, sample_weight, num_tokens=num_tokens)
            return loss * self.loss_weight + share * regularization
        # Of Keras' losses there is the mean over the part's own rows. It comes
        # with an `n`-th of the regularizers, as those of `n` replicas are
        # added up; but shares add up to 1 over all of them.
        loss = super().compute_loss(
            x, y, y_pred, sample_weight, training=training
        )
        return share * (loss + regularization * (1 - 1 / num_replicas()))

    def _check_added_losses(self) -> None:
        """Refuses losses of a call, which would be those of a part's rows."""
        if not self.losses:
            return
        num_regularized = sum(
            weight.regularizer is not None
            for weight in self.trainable_variables
        )
        if len(self.losses) > num_regularized:
            raise ValueError(
                "Losses that layers add in a call (`add_loss`, "
                "`activity_regularizer`) must not be there with several "
                "replicas or `accumulation_steps` over 1, where they would be "
                "those of a part of the batch. Received: "
                f"{len(self.losses) - num_regularized} such losses. "
                "Regularizers of weights work."
            )


def _loss_over_tokens(loss: Any) -> Callable | None:
    """Returns the compiled loss if it can be told what to divide by.

    `MaskedCrossEntropy` can, unless a subclass has another `call`.
    """
    losses = keras.tree.flatten(loss)
    call = getattr(losses[0], "call", None) if len(losses) == 1 else None
    if call is None or "num_tokens" not in inspect.signature(call).parameters:
        return None
    return losses[0]
