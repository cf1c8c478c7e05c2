"""Attention logits, scores and context vectors, with or without relations."""

from collections.abc import Callable

from keras import ops

from relative_attention.ops.masks import hide_masked
from relative_attention.ops.precision import widened
from relative_attention.ops.relative_attention_inner import (
    relative_attention_inner,
)
from relative_attention.tensor_type import Tensor


def attention_logits(
    query: Tensor, key: Tensor, key_relations: Tensor | None = None
) -> Tensor:
    """Computes the logits of eq. 5 of Shaw et al. (2018), or of eq. 2.

    Eq. 2 is the one without relations. The division by `sqrt(H)` is the
    caller's, as it is cheaper on the query than on the logits.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, S, H)`.
        key_relations: float tensor `(T, S, H)` or `(N, T, S, H)`, or `None`.

    Returns:
        Float tensor `(B, N, T, S)`.
    """
    if key_relations is None:
        return ops.matmul(query, ops.swapaxes(key, -1, -2))
    return relative_attention_inner(query, key, key_relations, transpose=True)


def attention_context(
    scores: Tensor, value: Tensor, value_relations: Tensor | None = None
) -> Tensor:
    """Computes the context vectors of eq. 3 of Shaw et al. (2018), or eq. 1.

    Eq. 1 is the one without relations.

    Args:
        scores: float tensor `(B, N, T, S)`.
        value: float tensor `(B, N, S, H_v)`.
        value_relations: float tensor `(T, S, H_v)` or `(N, T, S, H_v)`, or
            `None`.

    Returns:
        Float tensor `(B, N, T, H_v)`.
    """
    if value_relations is None:
        return ops.matmul(scores, value)
    return relative_attention_inner(
        scores, value, value_relations, transpose=False
    )


def masked_softmax(
    logits: Tensor,
    mask: Tensor | None = None,
    softmax: Callable[[Tensor], Tensor] = ops.softmax,
) -> Tensor:
    """Computes attention scores: softmax over the keys that are not masked.

    It is computed in float32 where the input is in half precision: in
    float16, -1e9 is -inf.

    Args:
        logits: float tensor `(B, N, T, S)`.
        mask: bool tensor of four axes that broadcasts to the shape of
            `logits`; `True` = may attend. Defaults to `None`, every key.
        softmax: function of a float tensor, over its last axis. Defaults to
            that of Keras.

    Returns:
        Tensor of the shape and dtype of `logits`. A row in which every key
        is masked is all zeros.
    """
    scores = softmax_over_keys(logits, mask, softmax)
    if mask is None:
        return scores
    # Without this a fully masked row would attend to every key equally.
    any_key = ops.any(mask, axis=-1, keepdims=True)
    return scores * ops.cast(any_key, scores.dtype)


def softmax_over_keys(
    logits: Tensor,
    mask: Tensor | None,
    softmax: Callable[[Tensor], Tensor] = ops.softmax,
) -> Tensor:
    """Computes what `masked_softmax` does but for fully masked rows.

    Such a row attends to every key equally.
    """
    dtype = logits.dtype
    logits = widened(logits)
    # Keras warns of a softmax over one key; at the first step of decoding
    # there is but one.
    if logits.shape[-1] == 1:
        softmax = _softmax_of_one
    if mask is not None:
        logits = hide_masked(logits, mask)
    return ops.cast(softmax(logits), dtype)


def _softmax_of_one(logits: Tensor) -> Tensor:
    # `exp(0) = 1`; written so, its gradient is 0 and not missing.
    return ops.exp(logits - logits)
