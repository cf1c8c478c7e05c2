"""Random numbers that differ from replica to replica."""

import contextlib
from collections.abc import Iterator

import keras
from keras import ops

from relative_attention.ops.backend import replica_number
from relative_attention.tensor_type import Tensor

# A seed is two numbers: what its generator was made with, and the count of
# draws. The first tells replicas apart; odd and large, so that the seeds of
# other layers are not met.
_STRIDE = 0x9E3779B1


@contextlib.contextmanager
def replica_seeds(
    generator: keras.random.SeedGenerator,
) -> Iterator[keras.random.SeedGenerator]:
    """Makes a generator give one seed that differs from replica to replica.

    The state of `keras.random.SeedGenerator` is the same on all replicas of a
    `tf.distribute` strategy, so that dropout would drop the same elements on
    each. Within this context, the state reads as that of this replica. The
    generator counts one draw, the same on all replicas. With one replica,
    and on other backends than TensorFlow, the generator stays as it is.

    Args:
        generator: `keras.random.SeedGenerator`, which keeps the state.

    Yields:
        The generator, to be given to one function of `keras.random`.
    """
    number = replica_number()
    if isinstance(number, int):
        yield generator
        return
    # Drawn out here, because what is assigned within a scope is forgotten.
    seed = replica_seed(generator.next(), number)
    with keras.StatelessScope(state_mapping=[(generator.state, seed)]):
        yield generator


def replica_seed(seed: Tensor, number: int | Tensor) -> Tensor:
    """Computes a replica's seed from the one that all replicas share.

    Args:
        seed: uint32 or int32 tensor `(2,)`.
        number: int scalar, which replica this is, 0 first. Replica 0 keeps
            the shared seed.

    Returns:
        Tensor `(2,)` of the same dtype.
    """
    offset = ops.cast(number, seed.dtype) * _STRIDE
    return seed + ops.stack([offset, ops.zeros_like(offset)])
