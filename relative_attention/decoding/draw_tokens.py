"""A random token from logits: temperature, top-k and nucleus sampling."""

from collections.abc import Callable

from keras import ops

from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.tensor_type import Tensor


def tempered_logits(
    logits: Tensor, temperature: Tensor, forbid: Callable[[Tensor], Tensor]
) -> Tensor:
    """Divides logits by the temperature, shifted so that none is above 0.

    Args:
        logits: float tensor `(A, R, V)`.
        temperature: float scalar.
        forbid: makes those logits impossible that are not allowed.
    """
    allowed = forbid(logits)
    # The likeliest stays at 0 and nothing overflows, however small the
    # temperature; what is forbidden is not raised, however large.
    largest = ops.max(allowed, axis=-1, keepdims=True)
    return forbid((logits - largest) / temperature)


def draw_tokens(
    logits: Tensor, noise: Tensor, top_k: int | None, top_p: Tensor | None
) -> Tensor:
    """Draws a token for each row of logits, by the Gumbel-max trick.

    With `G_v` independent standard Gumbel numbers (Gumbel 1954),
    `argmax over v of (logit_v + G_v)` is `v` with probability
    `softmax(logits)_v`.

    Args:
        logits: float tensor `(A, R, V)`.
        noise: float tensor `(A, R, V)`, see `gumbel_noise`.
        top_k: int, or `None`: draw among the `top_k` likeliest.
        top_p: float scalar, or `None`: draw among the fewest likeliest whose
            probabilities reach it, of those that `top_k` leaves.

    Returns:
        Int32 tensor `(A, R)`.
    """
    size = logits.shape[-1]
    token_ids = None
    if top_k is not None or top_p is not None:
        # Sorted, the likeliest first; the noise of a token stays its own.
        logits, token_ids = ops.top_k(logits, min(top_k or size, size))
        noise = ops.take_along_axis(noise, token_ids, axis=-1)
    if top_p is not None:
        # Holtzman et al. (2020), eq. 2: the smallest set whose sum is at least
        # p. A token is in it if those before it have not reached p.
        weights = ops.exp(logits - logits[..., :1])
        reached = ops.cumsum(weights, axis=-1)
        is_kept = reached - weights < top_p * reached[..., -1:]
        logits = ops.where(is_kept, logits, IMPOSSIBLE)
    chosen = ops.argmax(logits + noise, axis=-1)
    if token_ids is not None:
        chosen = ops.take_along_axis(token_ids, chosen[..., None], axis=-1)
        chosen = chosen[..., 0]
    return ops.cast(chosen, "int32")
