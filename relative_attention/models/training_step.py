"""A training step that is the same on one replica and on many.

Keras' own step goes wrong in four places once there are several replicas: it
clips gradients before they are added up; its loss scale looks at the first
replica alone; the step counter, and the seeds of dropout, move on when a data
set has ended; and what it shows is a mean of means. Here, on TensorFlow, a
batch goes through

    1. loss and gradients, of all rows or of one part of them after another,
       without logits where loss and metrics need none (`projected_scores.py`);
    2. their sums over all replicas;
    3. the loss that is shown;
    4. the update, unless it is not finite, and the length of its gradient.

On JAX, on one device, it is the same step (`jax_training_step.py`).
"""

from collections.abc import Callable
from collections.abc import Iterator
from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.models.batch_parts import BatchParts
from relative_attention.models.finite_update import gradient_norm
from relative_attention.models.finite_update import update_all_replicas
from relative_attention.models.jax_training_step import jax_train_step
from relative_attention.models.own_step import has_own_step
from relative_attention.models.projected_scores import projected_scores
from relative_attention.models.replica_function import on_all_replicas
from relative_attention.models.replica_function import sums_over_replicas
from relative_attention.models.whole_batch_loss import WholeBatchLoss
from relative_attention.ops.backend import num_replicas
from relative_attention.ops.backend import sum_over_replicas
from relative_attention.ops.losses import TokenScores
from relative_attention.ops.losses import token_weights
from relative_attention.tensor_type import Tensor

# Metrics of an update, which an evaluation makes none of.
_OF_UPDATES = ("gradient_norm", "skipped")


