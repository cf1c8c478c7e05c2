"""Dropout that draws a quarter of the random numbers."""

import contextlib
import math
from collections.abc import Iterator
from collections.abc import Sequence

import keras
from keras import ops

from relative_attention.ops.backend import bytes_of
from relative_attention.ops.backend import replica_number
from relative_attention.ops.backend import sizes
from relative_attention.ops.dropout import DrawKept
from relative_attention.ops.dropout import Kept
from relative_attention.ops.dropout import drop
from relative_attention.tensor_type import Tensor

# With Keras' own layer, forward and backward pass for 2,048 rows of 512 on two
# CPU cores take 1.3 times as long on TensorFlow, 2.9 on JAX, 1.4 on PyTorch.
# Neither was measured on GPUs. A seed drops the same elements on all machines.

# The number of values of a byte.
_LEVELS = 256
# Eight bits resolve rates poorly that are closer to 0 or 1 than this.
_LEAST_RATE = 1 / 32
# A seed is two numbers: the seed of its generator and the count of draws. The
# stride is added to the first number for each replica. It is odd and large, to
# avoid the seeds of other layers.
_STRIDE = 0x9E3779B1
# The stride for each mask of a seed. It is below 2^31, as PyTorch's seeds are
# signed.
_NUMBER_STRIDE = 0x2545F491


@keras.saving.register_keras_serializable(package="relative_attention")
class Dropout(keras.layers.Dropout):
    """`keras.layers.Dropout` with 8 random bits per element instead of 32.

    On a CPU, dropout is a sixth of a training step, and most of its cost is
    drawing random numbers. An element is dropped if its byte is below a
    threshold. The threshold is `256 * rate`, rounded up or down at random once
    per call, so every element is dropped with probability `rate` to within
    2^-31. Kept elements are scaled by `1 / (1 - rate)`.

    Replicas drop different elements; with Keras' own layer they all drop the
    same.

    Takes the arguments of `keras.layers.Dropout`. With a `noise_shape`, or a
    rate that eight bits resolve poorly (under 1/32 or over 31/32), it computes
    like Keras' own layer.
    """

    def call(self, inputs: Tensor, training: bool | None = False) -> Tensor:
        if not self._drops(training):
            return inputs
        if self.noise_shape is not None:
            with replica_seeds(self.seed_generator) as seed:
                return keras.random.dropout(
                    inputs, self.rate, noise_shape=self.noise_shape, seed=seed
                )
        return drop(inputs, self._draw()(sizes(inputs)))

    def for_call(self, training: bool | None) -> DrawKept | None:
        """Returns the function that draws what one call keeps.

        The function takes a shape, and draws the same mask at every call. With
        the number of a block as its second argument, it draws another mask for
        each block.

        Args:
            training: as of a call.

        Returns:
            Function that returns `Kept`; or `None` if nothing is dropped.
        """
        return self._draw() if self._drops(training) else None

    def _drops(self, training: bool | None) -> bool:
        # The rate first: in `keras.RematScope`, JAX does not know `training`.
        try:
            return self.rate != 0 and bool(training)
        except TypeError as error:
            raise ValueError(
                "`training` must be True or False where something is dropped. "
                "On JAX, `keras.RematScope` hides which it is. Use "
                '`implementation="recompute"` in its place.'
            ) from error

    def _draw(self) -> DrawKept:
        scale = 1 / (1 - self.rate) if self.rate < 1 else 0.0
        with replica_seeds(self.seed_generator) as generator:
            seed = generator.next()

        def draw(
            shape: Sequence[int | Tensor], number: int | Tensor | None = None
        ) -> Kept:
            return Kept(self._draw_mask(shape, seed, number), scale)

        return draw

    def _draw_mask(
        self,
        shape: Sequence[int | Tensor],
        seed: Tensor,
        number: int | Tensor | None,
    ) -> Tensor:
        """Draws a mask that is `True` for the elements that are kept."""
        if number is not None:
            offset = ops.cast(number, seed.dtype) * _NUMBER_STRIDE
            seed = seed + ops.stack([offset, ops.zeros_like(offset)])
        seeds = _with_state(self.seed_generator, seed)
        if not _LEAST_RATE <= self.rate <= 1 - _LEAST_RATE:
            # In half precision 0 is drawn more often than a small rate.
            with seeds as generator:
                draws = keras.random.uniform(
                    shape, dtype="float32", seed=generator
                )
            return draws >= self.rate
        # Saved runs rely on what a seed draws: one word, then the bytes of the
        # words after it.
        size = math.prod(shape)
        with seeds as generator:
            words = keras.random.randint(
                (size // 4 + 2,),
                -(2**31),
                2**31 - 1,
                dtype="int32",
                seed=generator,
            )
        word, levels = words[0], bytes_of(words[1:])[:size]
        # 256 * rate = level + fraction: rounded up with probability fraction.
        level, fraction = divmod(self.rate * _LEVELS, 1)
        round_up = word < int(fraction * 2**32) - 2**31
        # Read as int8, bytes lie between -128 and 127.
        threshold = int(level) - _LEVELS // 2 + ops.cast(round_up, "int8")
        return ops.reshape(levels >= threshold, shape)


@contextlib.contextmanager
def replica_seeds(
    generator: keras.random.SeedGenerator,
) -> Iterator[keras.random.SeedGenerator]:
    """Makes a generator give a seed that differs between replicas.

    The state of `keras.random.SeedGenerator` is the same on all replicas, so
    dropout would drop the same elements on each. Within this context the
    generator has a state of this replica, and counts one draw. With one replica
    it does not change.
    """
    number = replica_number()
    if isinstance(number, int):
        yield generator
        return
    # Drawn outside the scope, which forgets assignments.
    seed = generator.next()
    # Replica 0 keeps the seed that all replicas share.
    stride = ops.convert_to_tensor(_STRIDE, seed.dtype)  # Too large for int32.
    offset = ops.cast(number, seed.dtype) * stride
    seed = seed + ops.stack([offset, ops.zeros_like(offset)])
    with _with_state(generator, seed):
        yield generator


@contextlib.contextmanager
def _with_state(
    generator: keras.random.SeedGenerator, seed: Tensor
) -> Iterator[keras.random.SeedGenerator]:
    """Makes a generator give a seed, and forget that it did."""
    with keras.StatelessScope(state_mapping=[(generator.state, seed)]):
        yield generator
