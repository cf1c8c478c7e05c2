"""Adam that keeps a moving average of the weights.

Why not Keras' own average, `use_ema`, and its callback `SwapEMAWeights`?

- At the end of each `fit` Keras overwrites the weights with their average. A
  run that is resumed, or calls `fit` twice, would continue from the average.
- Its momentum is constant, so after a few updates the average mostly consists
  of random weights. Here the momentum warms up.
- Checkpoints of this package hold the averages as variables of the optimizer,
  separate from the weights that training continues from.
"""

import contextlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_number
from relative_attention.tensor_type import Tensor
from relative_attention.training.update import on_devices_of

# How fast the momentum warms up; see `AveragingAdam`.
_WARM_UP = 9


@keras.saving.register_keras_serializable(package="relative_attention")
class AveragingAdam(keras.optimizers.Adam):
    """Adam with an exponential moving average of the weights.

    After update `t`, from 0,

        average = m * average + (1 - m) * weights
        m = min(ema_momentum, t / (t + 9))

    so the average starts with the weights after the first update, and the
    first, still random weights soon lose their influence. A skipped update does
    not count; nor does a step that only adds to the gradients of a later update
    (`gradient_accumulation_steps`).

    Unlike Keras' `use_ema`, the average never affects training.
    `averaged_weights` puts it into a model temporarily. The averages are
    variables of the optimizer, saved with it.

    Args:
        learning_rate: as for `keras.optimizers.Adam`.
        ema_momentum: float in `[0, 1)`, or `None` for no average. The average
            is over about the last `1 / (1 - ema_momentum)` updates.
        **kwargs: other arguments of `keras.optimizers.Adam`.

    Reference:
     - [Polyak and Juditsky, 1992](https://doi.org/10.1137/0330046)
     - `tf.train.ExponentialMovingAverage`, whose `num_updates` limits the
       momentum in the same way.
    """

    def __init__(
        self,
        learning_rate: Any = 0.001,
        ema_momentum: float | None = 0.999,
        **kwargs: Any,
    ) -> None:
        if ema_momentum is not None:
            ema_momentum = checked_number(
                "ema_momentum",
                ema_momentum,
                lambda momentum: 0 <= momentum < 1,
                "in [0, 1), or None for no average",
            )
        super().__init__(learning_rate, **kwargs)
        self.ema_momentum = ema_momentum
        self.averages: list[keras.Variable | None] = []
        # Computed once per update, for all weights.
        self._beta_powers: list[Tensor] | None = None

    def build(self, var_list: Sequence[keras.Variable]) -> None:
        if self.built:
            return
        super().build(var_list)
        if self.ema_momentum is not None:
            self.averages = self.add_optimizer_variables(var_list, "average")

    def apply(
        self,
        grads: Sequence[Tensor],
        trainable_variables: Sequence[keras.Variable] | None = None,
    ) -> None:
        self._beta_powers = None
        super().apply(grads, trainable_variables)
        self._beta_powers = None
        if self.averages and len(grads) > 0:
            self._update_averages()

    def update_step(
        self, gradient: Tensor, variable: Any, learning_rate: Tensor
    ) -> None:
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        # Updates a `tf.Variable` of one replica, and its moments, in one pass:
        #
        #     m += (g - m) (1 - beta_1)
        #     v += (g^2 - v) (1 - beta_2)
        #     w -= a m / (sqrt(v) + epsilon)
        #     a  = learning_rate sqrt(1 - beta_2^t) / (1 - beta_1^t)
        #
        # Keras computes this with some twenty operations per weight, each a
        # pass over memory: a tenth of the step of a small model on a CPU, and a
        # quarter of the nodes of its graph. Only the rounding of `1 - beta`
        # differs from Keras.
        import tensorflow as tf

        if self._beta_powers is None:
            step = ops.cast(self.iterations + 1, "float32")
            self._beta_powers = [
                ops.power(ops.convert_to_tensor(beta, "float32"), step)
                for beta in (self.beta_1, self.beta_2)
            ]

        def scalar(value: Tensor | float) -> Tensor:
            return tf.cast(value, variable.dtype)

        index = self._get_variable_index(variable)
        tf.raw_ops.ResourceApplyAdam(
            var=variable.handle,
            m=self._momentums[index].value.handle,
            v=self._velocities[index].value.handle,
            beta1_power=scalar(self._beta_powers[0]),
            beta2_power=scalar(self._beta_powers[1]),
            lr=scalar(learning_rate),
            beta1=scalar(self.beta_1),
            beta2=scalar(self.beta_2),
            epsilon=scalar(self.epsilon),
            grad=scalar(gradient),
        )

    def averaged_variables(
        self,
    ) -> list[tuple[keras.Variable, keras.Variable]]:
        """Returns pairs of a weight and its average."""
        return [
            (variable, average)
            for variable, average in zip(
                self._trainable_variables, self.averages
            )
            # Keras keeps no average of some variables, such as float8 scales.
            if average is not None
        ]

    def _update_averages(self) -> None:
        # `t` of the formula: this update is already counted.
        updates_before = ops.cast(self.iterations, "float32") - 1.0
        momentum = ops.minimum(
            self.ema_momentum, updates_before / (updates_before + _WARM_UP)
        )
        weight = 1.0 - momentum
        steps = self.gradient_accumulation_steps
        if steps:
            is_update = ops.equal(self._iterations % steps, 0)
            weight = ops.where(is_update, weight, 0.0)
        pairs = self.averaged_variables()
        if keras.backend.backend() == "tensorflow":
            _update_on_all_replicas(pairs, weight)
            return
        for variable, average in pairs:
            average.assign_add(weight * (variable - average))


