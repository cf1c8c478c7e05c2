"""Scores a batch without ever holding all of its logits.

A step that knows its loss and metrics needs no logits: `projected_scores`
gives both what they make of them. Who brings another loss, other metrics, or a
model that computes its logits in another way, gets a step with logits.
"""

from collections.abc import Iterable
from typing import Any

import keras

from relative_attention.ops.losses import TokenScores
from relative_attention.tensor_type import Tensor


def transformer_of(model: Any) -> Any:
    """Returns the `Transformer` that a model is, or is made of.

    Args:
        model: a `keras.Model`; one that puts a `Transformer` behind inputs of
            other names has it as its `transformer`.
    """
    return getattr(model, "transformer", model)


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
    cls, transformer = type(model), transformer_of(model)
    return (
        (transformer is model or _is_ours(cls, "call"))
        and _is_whole(
            type(transformer),
            "decoder_outputs",
            "call",
            "encode",
            "decode",
            "logits",
        )
        and _is_ours(type(transformer.output_embedding), "logits")
        and _is_ours(type(transformer.output_embedding), "matrix")
        and _is_ours(cls, "compute_loss")
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
    batch: tuple[Any, Tensor, Tensor | None],
    num_tokens: Tensor,
) -> TokenScores:
    """Predicts and scores rows of a batch, as in training.

    Args:
        model: a `Transformer`, or a model made of one, see `transformer_of`.
        loss: a `MaskedCrossEntropy`.
        batch: triple of inputs, labels `(B, T)`, and their weights or `None`.
        num_tokens: float32 scalar, the weight of all tokens of the update.
    """
    x, y, sample_weight = batch
    transformer = transformer_of(model)
    hidden = transformer.decoder_outputs(x, training=True)
    return loss.score_projection(
        y,
        hidden,
        _value(transformer.output_embedding.matrix()),
        _value(transformer.output_bias),
        sample_weight,
        num_tokens,
    )


def _value(weight: keras.Variable | Tensor | None) -> Tensor | None:
    """Reads a variable: what has a gradient of its own takes no variables.

    A matrix that is adapted or quantized is a tensor already.
    """
    if isinstance(weight, keras.Variable):
        weight = weight.value
    if weight is None or keras.backend.backend() != "tensorflow":
        return weight
    import tensorflow as tf

    return tf.convert_to_tensor(weight)


def _is_whole(cls: type, name: str, *others: str) -> bool:
    """Tells whether one class defines a method together with others.

    Where a subclass overrides one of them, the others may no longer say the
    same.
    """
    definer = _definer(cls, name)
    return definer is not None and all(
        _definer(cls, other) is definer for other in others
    )


def _is_ours(cls: type, name: str) -> bool:
    """Tells whether a method is this package's, and not its user's."""
    module = getattr(_definer(cls, name), "__module__", "")
    return module.startswith("relative_attention.")


def _definer(cls: type, name: str) -> type | None:
    return next((base for base in cls.__mro__ if name in vars(base)), None)
