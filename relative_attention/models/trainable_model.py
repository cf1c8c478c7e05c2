"""What `fit` does with a model, on one replica or many."""

import inspect
import numbers
import warnings

import keras
from keras import ops

from relative_attention.models import tensorflow_step
from relative_attention.models.step_batches import give_evaluation_batches
from relative_attention.models.step_batches import give_train_batches
from relative_attention.ops.masks import padding_mask
from relative_attention.ops.replicas import is_counting_alone
from relative_attention.ops.replicas import num_replicas
from relative_attention.ops.replicas import sum_over_replicas
from relative_attention.ops.token_log_likelihood import token_weights

# Metrics of an update, which an evaluation makes none of.
_OF_UPDATES = ("gradient_norm", "skipped")


class TrainableModel(keras.Model):
    """A Keras model of token ids whose steps are exact under `tf.distribute`.

    With `MaskedCrossEntropy`, a step on several replicas of a strategy is the
    step of one replica on the whole batch: with unequal numbers of tokens or
    rows, clipping of gradients, loss scaling, and several parts of a batch
    one after another. What `fit` shows as `loss` is the mean over tokens,
    `tokens` counts source and target tokens. Under TensorFlow an update whose
    loss or gradient is not finite is left out, on all replicas, and counted
    in `skipped`, and `gradient_norm` is the mean length of the gradient
    before it is clipped; an evaluation has neither.

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
        self,
        *args,
        jit_compile="auto",
        auto_scale_loss=True,
        accumulation_steps=1,
        **kwargs,
    ):
        """As `keras.Model.compile`, and:

        Args:
            jit_compile: `"auto"` is no XLA on a CPU, where it gains nothing
                and compiles anew for every length of a batch, nor on several
                replicas or under a `MirroredStrategy` of one, where it does
                not work.
            auto_scale_loss: as for `keras.Model.compile`.
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
        # As asked for: what "auto" is depends on the machine, and Keras keeps
        # its answer, and forgets the other one.
        self._asked_of_compile = {
            "jit_compile": jit_compile,
            "auto_scale_loss": auto_scale_loss,
        }
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
        super().compile(
            *args,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
            **kwargs,
        )
        if is_tensorflow and tensorflow_step.is_mirrored(strategy):
            _check_optimizer(self.optimizer)

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            config.update(
                self._asked_of_compile,
                accumulation_steps=self.accumulation_steps,
            )
        return config

    def compile_from_config(self, config):
        # Keras leaves this to whoever overrides `compile`.
        config = keras.saving.deserialize_keras_object(config)
        steps = config.get("accumulation_steps", 1)
        if steps > 1 and keras.backend.backend() != "tensorflow":
            warnings.warn(
                f"The model was compiled with accumulation_steps={steps}, "
                "which needs TensorFlow. On "
                f"{keras.backend.backend()} it takes whole batches.",
                stacklevel=2,
            )
            config["accumulation_steps"] = 1
        self.compile(**config)
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(self, *args, **kwargs):
        """As `keras.Model.fit`, and:

        Args:
            x: also `TokenBatches`. An epoch is then one of theirs unless
                `steps_per_epoch` is given, in the order that they have for
                it; `initial_epoch` is where to go on. `shuffle` changes
                nothing: they are shuffled.
            validation_data: also `TokenBatches`, of which every pair is
                taken once.
            *args, **kwargs: as for `keras.Model.fit`.

        Raises:
            ValueError: if there is a `class_weight`, which Keras takes for
                the weight of a whole row.
        """
        given = inspect.signature(super().fit).bind(*args, **kwargs)
        _check_class_weight(given.arguments)
        give_train_batches(given.arguments)
        return super().fit(*given.args, **given.kwargs)

    def train_on_batch(self, *args, **kwargs):
        given = inspect.signature(super().train_on_batch).bind(*args, **kwargs)
        _check_class_weight(given.arguments)
        return super().train_on_batch(*args, **kwargs)

    def evaluate(self, *args, **kwargs):
        """As `keras.Model.evaluate`, and:

        Args:
            x: also `TokenBatches`, of which every pair is taken once.
            *args, **kwargs: as for `keras.Model.evaluate`.
        """
        given = inspect.signature(super().evaluate).bind(*args, **kwargs)
        give_evaluation_batches(given.arguments)
        return super().evaluate(*given.args, **given.kwargs)

    def compute_loss(
        self, x=None, y=None, y_pred=None, sample_weight=None, training=True
    ):
        loss = super().compute_loss(
            x, y, y_pred, sample_weight, training=training
        )
        loss = loss + self._rest_of_regularization()
        if x is not None and y is not None:
            self._show_loss(loss, y, sample_weight, training)
            self.tokens_metric.update_state(
                ops.sum(ops.cast(padding_mask(y), "float32"))
                + ops.sum(
                    ops.cast(padding_mask(x["source_token_ids"]), "float32")
                )
            )
        return loss

    def _rest_of_regularization(self):
        """What a part of a replica's rows lacks of the weights' regularizers.

        Keras gives each of `n` replicas an `n`-th of them, since all are added
        up. Parts are weighted by their tokens, which add up to 1 over all
        replicas: each of them has to have the whole.
        """
        replicas = num_replicas()
        if not self.losses or (replicas == 1 and not is_counting_alone()):
            return 0.0
        regularized = [
            weight for weight in self.trainable_variables if weight.regularizer
        ]
        if len(self.losses) > len(regularized):
            raise ValueError(
                "Losses that layers add in a call (`add_loss`, "
                "`activity_regularizer`) must not be there with several "
                "replicas or `accumulation_steps` over 1, where they would be "
                "those of a part of the batch. Received: "
                f"{len(self.losses) - len(regularized)} such losses. "
                "Regularizers of weights work."
            )
        if not is_counting_alone():
            return 0.0
        return sum(map(ops.sum, self.losses)) * (1 - 1 / replicas)

    def _show_loss(self, loss, y, sample_weight, training):
        """Count a loss in the mean over tokens that is shown.

        That of all replicas, on each an equal share: one without tokens has
        a share of the regularizers, too.
        """
        weight = ops.sum(token_weights(y, sample_weight))
        loss = ops.cast(loss, "float32")
        if num_replicas() > 1 and not is_counting_alone():
            weight, loss = ops.unstack(
                sum_over_replicas(ops.stack([weight, loss])), num=2
            )
            weight = weight / num_replicas()
        if training and keras.backend.backend() == "tensorflow":
            # An update that is left out is none; what is evaluated is.
            is_finite = ops.isfinite(loss)
            loss = ops.where(is_finite, loss, 0.0)
            weight = ops.where(is_finite, weight, 0.0)
        self.loss_metric.update_state(loss, sample_weight=weight)

    def train_step(self, *args):
        if keras.backend.backend() != "tensorflow":
            return super().train_step(*args)
        return tensorflow_step.train_step(self, *args)

    def test_step(self, *args):
        results = super().test_step(*args)
        if keras.backend.backend() != "tensorflow":
            return results
        return _without_updates(results)

    def make_train_function(self, force=False):
        if not self._is_replicated():
            return super().make_train_function(force)
        if self.train_function is None or force:
            self.train_function = tensorflow_step.on_all_replicas(
                self, self.train_step, self.get_metrics_result
            )

    def make_test_function(self, force=False):
        if not self._is_replicated():
            return super().make_test_function(force)
        if self.test_function is None or force:
            self.test_function = tensorflow_step.on_all_replicas(
                self,
                self.test_step,
                lambda: _without_updates(self.get_metrics_result()),
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


def _check_class_weight(arguments):
    """Refuse what Keras takes for something else, without a word."""
    if arguments.get("class_weight") is not None:
        raise ValueError(
            "`class_weight` must be None: Keras would look it up by where the "
            "greatest id of a row stands. Received: class_weight="
            f"{arguments['class_weight']}. To weigh tokens or sentences, give "
            "`sample_weight`, float (B, T) or (B,), or data of triples "
            "(inputs, labels, weights)."
        )


def _check_optimizer(optimizer):
    """Refuse parts of an update that Keras would count on every replica."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    steps = getattr(inner, "gradient_accumulation_steps", None)
    if steps:
        raise ValueError(
            "`gradient_accumulation_steps` of an optimizer must be None under "
            "a `MirroredStrategy`: replicas cannot meet in a part of an "
            f"update. Received: gradient_accumulation_steps={steps}. Give "
            "larger batches and `accumulation_steps` to `compile`."
        )


def _without_updates(results):
    return {
        name: value
        for name, value in results.items()
        if name not in _OF_UPDATES
    }


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
