"""Functions that run on every replica of a strategy of TensorFlow."""

from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import keras

from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import tensorflow as tf


def is_mirrored(strategy: "tf.distribute.Strategy") -> bool:
    """Tells whether replicas, even a single one, meet outside compiled code.

    Args:
        strategy: `tf.distribute.Strategy`.
    """
    import tensorflow as tf

    return isinstance(
        strategy,
        (
            tf.distribute.MirroredStrategy,
            tf.distribute.MultiWorkerMirroredStrategy,
        ),
    )


def sums_over_replicas(
    loss: Tensor, gradients: list[Tensor | None]
) -> tuple[Tensor, list[Tensor | None]]:
    """Adds up loss and gradients of all replicas; each has the sums.

    Args:
        loss: float scalar.
        gradients: list of float tensors, or `None`.

    Returns:
        Pair of the same kinds.
    """
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return loss, gradients
    present = [gradient for gradient in gradients if gradient is not None]
    loss, *present = context.all_reduce("SUM", [loss, *present])
    summed = iter(present)
    return loss, [None if g is None else next(summed) for g in gradients]


def on_all_replicas(
    model: keras.Model,
    step: Callable[[Any], Any],
    results: Callable[[], Any],
) -> Callable[[Iterator], Any]:
    """Makes what `fit` calls with an iterator: a step on every replica.

    Metrics are read outside the replicas, where they are sums over all.

    Args:
        model: Keras model made within a strategy's scope.
        step: function of a replica's part of a batch.
        results: function without arguments that returns tensors, such as what
            is shown after the step.

    Returns:
        Function of an iterator of batches, that takes one batch of it and
        returns the results.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy

    def on_batch(batch: Any) -> dict[str, Tensor]:
        strategy.run(step, args=(batch,))
        return results()

    def on_next_batch(iterator: Any) -> dict[str, Tensor]:
        return on_batch(iterator.get_next())

    if not model.run_eagerly:
        on_batch = tf.function(on_batch, reduce_retracing=True, autograph=False)
        on_next_batch = tf.function(
            on_next_batch, reduce_retracing=True, autograph=False
        )

    def call(iterator: Iterator) -> Any:
        if isinstance(
            iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)
        ):
            return on_next_batch(iterator)
        return on_batch(next(iterator))

    return call
