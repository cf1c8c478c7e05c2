"""Adam that keeps a moving average of the weights.

Keras' optimizers have an average, `use_ema`, and a callback that swaps it in,
`SwapEMAWeights`. This is not them, for three reasons:

- at the end of each `fit` Keras overwrites the weights by their average:
  training that goes on does so from there, so that a run which is resumed, or
  calls `fit` twice, is not the one that went through;
- its momentum is the same from the first update on, so that an average of few
  updates is mostly one of random weights; here the momentum warms up;
- checkpoints of this package hold the averages as variables of the optimizer,
  beside weights that training goes on from.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relative_attention.argument_checks import is_real
from relative_attention.tensor_type import Tensor
from relative_attention.training.one_pass_adam import apply_adam
from relative_attention.training.one_pass_adam import beta_powers

# How fast the average forgets at the beginning; see `AveragingAdam`.
_WARM_UP = 9


@keras.saving.register_keras_serializable(package="relative_attention")
class AveragingAdam(keras.optimizers.Adam):
    """Adam, and beside the weights an exponential moving average of them.

    After update `t`, 0 first,

        average = m * average + (1 - m) * weights
        m = min(ema_momentum, t / (t + 9))

    so the average begins as the weights after the first update, and forgets
    the first ones, random still, as fast as it learns of better ones. An
    update that is left out, as one that is not finite, does not count; nor
    does a step that only adds to the gradients of a later update
    (`gradient_accumulation_steps`).

    Training never sees the average, unlike that of Keras' `use_ema`;
    `averaged_weights` puts it into a model for a while. The averages are
    variables of the optimizer, saved with it.

    Args:
        learning_rate: as for `keras.optimizers.Adam`.
        ema_momentum: float in `[0, 1)`, or `None` for no average. About the
            last `1 / (1 - ema_momentum)` updates count.
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
        if ema_momentum is not None and not (
            is_real(ema_momentum) and 0 <= ema_momentum < 1
        ):
            raise ValueError(
                "`ema_momentum` must be in [0, 1), or None for no average. "
                f"Received: ema_momentum={ema_momentum}."
            )
        super().__init__(learning_rate, **kwargs)
        self.ema_momentum = ema_momentum
        self.averages: list[keras.Variable | None] = []
        # Computed once an update, for all weights.
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
        """Updates one weight; on TensorFlow in one pass (`apply_adam`).

        Args:
            gradient: float tensor.
            variable: the weight.
            learning_rate: float scalar.
        """
        if keras.backend.backend() != "tensorflow" or self.amsgrad:
            super().update_step(gradient, variable, learning_rate)
            return
        if self._beta_powers is None:
            self._beta_powers = beta_powers(
                self.iterations, self.beta_1, self.beta_2
            )
        index = self._get_variable_index(variable)
        apply_adam(
            variable,
            (self._momentums[index], self._velocities[index]),
            gradient,
            learning_rate,
            (self.beta_1, self.beta_2),
            self._beta_powers,
            self.epsilon,
        )

    def averaged_variables(
        self,
    ) -> list[tuple[keras.Variable, keras.Variable]]:
        """Returns the variables together with their averages.

        Returns:
            List of pairs of a variable, as the optimizer was built with, and
            its average.
        """
        return [
            (variable, average)
            for variable, average in zip(
                self._trainable_variables, self.averages
            )
            # Some, like scales of float8, Keras keeps nothing of.
            if average is not None
        ]

    def _update_averages(self) -> None:
        # `t` of the formula: this update is counted already.
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
    """Moves the averages of every replica: they keep copies."""
    import tensorflow as tf

    # To assign from within a replica would compare the copies of all first.
    def move(average: Tensor, variable: Tensor, weight: Tensor) -> None:
        average.assign_add(weight * (variable - average))

    def update(strategy: "tf.distribute.Strategy", weight: Tensor) -> None:
        for variable, average in pairs:
            strategy.extended.update(
                average.value, move, args=(variable.value, weight), group=False
            )

    tf.distribute.get_replica_context().merge_call(update, args=(weight,))
