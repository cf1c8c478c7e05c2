"""What dropout keeps and its scale, as one object, or `None`: no dropout."""

from collections.abc import Callable
from typing import NamedTuple

import keras
from keras import ops

from relative_attention.ops.backend import custom_gradient
from relative_attention.tensor_type import Tensor


class Kept(NamedTuple):
    """What dropout keeps; the rest becomes zero.

    Without dropout `None` takes its place, and nothing is scaled.

    Attributes:
        mask: bool tensor, `True` = kept.
        scale: float, `1 / (1 - rate)`, the factor of what is kept.
    """

    mask: Tensor
    scale: float

    def factors(self, dtype: str) -> Tensor:
        """Returns the factor of each element: 0, or `scale`."""
        # Two scalars, so that a product with the factors takes one pass.
        scale = ops.convert_to_tensor(self.scale, dtype)
        return ops.where(self.mask, scale, ops.zeros_like(scale))


# Draws what is kept, by shape and by the number of a block, if there are many.
DrawKept = Callable[..., Kept]


def drop(x: Tensor, kept: Kept | None) -> Tensor:
    """Computes dropout: the product with `Kept.factors`."""
    if kept is None:
        return x
    factors = kept.factors(x.dtype)
    if keras.backend.backend() != "tensorflow":
        return x * factors

    @custom_gradient
    def multiply(x: Tensor) -> tuple[Tensor, Callable[[Tensor], Tensor]]:
        # Written out, as the factors need no gradient.
        return x * factors, lambda upstream: upstream * factors

    return multiply(x)


# Each of the next two functions does half of `drop`. Gradients that are written
# by hand use them to apply the scale where there are fewer numbers.


def only_kept(x: Tensor, kept: Kept | None) -> Tensor:
    """Sets what is dropped to zero, and scales nothing."""
    if kept is None:
        return x
    return ops.where(kept.mask, x, ops.zeros((), x.dtype))


def scaled_as_kept(x: Tensor, kept: Kept | None) -> Tensor:
    """Scales as what is kept, and sets nothing to zero."""
    return x if kept is None else x * kept.scale
