"""Checks what `compile`, `fit` and `evaluate` take, for models of token ids."""

import inspect
import numbers
import warnings
from collections.abc import Callable
from typing import Any

import keras

from relative_attention.models.own_step import has_own_step
from relative_attention.models.projected_scores import can_project
from relative_attention.models.replica_function import is_mirrored
from relative_attention.models.step_batches import give_evaluation_batches
from relative_attention.models.step_batches import give_train_batches
from relative_attention.models.training_step import TrainingStep

_METRICS = ("metrics", "weighted_metrics")


class TrainableModel(TrainingStep):
    """A Keras model of token ids whose steps are exact under `tf.distribute`.

    With `MaskedCrossEntropy`, a step on several replicas of a strategy is the
    step of one replica on the whole batch: with unequal numbers of tokens or
    rows, clipping of gradients, loss scaling, and several parts of a batch
    one after another. What `fit` shows as `loss` is the mean over tokens,
    `tokens` counts source and target tokens. An update whose loss or gradient
    is not finite is left out, on all replicas, and counted in `skipped`, and
    `gradient_norm` is the mean length of the gradient before it is clipped;
    an evaluation has neither.

    On JAX the step is that of one device; on PyTorch it is Keras' own.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """

    def compile(
        self,
        *args: Any,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
        accumulation_steps: int = 1,
        **kwargs: Any,
    ) -> None:
        """Configures the model as `keras.Model.compile`, and for parts.

        Args:
            jit_compile: bool or `"auto"`. `"auto"` is no XLA on a CPU, where
                it gains nothing and compiles anew for every length of a
                batch, nor on several replicas or under a `MirroredStrategy`
                of one, where it does not work.
            auto_scale_loss: as for `keras.Model.compile`.
            accumulation_steps: int. In how many parts, one after another, a
                replica takes its rows of a batch, for batches whose
                activations would not fit at once. The update is that of the
                whole batch. Not on PyTorch. Defaults to `1`.
            *args, **kwargs: as for `keras.Model.compile`.

        Raises:
            ValueError: if an argument is out of range, or does not work with
                the backend or with several replicas.
        """
        given = _given(super().compile, args, kwargs)
        self.accumulation_steps = _checked_steps(accumulation_steps)
        self.is_projected = can_project(
            self,
            _only(given.get("loss")),
            keras.tree.flatten([given.get(name) or [] for name in _METRICS]),
        )
        # One loss has one weight, in whatever it is nested.
        weights = keras.tree.flatten(given.get("loss_weights"))
        self.loss_weight = 1.0 if weights in ([], [None]) else weights[0]
        # As asked for: what "auto" is depends on the machine, and Keras keeps
        # its answer, and forgets the other one.
        self._asked_of_compile = {
            "jit_compile": jit_compile,
            "auto_scale_loss": auto_scale_loss,
        }
        is_tensorflow = keras.backend.backend() == "tensorflow"
        if is_tensorflow:
            strategy = self.distribute_strategy
            num_replicas = strategy.num_replicas_in_sync
            if num_replicas > 1:
                _check_replicas(num_replicas, jit_compile, given)
            if jit_compile == "auto" and (
                is_mirrored(strategy)
                or not keras.distribution.list_devices("gpu")
            ):
                jit_compile = False
        super().compile(
            *args,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
            **kwargs,
        )
        if is_tensorflow and is_mirrored(strategy):
            _check_optimizer(self.optimizer)

    def get_compile_config(self) -> dict[str, Any]:
        """Returns what the model was compiled with, for JSON."""
        config = super().get_compile_config()
        if config:
            config.update(
                self._asked_of_compile,
                accumulation_steps=self.accumulation_steps,
            )
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model with what `get_compile_config` returned.

        Args:
            config: dict.
        """
        # Keras leaves this to whoever overrides `compile`.
        config = keras.saving.deserialize_keras_object(config)
        if not has_own_step():
            config.update(_without_own_step(config))
        # An option of 51ab9de that is gone.
        consistency = config.pop("consistency", None)
        if consistency is not None:
            warnings.warn(
                f"The model was compiled with consistency={consistency}, which "
                "only commit 51ab9de and older have. It is trained without.",
                stacklevel=2,
            )
        self.compile(**config)
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(self, *args: Any, **kwargs: Any) -> keras.callbacks.History:
        """Trains the model as `keras.Model.fit`, also on `TokenBatches`.

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
        given = _given(super().fit, args, kwargs)
        _check_class_weight(given)
        give_train_batches(given)
        return super().fit(**given)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Makes one update as `keras.Model.train_on_batch`.

        Args:
            *args, **kwargs: as for `keras.Model.train_on_batch`.

        Raises:
            ValueError: if there is a `class_weight`.
        """
        _check_class_weight(_given(super().train_on_batch, args, kwargs))
        return super().train_on_batch(*args, **kwargs)

    def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Evaluates the model as `keras.Model.evaluate`.

        Args:
            x: also `TokenBatches`, of which every pair is taken once.
            *args, **kwargs: as for `keras.Model.evaluate`.
        """
        given = _given(super().evaluate, args, kwargs)
        give_evaluation_batches(given)
        return super().evaluate(**given)


