"""Boolean masks: `True` means a real token, or an edge that may be used."""

from keras import ops

PADDING_ID = 0


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
