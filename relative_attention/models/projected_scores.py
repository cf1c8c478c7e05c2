"""Scores a batch without ever holding all of its logits.

A step that knows its loss and metrics needs no logits: `projected_scores`
gives both what they make of them. Who brings another loss, other metrics, or a
model that computes its logits in another way, gets a step with logits.
"""

from collections.abc import Iterable
from typing import Any

import keras
from keras import ops

from relative_attention.models.consistency import Consistency
from relative_attention.ops.token_scores import TokenScores
from relative_attention.tensor_type import Tensor


def can_project(model: Any, loss: Any, metrics: Iterable[Any]) -> bool:
    """Tells whether a step can do without logits.

    Args:
        model: a `keras.Model`.
        loss: its compiled loss.
        metrics: its compiled metrics.

    Returns:
        bool: whether model, loss and metrics have the methods of
        `Transformer`, of `MaskedCrossEntropy`, and of metrics that take
        `TokenScores`, not overridden in part by a subclass.
    """
    cls = type(model)
    return (
        _is_whole(
            cls, "decoder_outputs", "call", "encode", "decode", "_project"
        )
        and _is_whole(type(model.output_embedding), "logits")
        and _is_whole(cls, "compute_loss")
        # Whoever overrides this one is given what metrics are given.
        and cls.compute_metrics is keras.Model.compute_metrics
        and _is_whole(type(loss), "score_projection", "call", "__call__")
        and all(
            getattr(metric, "takes_token_scores", False)
            and _is_whole(type(metric), "takes_token_scores", "update_state")
            for metric in metrics
        )
    )


def projected_scores(
    model: Any,
    loss: Any,
    consistency: Consistency | None,
    batch: tuple[Any, Tensor, Tensor | None],
    num_tokens: Tensor,
    part: int | Tensor = 0,
) -> TokenScores:
    """Predicts and scores rows of a batch, as in training.

    Args:
        model: a `Transformer`.
        loss: a `MaskedCrossEntropy`.
        consistency: how two views of each sentence are to agree, or `None`
            for one view.
        batch: triple of inputs, labels `(B, T)`, and their weights or `None`.
        num_tokens: float32 scalar, the weight of all tokens of the update.
        part: int scalar, which of its parts the rows are, 0 first.
    """
    x, y, sample_weight = batch
    terms: dict[str, Any] = {}
    copies = 1
    if consistency is not None:
        x = consistency.two_views(x, model.optimizer.iterations, part)
        terms = consistency.loss_terms()
        copies = 2
    hidden = model.decoder_outputs(x, training=True)
    hidden = ops.reshape(hidden, (copies, *ops.shape(y), hidden.shape[-1]))
    return loss.score_projection(
        y,
        hidden,
        _value(model.output_embedding.embeddings),
        _value(model.output_bias),
        sample_weight,
        num_tokens,
        **terms,
    )


def _value(variable: keras.Variable | None) -> Tensor | None:
    """Reads a variable: what has a gradient of its own takes no variables."""
    if variable is None:
        return None
    if keras.backend.backend() != "tensorflow":
        return variable.value
    import tensorflow as tf

    return tf.convert_to_tensor(variable.value)


def _is_whole(cls: type, name: str, *others: str) -> bool:
    """Tells whether one class defines a method together with others.

    Where a subclass overrides one of them, the others may no longer say the
    same.
    """
    definer = _definer(cls, name)
    if not others:
        # Of this package, and not of whoever uses it.
        module = getattr(definer, "__module__", "")
        return module.startswith("relative_attention.")
    return definer is not None and all(
        _definer(cls, other) is definer for other in others
    )


def _definer(cls: type, name: str) -> type | None:
    return next((base for base in cls.__mro__ if name in vars(base)), None)
