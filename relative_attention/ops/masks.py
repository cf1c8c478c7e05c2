"""Boolean masks: `True` means a real token, or an edge that may be used."""

from keras import ops

PADDING_ID = 0
# Far below any logit, yet finite: a row of -inf would make softmax nan.
MASKED_LOGIT = -1e9


def padding_mask(token_ids):
    """Which tokens are real: `(B, T)` int -> `(B, T)` bool, `True` = real.

    Id 0 is padding wherever it stands, as in tensor2tensor.
    """
    return ops.not_equal(token_ids, PADDING_ID)


def causal_mask(query_positions, key_positions):
    """Which keys lie not after each query: `(T,), (S,)` int -> `(T, S)` bool.

    Like `clipped_relative_positions` it takes absolute positions, so that a
    single query in cached decoding gets the row it has in training.
    """
    return ops.less_equal(key_positions[None, :], query_positions[:, None])


def hide_masked(logits, mask):
    """Logits as they are where a query may attend, elsewhere far below.

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