class TrainingStep(WholeBatchLoss):
    """A Keras model of token ids whose step is exact on several replicas.

    On PyTorch a step is Keras' own.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    train_function: Callable[..., Any] | None
    test_function: Callable[..., Any] | None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.is_projected = False
        # Of the last step on several replicas.
        self.step_sums: Tensor | None = None
        if has_own_step():
            self.gradient_norm_metric = keras.metrics.Mean(name="gradient_norm")
            self.skipped_metric = keras.metrics.Sum(name="skipped")

    def symbolic_batch(self) -> tuple[Any, Any]:
        """Returns a batch without numbers, as `fit` takes it.

        To be overridden; only asked for with several replicas.

        Returns:
            Pair of `keras.KerasTensor` inputs and labels, nested like a batch.
        """
        raise NotImplementedError(
            f"To train on several replicas, {type(self).__name__} must "
            "override `symbolic_batch`."
        )

    # === A step ===

    def train_step(self, *args: Any) -> Any:
        """Makes one update, on every replica with its own rows of the batch.

        Args:
            *args: as for `keras.Model.train_step`.

        Returns:
            Dict of the metrics; on JAX the pair of it and the new state.
        """
        if keras.backend.backend() == "jax":
            return jax_train_step(self, *args)
        if not _is_tensorflow():
            return super().train_step(*args)
        import tensorflow as tf

        (data,) = args
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        if not self.optimizer.built:
            with tf.init_scope():
                self.optimizer.build(self.trainable_variables)
        # A data set that has ended gives no batch, but what does not depend
        # on one would run all the same: counters, and seeds.
        batch = [
            tensor for tensor in tf.nest.flatten(data) if tensor is not None
        ]
        with tf.control_dependencies(batch):
            own_tokens = tf.reduce_sum(token_weights(y, sample_weight))
            of_part = {}
            if self.accumulation_steps > 1 or self.is_projected:
                of_part["num_tokens"] = sum_over_replicas(own_tokens)
            if self.accumulation_steps == 1:
                loss, gradients = self._gradients(
                    x, y, sample_weight, **of_part
                )
            else:
                loss, gradients = self._accumulated_gradients(
                    x, y, sample_weight, **of_part
                )
            loss, gradients = sums_over_replicas(loss, gradients)
            self.show_loss(loss, own_tokens)
            self._apply_if_finite(loss, gradients)
        return self.get_metrics_result()

    def _gradients(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        **of_part: Tensor,
    ) -> tuple[Tensor, list[Tensor | None]]:
        """Computes loss and gradients of rows, the latter times a loss scale.

        Args:
            x, y, sample_weight: rows of a batch.
            **of_part: `num_tokens` of `compute_loss`, if they are a part, or
                are scored without logits.
        """
        import tensorflow as tf

        with tf.GradientTape() as tape:
            y_pred = self._predictions(x, y, sample_weight, **of_part)
            loss = self._training_loss(x, y, y_pred, sample_weight, **of_part)
            scaled_loss = self.optimizer.scale_loss(loss)
        gradients = [
            # As slices, a row that is looked up twice would count as two in
            # the length of the gradient; and sums over replicas are dense
            # anyway.
            gradient if gradient is None else tf.convert_to_tensor(gradient)
            for gradient in tape.gradient(scaled_loss, self.trainable_variables)
        ]
        self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return loss, gradients

    def loss_of_rows(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        **of_part: Tensor,
    ) -> Tensor:
        """Computes the loss of rows in training, and counts their metrics.

        Args:
            x, y, sample_weight: rows of a batch.
            **of_part: `num_tokens` of `compute_loss`, if they are a part, or
                are scored without logits.
        """
        y_pred = self._predictions(x, y, sample_weight, **of_part)
        loss = self._training_loss(x, y, y_pred, sample_weight, **of_part)
        self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
        return loss

    def _training_loss(
        self,
        x: Any,
        y: Tensor,
        y_pred: Tensor | TokenScores,
        sample_weight: Tensor | None,
        **of_part: Tensor,
    ) -> Tensor:
        return self.compute_loss(
            x=x,
            y=y,
            y_pred=y_pred,
            sample_weight=sample_weight,
            training=True,
            **of_part,
        )

    def _predictions(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        **of_part: Tensor,
    ) -> Tensor | TokenScores:
        """Predicts rows: their logits, or what the loss makes of them."""
        if not self.is_projected:
            return self(x, training=True)
        (loss,) = keras.tree.flatten(self.loss)
        return projected_scores(self, loss, (x, y, sample_weight), **of_part)

    def _accumulated_gradients(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
    ) -> tuple[Tensor, list[Tensor]]:
        """Adds up loss and gradients of one part of the rows after another.

        Args:
            x, y, sample_weight: a replica's rows of a batch.
            num_tokens: float scalar, the weight of the tokens of the batch,
                all replicas together.
        """
        import tensorflow as tf

        parts = BatchParts(
            (x, y, sample_weight),
            num_rows=tf.shape(y)[0],
            num_parts=self.accumulation_steps,
            # XLA wants to know every shape before it runs.
            equal=bool(self.jit_compile),
        )

        def add_part(
            number: Tensor, loss: Tensor, sums: list[Tensor]
        ) -> tuple[Tensor, Tensor, list[Tensor]]:
            part_loss, gradients = self._gradients(
                *parts.part(number), num_tokens=num_tokens
            )
            sums = [
                added if gradient is None else added + gradient
                for added, gradient in zip(sums, gradients)
            ]
            return number + 1, loss + part_loss, sums

        zeros = [tf.zeros_like(weight) for weight in self.trainable_variables]
        _, loss, gradients = tf.while_loop(
            lambda number, loss, sums: parts.has(number),
            add_part,
            (tf.constant(0), tf.constant(0.0), zeros),
            parallel_iterations=1,
        )
        return loss, gradients

    def show_loss(self, loss: Tensor, own_tokens: Tensor) -> None:
        """Counts the loss of the whole batch in the mean over tokens.

        Each replica counts it with its own tokens: the metric adds them up.

        Args:
            loss: float scalar.
            own_tokens: float32 scalar, the weight of this replica's tokens.
        """
        # An update that is left out must not enter the mean.
        loss = ops.cast(loss, "float32")
        is_finite = ops.isfinite(loss)
        self.loss_metric.update_state(
            ops.where(is_finite, loss, 0.0),
            sample_weight=ops.where(is_finite, own_tokens, 0.0),
        )

    def _apply_if_finite(
        self, loss: Tensor, gradients: list[Tensor | None]
    ) -> None:
        """Updates the weights, or counts the step as skipped.

        Args:
            loss: float scalar, the sum over replicas.
            gradients: sums over replicas, times a loss scale; `None` for
                weights that the loss does not depend on.
        """
        import tensorflow as tf

        norm = gradient_norm(self.optimizer, gradients)
        is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
        is_usable = self.is_usable_update(loss, is_finite)
        self.show_update(norm, is_finite, is_usable)
        update_all_replicas(
            self.optimizer, self.trainable_variables, gradients, is_usable
        )

    def is_usable_update(self, loss: Tensor, is_finite: Tensor) -> Tensor:
        """Tells whether an update is to be made: bool scalar.

        Args:
            loss: float scalar.
            is_finite: bool scalar, whether it and the gradients are finite.
        """
        # A loss scale that is too large overflows gradients: its optimizer
        # leaves the update out itself, and lowers the scale. That is no step
        # to report.
        is_scaled = isinstance(
            self.optimizer, keras.optimizers.LossScaleOptimizer
        )
        return ops.isfinite(loss) if is_scaled else is_finite

    def show_update(
        self, norm: Tensor, is_finite: Tensor, is_usable: Tensor
    ) -> None:
        """Counts an update, and the length of its gradient.

        Args:
            norm: float scalar, that length.
            is_finite: bool scalar, whether loss and gradients are.
            is_usable: bool scalar, whether the update is made.
        """
        self.gradient_norm_metric.update_state(
            ops.where(is_finite, norm, 0.0), ops.cast(is_finite, "float32")
        )
        # A metric adds up what the replicas count.
        is_left_out = ops.logical_not(is_usable)
        self.skipped_metric.update_state(
            ops.cast(is_left_out, "float32") / num_replicas()
        )

    def test_step(self, *args: Any) -> Any:
        """Evaluates a batch as `keras.Model.test_step`.

        Args:
            *args: as for `keras.Model.test_step`.

        Returns:
            Dict of the metrics, without those of updates; on JAX the pair of
            it and the new state.
        """
        results = super().test_step(*args)
        if keras.backend.backend() == "jax":
            results, state = results
            return _without_updates(results), state
        return _without_updates(results) if _is_tensorflow() else results

    # === What `fit` calls ===

    def make_train_function(self, force: bool = False) -> Callable | None:
        if not self._is_replicated():
            return super().make_train_function(force)
        if self.train_function is None or force:
            step = on_all_replicas(self, self.train_step, self._sums_and_logs)

            def train(iterator: Iterator) -> dict[str, Tensor]:
                self.step_sums, logs = step(iterator)
                return logs

            self.train_function = train
        return None

    def make_test_function(self, force: bool = False) -> Callable | None:
        if not self._is_replicated():
            return super().make_test_function(force)
        if self.test_function is None or force:
            self.test_function = on_all_replicas(
                self,
                self.test_step,
                lambda: _without_updates(self.get_metrics_result()),
            )
        return None

    def _sums_and_logs(self) -> tuple[Tensor, dict[str, Tensor]]:
        """Returns the metrics' variables, added up once, and their results."""
        import tensorflow as tf

        variables = self.metrics_variables
        sums = [tf.convert_to_tensor(variable) for variable in variables]
        with keras.StatelessScope(zip(variables, sums)):
            logs = self.get_metrics_result()
        sums = [tf.reshape(tf.cast(s, "float32"), [-1]) for s in sums]
        return tf.concat(sums, 0), logs

    def _is_replicated(self) -> bool:
        return (
            _is_tensorflow()
            and self.distribute_strategy.num_replicas_in_sync > 1
        )

    def _maybe_symbolic_build(
        self, iterator: Any = None, data_batch: Any = None
    ) -> None:
        # Keras would add up the first batches of all replicas to see what
        # shape they have, and fails where they differ.
        if self._is_replicated():
            iterator, data_batch = None, self.symbolic_batch()
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)


