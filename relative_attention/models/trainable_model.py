"""What `fit` does with a model, on one replica or many."""

import numbers

import keras
from keras import ops

from relative_attention.models import tensorflow_step
from relative_attention.ops.masks import padding_mask
from relative_attention.ops.replicas import sum_over_replicas
from relative_attention.ops.token_log_likelihood import token_weights


class TrainableModel(keras.Model):
    """A Keras model of token ids whose steps are exact under `tf.distribute`.

    With `MaskedCrossEntropy`, a step on several replicas of a strategy is the
    step of one replica on the whole batch: with unequal numbers of tokens or
    rows, clipping of gradients, loss scaling, and several parts of a batch
    one after another. What `fit` shows as `loss` is the mean over tokens,
    `tokens` counts source and target tokens. Under TensorFlow an update whose
    loss or gradient is not finite is left out, on all replicas, and counted
    in `skipped`, and `gradient_norm` is the mean length of the gradient
    before it is clipped.

    On JAX and PyTorch a step is Keras' own.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.accumulation_steps = 1
        self.loss_metric = keras.metrics.Mean(name="loss")
        self.tokens_metric = keras.metrics.Sum(name="tokens")
        if keras.backend.backend() == "tensorflow":
            self.gradient_norm_metric = keras.metrics.Mean(name="gradient_norm")
            self.skipped_metric = keras.metrics.Sum(name="skipped")

    def compile(
        self, *args, jit_compile="auto", accumulation_steps=1, **kwargs
    ):
        """As `keras.Model.compile`, and:

        Args:
            jit_compile: `"auto"` is no XLA on a CPU, where it gains nothing
                and compiles anew for every length of a batch, nor on several
                replicas or under a `MirroredStrategy` of one, where it does
                not work.
            accumulation_steps: int. In how many parts, one after another, a
                replica takes its rows of a batch, for batches whose
                activations would not fit at once. The update is that of the
                whole batch. TensorFlow only. Defaults to `1`.
            *args, **kwargs: as for `keras.Model.compile`.

        Raises:
            ValueError: if an argument is out of range, or does not work with
                the backend or with several replicas.
        """
        is_tensorflow = keras.backend.backend() == "tensorflow"
        is_int = isinstance(accumulation_steps, numbers.Integral)
        if (
            not is_int
            or accumulation_steps < 1
            or (accumulation_steps > 1 and not is_tensorflow)
        ):
            raise ValueError(
                "`accumulation_steps` must be at least 1, and 1 on a backend "
                "other than TensorFlow. Received: accumulation_steps="
                f"{accumulation_steps!r} on {keras.backend.backend()}."
            )
        self.accumulation_steps = int(accumulation_steps)
        if is_tensorflow:
            strategy = self.distribute_strategy
            num_replicas = strategy.num_replicas_in_sync
            if num_replicas > 1:
                _check_replicas(num_replicas, jit_compile, kwargs)
            if jit_compile == "auto" and (
                tensorflow_step.is_mirrored(strategy)
                or not keras.distribution.list_devices("gpu")
            ):
                jit_compile = False
        super().compile(*args, jit_compile=jit_compile, **kwargs)

    def compile_from_config(self, config):
        # Keras leaves this to whoever overrides `compile`.
        self.compile(**keras.saving.deserialize_keras_object(config))
        self.optimizer.build(self.trainable_variables)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        loss = super().compute_loss(
            x, y, y_pred, sample_weight, training=training
        )
        if x is not None and y is not None:
            # The loss is a replica's sum over the number of all tokens;
            # weighted by that number it becomes a mean over the epoch.
            weight = ops.sum(token_weights(y, sample_weight))
            share = sum_over_replicas(weight) / ops.maximum(weight, 1e-9)
            loss_of_tokens = loss * share
            if training and keras.backend.backend() == "tensorflow":
                # An update that is left out is none; what is evaluated is.
                is_finite = ops.isfinite(loss)
                loss_of_tokens = ops.where(is_finite, loss_of_tokens, 0.0)
                weight = ops.where(is_finite, weight, 0.0)
            self.loss_metric.update_state(loss_of_tokens, sample_weight=weight)
            self.tokens_metric.update_state(
                ops.sum(ops.cast(padding_mask(y), "float32"))
                + ops.sum(
                    ops.cast(padding_mask(x["source_token_ids"]), "float32")
                )
            )
        return loss

    def train_step(self, *args):
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args)
        return tensorflow_step.train_step(self, *args)

    def make_train_function(self, force=False):
        if not self._is_replicated():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = tensorflow_step.on_all_replicas(
                self, self.train_step
            )

    def make_test_function(self, force=False):
        if not self._is_replicated():
            return super().make_test_function(force)
        if self.test_function is None or force:
            self.test_function = tensorflow_step.on_all_replicas(
                self, self.test_step
            )

    def _is_replicated(self):
        return (
            keras.backend.backend() == "tensorflow"
            and self.distribute_strategy.num_replicas_in_sync > 1
        )

    def symbolic_batch(self):
        """A batch without numbers, as `fit` takes it.

        To be overridden; only asked for with several replicas.

        Returns:
            Pair of `keras.KerasTensor` inputs and labels, nested like a batch.
        """
        raise NotImplementedError(
            f"To train on several replicas, {type(self).__name__} must "
            "override `symbolic_batch`."
        )

    def _maybe_symbolic_build(self, iterator=None, data_batch=None):
        # Keras would add up the first batches of all replicas to see what
        # shape they have, and fails where they differ.
        if self._is_replicated():
            iterator, data_batch = None, self.symbolic_batch()
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)


def _check_replicas(num_replicas, jit_compile, arguments):
    """Refuse what Keras would fail on, many lines later."""
    if jit_compile is True:
        raise ValueError(
            f"`jit_compile` must be False or 'auto' with {num_replicas} "
            "replicas: XLA cannot reach variables on other devices. "
            "Received: jit_compile=True."
        )
    steps = arguments.get("steps_per_execution", 1)
    if steps != 1:
        raise ValueError(
            f"`steps_per_execution` must be 1 with {num_replicas} replicas. "
            f"Received: steps_per_execution={steps}."
        )
