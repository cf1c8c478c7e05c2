"""Boolean masks: `True` is a real token, or an edge that may be used."""

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