def _given(
    method: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, Any]:
    """Returns the arguments of a call by their names.

    A subclass of `keras.Model` that stands in between may name some of them
    and pass the others on as they are.
    """
    given = inspect.signature(method).bind(*args, **kwargs)
    rest = given.arguments.pop("kwargs", {})
    return {**given.arguments, **rest}


def _without_own_step(config: dict[str, Any]) -> dict[str, Any]:
    """Returns what of a compile config must be otherwise, and warns of it."""
    steps = config.get("accumulation_steps", 1)
    if steps == 1:
        return {}
    warnings.warn(
        f"The model was compiled with accumulation_steps={steps}, which needs "
        f"TensorFlow or JAX. On {keras.backend.backend()} it takes whole "
        "batches.",
        stacklevel=3,
    )
    return {"accumulation_steps": 1}


def _only(loss: Any) -> Any:
    """Returns the one loss, in whatever it is nested, or `None` of several."""
    losses = keras.tree.flatten(loss)
    return losses[0] if len(losses) == 1 else None


def _checked_steps(accumulation_steps: Any) -> int:
    is_int = isinstance(accumulation_steps, numbers.Integral)
    if (
        not is_int
        or accumulation_steps < 1
        or (accumulation_steps > 1 and not has_own_step())
    ):
        raise ValueError(
            "`accumulation_steps` must be at least 1, and 1 on a backend "
            "other than TensorFlow and JAX. Received: accumulation_steps="
            f"{accumulation_steps!r} on {keras.backend.backend()}."
        )
    return int(accumulation_steps)


def _check_class_weight(arguments: dict[str, Any]) -> None:
    """Refuses what Keras would take for something else, without a word."""
    if arguments.get("class_weight") is not None:
        raise ValueError(
            "`class_weight` must be None: Keras would look it up by where the "
            "greatest id of a row stands. Received: class_weight="
            f"{arguments['class_weight']}. To weigh tokens or sentences, give "
            "`sample_weight`, float (B, T) or (B,), or data of triples "
            "(inputs, labels, weights)."
        )


def _check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuses parts of an update that Keras would count on every replica."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    steps = getattr(inner, "gradient_accumulation_steps", None)
    if steps:
        raise ValueError(
            "`gradient_accumulation_steps` of an optimizer must be None under "
            "a `MirroredStrategy`: replicas cannot meet in a part of an "
            f"update. Received: gradient_accumulation_steps={steps}. Give "
            "larger batches and `accumulation_steps` to `compile`."
        )


def _check_replicas(
    num_replicas: int, jit_compile: bool | str, arguments: dict[str, Any]
) -> None:
    """Refuses what Keras would fail on, many lines later."""
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
