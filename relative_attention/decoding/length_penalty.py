"""The length penalty of GNMT, by which hypotheses of any length compare."""

from keras import ops

from relative_attention.tensor_type import Tensor


def length_penalty(length: Tensor, alpha: Tensor) -> Tensor:
    """Computes the length penalty of a hypothesis.

    A log-probability is a sum over tokens, so that longer hypotheses have
    lower ones. GNMT divides it by a penalty that grows with the length:

        score(Y, X) = log P(Y | X) / lp(Y)
        lp(Y) = (5 + |Y|)^alpha / (5 + 1)^alpha

    Args:
        length: int tensor of any shape, `|Y|`: the number of tokens, the end
            of sentence included.
        alpha: float scalar. `0.0` makes every penalty 1, so that
            log-probabilities alone compare.

    Returns:
        Float32 tensor of the shape of `length`.

    Reference:
     - [Wu et al., 2016](https://arxiv.org/abs/1609.08144), eq. 14
    """
    length = ops.cast(length, "float32")
    # Wu et al. (2016), eq. 14; the coverage penalty cp(X; Y) is left out.
    return ops.power((5.0 + length) / 6.0, alpha)
