"""Keeps Keras from changing the bases of this package's models.

A model with inputs and outputs becomes a `Functional` one: Keras puts that
class below all bases of the model's class, for good and for everyone. Below
`TrainableModel` it would be below `Transformer`, too, which has no inputs and
outputs, and could not be made any more.
"""

import contextlib
from collections.abc import Iterator

from relative_attention.models.trainable import TrainableModel


@contextlib.contextmanager
def bases_kept() -> Iterator[None]:
    """Gives the lowest class of our models its base back, at the end.

    The model is a `Functional` one all the same, by the bases that KerasHub
    brings.
    """
    bases = TrainableModel.__bases__
    try:
        yield
    finally:
        TrainableModel.__bases__ = bases
