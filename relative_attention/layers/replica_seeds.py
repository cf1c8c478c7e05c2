"""Random numbers that differ from replica to replica."""

import keras
from keras import ops

from relative_attention.ops.replicas import replica_number

# A seed is two numbers: what its generator was made with, and the count of
# draws. The first tells replicas apart; odd and large, so that the seeds of
# other layers are not met.
_STRIDE = 0x9E3779B1


def replica_seeds(generator):
    """A generator whose seeds differ from replica to replica.

    The state of `keras.random.SeedGenerator` is the same on all replicas of a
    `tf.distribute` strategy, so that dropout would drop the same elements on
    each.

    Args:
        generator: `keras.random.SeedGenerator`, which keeps the state.

    Returns:
        `keras.random.SeedGenerator`; `generator` itself where there is one
        replica, and on other backends than TensorFlow.
    """
    number = replica_number()
    if isinstance(number, int):
        return generator
    return _ReplicaSeeds(generator, number)


class _ReplicaSeeds(keras.random.SeedGenerator):
    """The seeds of a generator, moved apart by the number of a replica."""

    def __init__(self, generator, number):
        # No state of its own.
        self.generator = generator
        self.number = number

    def next(self, ordered=True):
        seed = self.generator.next(ordered=ordered)
        offset = ops.cast(self.number, seed.dtype) * _STRIDE
        return seed + ops.stack([offset, ops.zeros_like(offset)])