def metric_sums(model: keras.Model) -> list[float]:
    """Returns the variables of a model's metrics after a training step.

    One of several machines may ask alone: what all replicas have counted was
    added up in the step.

    Args:
        model: compiled Keras model, whose metrics have scalar variables.
    """
    sums = getattr(model, "step_sums", None)
    if sums is None:
        sums = [
            keras.ops.convert_to_numpy(variable)
            for variable in model.metrics_variables
        ]
    return [float(value) for value in np.asarray(sums)]


def set_metric_sums(model: TrainingStep, sums: list[float]) -> bool:
    """Gives a model's metrics what `metric_sums` returned.

    Args:
        model: compiled `TrainingStep`.
        sums: list of floats.

    Returns:
        bool. Whether there is a number for each variable; if not, none is set.
    """
    if _is_tensorflow():
        # Keras would make some of the variables in the first step.
        with model.distribute_strategy.scope():
            model._symbolic_build(data_batch=model.symbolic_batch())
    variables = model.metrics_variables
    if len(variables) != len(sums):
        return False
    for variable, value in zip(variables, sums):
        variable.assign(value)
    return True


def _is_tensorflow() -> bool:
    return keras.backend.backend() == "tensorflow"


def _without_updates(results: dict[str, Tensor]) -> dict[str, Tensor]:
    return {
        name: value
        for name, value in results.items()
        if name not in _OF_UPDATES
    }
