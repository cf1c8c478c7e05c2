"""Boolean masks: `True` is a real token, or an edge that may be used."""

import functools

from keras import ops

from relative_attention.tensor_type import Tensor

PADDING_ID = 0
# Far below any logit, yet finite: a row of -inf would make softmax nan.
MASKED_LOGIT = -1e9


def padding_mask(token_ids: Tensor) -> Tensor:
    """Returns which tokens are real and not padding.

    Id 0 is padding wherever it stands, as in tensor2tensor.

    Args:
        token_ids: int tensor `(B, T)`.

    Returns:
        Bool tensor `(B, T)`. `True` = real token.
    """
    return ops.not_equal(token_ids, PADDING_ID)


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Returns which keys do not lie after each query.

    Like `clipped_relative_positions` it takes absolute positions, so that a
    single query in cached decoding gets the row it has in training.

    Args:
        query_positions: int tensor `(T,)`.
        key_positions: int tensor `(S,)`.

    Returns:
        Bool tensor `(T, S)`. `True` = may attend.
    """
    return ops.less_equal(key_positions[None, :], query_positions[:, None])


def merge_masks(
    length: int | Tensor,
    padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor | None:
    """Merges padding, a mask of a caller's own and causality to one mask.

    Args:
        length: int, or int scalar tensor. Number `T` of queries and keys.
        padding_mask: bool tensor `(B, T)`. `True` = real token.
        attention_mask: bool tensor, broadcast to `(B, T, T)`, or with an axis
            of heads to `(B, N, T, T)`. `True` = may attend.
        is_causal: A boolean to indicate whether a query attends only to its
            own and earlier positions. Defaults to `False`.

    Returns:
        Bool tensor that broadcasts to `(B, N, T, T)`, or `None` where every
        query may attend to every key.
    """
    masks = []
    if attention_mask is not None:
        mask = ops.cast(attention_mask, "bool")
        while len(mask.shape) < 3:
            mask = mask[None]
        masks.append(mask[:, None] if len(mask.shape) == 3 else mask)
    if padding_mask is not None:
        masks.append(ops.cast(padding_mask, "bool")[:, None, None, :])
    if is_causal:
        positions = ops.arange(length, dtype="int32")
        masks.append(causal_mask(positions, positions)[None, None])
    return functools.reduce(ops.logical_and, masks) if masks else None


def hide_masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Puts logits far below all others where a query may not attend.

    Args:
        logits: float tensor `(B, N, T, S)`; in float16 -1e9 would be -inf.
        mask: bool tensor that broadcasts to its shape. `True` = may attend.

    Returns:
        Tensor of the shape and dtype of `logits`.
    """
    # As bare numbers they would be of Keras' default float type.
    shown, hidden = (
        ops.convert_to_tensor(number, logits.dtype)
        for number in (0.0, MASKED_LOGIT)
    )
    return logits + ops.where(mask, shown, hidden)