def _update_on_all_replicas(
    pairs: list[tuple[keras.Variable, keras.Variable]], weight: Tensor
) -> None:
    """Updates the copies of the averages on every replica."""
    import tensorflow as tf

    # An assignment within a replica would first compare all copies.
    def move(average: Tensor, variable: Tensor, weight: Tensor) -> None:
        change = tf.cast(weight, average.dtype) * (variable - average)
        average.assign_add(change)

    def update(strategy: "tf.distribute.Strategy", weight: Tensor) -> None:
        for variable, average in pairs:
            strategy.extended.update(
                average.value, move, args=(variable.value, weight), group=False
            )

    tf.distribute.get_replica_context().merge_call(update, args=(weight,))


@contextlib.contextmanager
def averaged_weights(model: keras.Model) -> Iterator[None]:
    """Gives a model the moving average of its weights, within a context.

    Use it to evaluate, translate and save, not to train. Afterwards, even
    after an exception, the weights are restored, bit for bit. Nothing changes
    before the first update, or if the optimizer keeps no average (see
    `AveragingAdam`). Weights that were frozen when the optimizer was built do
    not change.

    The original weights are kept in host memory, as a device may not have room
    for both.

    Args:
        model: compiled Keras model.
    """
    swapped = _Swapped(model)
    try:
        swapped.put_averages()
        yield
    finally:
        swapped.put_back()


class _Swapped:
    """The weights of a model and their averages, each to be put into it."""

    def __init__(self, model: keras.Model) -> None:
        optimizer = getattr(model.optimizer, "inner_optimizer", model.optimizer)
        self._pairs = []
        if isinstance(optimizer, AveragingAdam) and optimizer.averages:
            # 0 before the first update.
            if keras.ops.convert_to_numpy(optimizer.iterations):
                # Not from the model, whose list changes with `trainable`.
                self._pairs = optimizer.averaged_variables()
        # Copies, as on some backends the array shares the variable's memory.
        self._own = [
            np.array(keras.ops.convert_to_numpy(v)) for v, _ in self._pairs
        ]

    def put_averages(self) -> None:
        for variable, average in self._pairs:
            # Copies again: JAX donates the memory of updated variables.
            variable.assign(keras.ops.copy(average))

    def put_back(self) -> None:
        for (variable, _), value in zip(self._pairs, self._own):
            variable.assign(on_devices_of(variable, value))


class AveragedValidation(keras.callbacks.Callback):
    """Validates, in `fit` and `evaluate`, with the averaged weights.

    Put it first in the list of callbacks. If a validation raises an error,
    `restore` restores the model's own weights.
    """

    def __init__(self) -> None:
        super().__init__()
        # No context manager: after an error that nobody handles, Python would
        # close it when it frees it, and the devices may be lost by then.
        self._swapped: _Swapped | None = None

    def on_test_begin(self, logs: dict[str, Any] | None = None) -> None:
        """Replaces the weights by their averages."""
        self.restore()
        self._swapped = _Swapped(self.model)
        self._swapped.put_averages()

    def on_test_end(self, logs: dict[str, Any] | None = None) -> None:
        """Puts the weights back."""
        self.restore()

    def restore(self) -> None:
        """Restores the model's own weights."""
        if self._swapped is not None:
            self._swapped.put_back()
            self._swapped = None
