"""The base class of models of tokens: `compile`, `fit` and `evaluate`.

The losses of replicas, and of parts of their rows, add up to the loss of the
whole batch: each divides the sum of its tokens' losses by the number of tokens
of the whole batch. The step itself is in `update.py`.
"""

import inspect
import warnings
from collections.abc import Callable
from collections.abc import Iterator
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_int
from relative_attention.ops.backend import num_replicas
from relative_attention.ops.backend import sum_over_replicas
from relative_attention.ops.cross_entropy import TokenScores
from relative_attention.ops.cross_entropy import token_weights
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor
from relative_attention.training.losses import MaskedCrossEntropy
from relative_attention.training.metrics import Perplexity
from relative_attention.training.metrics import TokenAccuracy
from relative_attention.training.update import jax_distribution
from relative_attention.training.update import jax_step
from relative_attention.training.update import on_all_replicas
from relative_attention.training.update import on_jax_replicas
from relative_attention.training.update import own_rows
from relative_attention.training.update import rows_for_devices
from relative_attention.training.update import supports_own_step
from relative_attention.training.update import tensorflow_step

# Metrics of updates; an evaluation has none.
_OF_UPDATES = ("gradient_norm", "skipped")


# A base class before `keras.Model`, not below it: Keras puts `Functional` among
# all bases of a task of KerasHub that are Keras models. It would then be a base
# of `Transformer`, too, which has no graph of inputs and outputs.
class ExactSteps(keras.Model if TYPE_CHECKING else object):  # type: ignore[misc]
    """The methods of `TrainableModel`, for a class that is a Keras model."""

    train_function: Callable[..., Any] | None
    test_function: Callable[..., Any] | None

    def __init__(self, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.loss_weight = 1.0
        self.accumulation_steps = 1
        # The loss, if it takes the number of tokens to divide by.
        self._token_loss: Any = None
        # The loss, if a step can do without logits, see `token_scores`.
        self.scoring_loss: MaskedCrossEntropy | None = None
        # The values of the metrics after a step on several replicas.
        self.step_sums: Tensor | None = None
        self.loss_metric = keras.metrics.Mean(name="loss")
        self.tokens_metric = keras.metrics.Sum(name="tokens")
        if supports_own_step():
            self.gradient_norm_metric = keras.metrics.Mean(name="gradient_norm")
            self.skipped_metric = keras.metrics.Sum(name="skipped")

    # === For subclasses to override ===

    def symbolic_batch(self) -> tuple[Any, Any]:
        """Returns a symbolic batch, as `fit` takes it.

        To be overridden. Only called with several replicas, and when a run
        resumes.

        Returns:
            Pair of `keras.KerasTensor` inputs and labels, nested like a batch.
        """
        raise NotImplementedError(
            f"To train on several replicas, {type(self).__name__} must "
            "override `symbolic_batch`."
        )

    def count_tokens(self, x: Any, y: Tensor) -> Tensor:
        """Counts the tokens of a batch, which `fit` shows as `tokens`.

        To be overridden by models whose inputs have other names. Counts
        labels, and `"source_token_ids"` if the inputs have them.

        Args:
            x: inputs of the model.
            y: int tensor `(B, T)` of labels, 0 where there is none.

        Returns:
            float32 scalar.
        """
        num_tokens = ops.sum(ops.cast(padding_mask(y), "float32"))
        if isinstance(x, dict) and "source_token_ids" in x:
            source = padding_mask(x["source_token_ids"])
            num_tokens = num_tokens + ops.sum(ops.cast(source, "float32"))
        return num_tokens

    # === What users call ===

    def compile(
        self,
        optimizer: Any = "rmsprop",
        loss: Any = None,
        loss_weights: Any = None,
        metrics: Any = None,
        weighted_metrics: Any = None,
        run_eagerly: bool = False,
        steps_per_execution: int = 1,
        jit_compile: bool | str = "auto",
        auto_scale_loss: bool = True,
        accumulation_steps: int = 1,
        **kwargs: Any,
    ) -> None:
        """Configures the model as `keras.Model.compile`.

        Args:
            optimizer, loss, loss_weights: as for `keras.Model.compile`.
            metrics, weighted_metrics: as for `keras.Model.compile`.
            run_eagerly, steps_per_execution: as for `keras.Model.compile`.
            jit_compile: bool or `"auto"`. On TensorFlow `"auto"` means no XLA
                on a CPU, where it gains nothing and compiles again for every
                length of a batch; nor on several replicas or under a
                `MirroredStrategy` of one, where it does not work.
            auto_scale_loss: as for `keras.Model.compile`.
            accumulation_steps: int. Number of parts in which a replica
                processes its rows of a batch (gradient accumulation), for
                batches whose activations would not fit at once. The update
                is that of the whole batch. Not on PyTorch. Defaults to `1`.
            **kwargs: of the `compile` of a further base class.

        Raises:
            ValueError: if an argument is out of range, or does not work with
                the backend or with several replicas.
        """
        self.accumulation_steps = _checked_steps(accumulation_steps)
        # A single loss has a single weight, however they are nested.
        self._token_loss = _loss_over_tokens(keras.tree.flatten(loss))
        weights = [w for w in keras.tree.flatten(loss_weights) if w is not None]
        self.loss_weight = weights[0] if weights else 1.0
        self.scoring_loss = _scoring_loss(
            self._token_loss,
            keras.tree.flatten([metrics or [], weighted_metrics or []]),
        )
        # Saved as given. "auto" depends on the machine, and Keras would save
        # its choice.
        self._asked_of_compile: dict[str, Any] = {
            "jit_compile": jit_compile,
            "auto_scale_loss": auto_scale_loss,
        }
        # `keras.models.clone_model` passes the config of a model with inputs
        # and outputs to Keras' own `compile`, which lacks the argument.
        if self.accumulation_steps != 1:
            self._asked_of_compile["accumulation_steps"] = accumulation_steps
        if self._is_replicated():
            _check_replicas(
                self.distribute_strategy.num_replicas_in_sync,
                jit_compile,
                steps_per_execution,
            )
        if jit_compile == "auto" and self._is_slower_with_xla():
            jit_compile = False
        super().compile(
            optimizer=optimizer,
            loss=loss,
            loss_weights=loss_weights,
            metrics=metrics,
            weighted_metrics=weighted_metrics,
            run_eagerly=run_eagerly,
            steps_per_execution=steps_per_execution,
            jit_compile=jit_compile,
            auto_scale_loss=auto_scale_loss,
            **kwargs,
        )
        if self._is_mirrored():
            _check_optimizer(self.optimizer)

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile`, for JSON."""
        config = super().get_compile_config()
        if config:
            config.update(self._asked_of_compile)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the model from what `get_compile_config` returned.

        Args:
            config: dict.
        """
        # Keras leaves this to classes that override `compile`.
        config = keras.saving.deserialize_keras_object(config)
        # In older `.keras` files; such an option is no more.
        config.pop("consistency", None)
        steps = config.get("accumulation_steps", 1)
        if steps != 1 and not supports_own_step():
            config["accumulation_steps"] = 1
            warnings.warn(
                f"The model was compiled with accumulation_steps={steps}, "
                "which needs TensorFlow or JAX. On "
                f"{keras.backend.backend()} it processes whole batches.",
                stacklevel=2,
            )
        self.compile(**config)
        if self.optimizer is not None:
            self.optimizer.build(self.trainable_variables)

    def fit(
        self, x: Any = None, *args: Any, **kwargs: Any
    ) -> keras.callbacks.History:
        """Trains the model as `keras.Model.fit`, also on `TokenBatches`.

        On several devices of JAX, rows of zeros are added to arrays and to
        `TokenBatches`, so that the devices get equal numbers of rows; other
        data must have batches that they can share.

        Args:
            x: also `TokenBatches`. An epoch is then one of theirs, in their
                order, unless `steps_per_epoch` is given. `initial_epoch` is
                where to resume. `shuffle` has no effect, as they are shuffled
                already.
            validation_data: also `TokenBatches`, of which every pair is used
                once.
            *args, **kwargs: as for `keras.Model.fit`.

        Raises:
            ValueError: if there is a `class_weight`, which Keras would apply
                to whole rows; if several devices of JAX cannot share a batch
                equally; or if batches have another `start_token_id`.
        """
        kwargs = _by_name(keras.Model.fit, x, *args, **kwargs)
        _check_class_weight(kwargs.get("class_weight"))
        kwargs = self._shared_by_devices(kwargs)
        x = kwargs.pop("x")
        if _are_batches(x):
            self._check_start(x)
            steps = kwargs.get("steps_per_epoch") or len(x)
            x = train_data(x, steps * kwargs.get("initial_epoch", 0))
            # They are shuffled already.
            kwargs.update(steps_per_epoch=steps, shuffle=False)
        validation = kwargs.get("validation_data")
        if _are_batches(validation):
            self._check_start(validation)
            kwargs["validation_data"] = evaluation_data(validation)
        return super().fit(x, **kwargs)

    def train_on_batch(self, *args: Any, **kwargs: Any) -> Any:
        """Makes one update as `keras.Model.train_on_batch`.

        Args:
            *args, **kwargs: as for `keras.Model.train_on_batch`, but no
                `class_weight`.

        Raises:
            ValueError: if there is a `class_weight`.
        """
        kwargs = _by_name(keras.Model.train_on_batch, *args, **kwargs)
        _check_class_weight(kwargs.get("class_weight"))
        return super().train_on_batch(**self._shared_by_devices(kwargs))

    def evaluate(self, x: Any = None, *args: Any, **kwargs: Any) -> Any:
        """Evaluates the model as `keras.Model.evaluate`.

        Args:
            x: also `TokenBatches`, of which every pair is used once.
            *args, **kwargs: as for `keras.Model.evaluate`.
        """
        kwargs = _by_name(keras.Model.evaluate, x, *args, **kwargs)
        if _are_batches(x):
            self._check_start(x)
            kwargs["x"] = evaluation_data(x)
        else:
            kwargs = self._shared_by_devices(kwargs)
        return super().evaluate(**kwargs)

    def _check_start(self, batches: Any) -> None:
        """Refuses batches whose decoder inputs have another start."""
        own = getattr(self, "start_token_id", None)
        received = getattr(batches, "start_token_id", own)
        if own is not None and received != own:
            raise ValueError(
                f"Batches for this model need `start_token_id={own}`, with "
                "which it translates. Received batches with "
                f"start_token_id={received}."
            )

    def _shared_by_devices(self, kwargs: dict[str, Any]) -> dict[str, Any]:
        """Returns arguments of `fit` whose arrays JAX' devices can share."""
        # With another loss, rows that are added would count.
        if jax_distribution() is None or self._token_loss is None:
            return kwargs
        names = [n for n in ("x", "y", "sample_weight") if n in kwargs]
        arrays = [kwargs[name] for name in names]
        if _are_arrays(arrays):
            _check_shares(kwargs)
            kwargs = {**kwargs, **dict(zip(names, rows_for_devices(arrays)))}
        validation = kwargs.get("validation_data")
        if isinstance(validation, tuple) and _are_arrays(validation):
            kwargs = {**kwargs, "validation_data": rows_for_devices(validation)}
        return kwargs

    # === A step ===

    def train_step(self, *args: Any) -> Any:
        """Makes one update, see `update.py`.

        Args:
            *args: as for `keras.Model.train_step`.

        Returns:
            Dict of the metrics; on JAX the pair of it and the new state.
        """
        backend = keras.backend.backend()
        if backend == "tensorflow":
            return tensorflow_step(self, *args)
        if backend == "jax":

            def step(state: Any, data: Any) -> tuple[dict[str, Tensor], Any]:
                return jax_step(self, state, data)

            return on_jax_replicas(self, step, *args)
        return super().train_step(*args)

    def token_scores(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
        loss: MaskedCrossEntropy | None,
    ) -> Tensor | TokenScores:
        """Returns what loss and metrics of a training step are computed from.

        These are the logits. A subclass may return `TokenScores` instead, which
        have the loss and what metrics need, so that a step need not hold all
        logits.

        Args:
            x, y, sample_weight: a replica's rows of a batch, or a part of
                them.
            num_tokens: float scalar, the weight of all tokens of the batch.
            loss: the loss, if it and all metrics take `TokenScores`; or
                `None`, if they need logits.

        Returns:
            float tensor `(B, T, V)` of logits, or `TokenScores`.
        """
        return self(x, training=True)

    def compute_loss(
        self,
        x: Any = None,
        y: Tensor | None = None,
        y_pred: Tensor | TokenScores | None = None,
        sample_weight: Tensor | None = None,
        training: bool = True,
        num_tokens: Tensor | None = None,
    ) -> Tensor:
        """Computes the loss as `keras.Model.compute_loss`, and counts tokens.

        With weights `w` of tokens, regularizers `R` of the model's weights and
        `W = num_tokens`, the losses of all replicas and parts add up to

            sum(w * token_losses) / W + R,    share = sum(w of the rows) / W

        Args:
            x: inputs of the model.
            y: int tensor `(B, T)` of labels.
            y_pred: float tensor `(B, T, V)` of logits; or `TokenScores`.
            sample_weight: optional float tensor `(B,)` or `(B, T)`.
            training: bool. Whether the model is trained or evaluated.
            num_tokens: float scalar `W`, in a training step. Defaults to
                `None`: the loss counts the tokens.

        Returns:
            float32 scalar: what these rows add to the loss of the batch.
        """
        in_parts = num_tokens is not None and self.accumulation_steps > 1
        if in_parts or num_replicas() > 1:
            self._check_added_losses()
        share: Tensor = 1.0
        if num_tokens is not None:
            weight = ops.sum(token_weights(y, sample_weight))
            # No token at all: the weight is 0, and so is the share.
            share = weight / ops.where(num_tokens == 0, 1.0, num_tokens)
        if num_tokens is not None and self._token_loss is not None:
            loss = self._sum_of_tokens(y, y_pred, sample_weight, num_tokens)
            loss = loss + share * sum(map(ops.sum, self.losses))
        else:
            loss = super().compute_loss(
                x, y, y_pred, sample_weight, training=training
            )
            if keras.backend.backend() == "jax" and num_replicas() > 1:
                loss = self._share_of_replica(loss)
            if in_parts:
                # The mean over the rows of this part, plus the regularizers.
                # Keras divides both by the number of replicas.
                loss = share * num_replicas() * loss
        if x is not None and y is not None:
            self._count_tokens_and_loss(x, y, sample_weight, loss, training)
        return loss

    def _sum_of_tokens(
        self,
        y: Tensor,
        y_pred: Tensor | TokenScores,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
    ) -> Tensor:
        """Returns what the tokens of these rows add, without regularizers."""
        if isinstance(y_pred, TokenScores):
            loss = y_pred.loss
        else:
            loss = self._token_loss(
                y, y_pred, sample_weight, num_tokens=num_tokens
            )
        return loss * self.loss_weight

    def _count_tokens_and_loss(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        loss: Tensor,
        training: bool,
    ) -> None:
        """Updates the metrics `tokens` and `loss`."""
        self.tokens_metric.update_state(self.count_tokens(x, y))
        # Our own training step updates the metric with the whole sum.
        if not (training and supports_own_step()):
            self.loss_metric.update_state(
                sum_over_replicas(ops.cast(loss, "float32")),
                sample_weight=ops.sum(token_weights(y, sample_weight)),
            )

    def _share_of_replica(self, loss: Tensor) -> Tensor:
        """Divides as Keras does under `tf.distribute`, for replicas of JAX."""
        if self._token_loss is None:
            return loss / num_replicas()
        # The loss is a share already, regularizers are not.
        regularization = sum(map(ops.sum, self.losses))
        return loss - regularization * (1 - 1 / num_replicas())

    def _check_added_losses(self) -> None:
        """Refuses losses added in a call, which would only be of a part."""
        if not self.losses:
            return
        num_regularized = sum(
            weight.regularizer is not None
            for weight in self.trainable_variables
        )
        if len(self.losses) > num_regularized:
            raise ValueError(
                "Losses that layers add in a call (`add_loss`, "
                "`activity_regularizer`) do not work with several replicas or "
                "`accumulation_steps` over 1, as they would be computed from "
                "a part of the batch. Received: "
                f"{len(self.losses) - num_regularized} such losses. "
                "Regularizers of weights work."
            )

    def test_step(self, *args: Any) -> Any:
        """Evaluates a batch as `keras.Model.test_step`.

        Args:
            *args: as for `keras.Model.test_step`.

        Returns:
            Dict of the metrics, without those of updates; on JAX the pair of
            it and the new state.
        """
        step = super().test_step
        if keras.backend.backend() == "jax":
            results, state = on_jax_replicas(self, step, *args)
            return _without_updates(results), state
        return _without_updates(step(*args))

    # === Several replicas ===

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
        """Returns the metrics' variables, summed once, and their results."""
        import tensorflow as tf

        variables = self.metrics_variables
        sums = [tf.convert_to_tensor(variable) for variable in variables]
        with keras.StatelessScope(zip(variables, sums)):
            logs = self.get_metrics_result()
        sums = [tf.reshape(tf.cast(s, "float32"), [-1]) for s in sums]
        return tf.concat(sums, 0), logs

    def _is_replicated(self) -> bool:
        return (
            keras.backend.backend() == "tensorflow"
            and self.distribute_strategy.num_replicas_in_sync > 1
        )

    def _is_mirrored(self) -> bool:
        """Returns whether replicas synchronize outside compiled code."""
        if keras.backend.backend() != "tensorflow":
            return False
        import tensorflow as tf

        return isinstance(
            self.distribute_strategy,
            (
                tf.distribute.MirroredStrategy,
                tf.distribute.MultiWorkerMirroredStrategy,
            ),
        )

    def _is_slower_with_xla(self) -> bool:
        """Returns whether `jit_compile="auto"` means no XLA, see `compile`."""
        return keras.backend.backend() == "tensorflow" and (
            self._is_mirrored() or not keras.distribution.list_devices("gpu")
        )

    def _maybe_symbolic_build(
        self, iterator: Any = None, data_batch: Any = None
    ) -> None:
        # To find their shape, Keras would sum the first batches of all
        # replicas, and fail if their shapes differ.
        if self._is_replicated():
            iterator, data_batch = None, self.symbolic_batch()
        super()._maybe_symbolic_build(iterator=iterator, data_batch=data_batch)


class TrainableModel(ExactSteps, keras.Model):
    """A Keras model of token ids whose steps are exact on several devices.

    With `MaskedCrossEntropy`, a step on several replicas equals the step of one
    replica on the whole batch. Replicas are those of a `tf.distribute` strategy
    or, on JAX, the devices of `keras.distribution.DataParallel`. This holds for
    unequal numbers of tokens or rows, gradient clipping, loss scaling and
    gradient accumulation. `fit` shows these metrics: `loss`, the mean over
    tokens; `tokens`, the number of source and target tokens; and, in training
    only, `gradient_norm`, the mean gradient norm before clipping, and
    `skipped`. An update whose loss or gradient is not finite is skipped on all
    replicas.

    On PyTorch the step is Keras' own.

    Args:
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.
    """


def metric_sums(model: keras.Model) -> list[float]:
    """Returns the variables of a model's metrics after a training step.

    Only one of several machines needs to call this, as the step has summed over
    all replicas.

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


def set_metric_sums(model: TrainableModel, sums: list[float]) -> bool:
    """Sets the variables of a model's metrics to what `metric_sums` returned.

    Args:
        model: compiled `TrainableModel`.
        sums: list of floats.

    Returns:
        bool. Whether there is a number per variable; if not, none is set.
    """
    if keras.backend.backend() == "tensorflow":
        # Keras creates some of the variables in the first step.
        with model.distribute_strategy.scope():
            model._symbolic_build(data_batch=model.symbolic_batch())
    variables = model.metrics_variables
    if len(variables) != len(sums):
        return False
    for variable, value in zip(variables, sums):
        variable.assign(value)
    return True


def _without_updates(results: dict[str, Tensor]) -> dict[str, Tensor]:
    return {k: v for k, v in results.items() if k not in _OF_UPDATES}


def _loss_over_tokens(losses: list[Any]) -> Any:
    """Returns the loss if it is a single one that takes `num_tokens`.

    `MaskedCrossEntropy` does, unless a subclass has another `call`.
    """
    call = getattr(losses[0], "call", None) if len(losses) == 1 else None
    if call is None or "num_tokens" not in inspect.signature(call).parameters:
        return None
    return losses[0]


def _scoring_loss(loss: Any, metrics: list[Any]) -> MaskedCrossEntropy | None:
    """Returns the loss if it and all metrics take `TokenScores`.

    A user's subclass may override anything, so it gets logits.
    """
    takes_scores = type(loss) is MaskedCrossEntropy and all(
        type(metric) in (Perplexity, TokenAccuracy) for metric in metrics
    )
    return loss if takes_scores else None


# === Checks ===


def _checked_steps(accumulation_steps: Any) -> int:
    steps = checked_int("accumulation_steps", accumulation_steps)
    if steps > 1 and not supports_own_step():
        raise ValueError(
            "`accumulation_steps` must be 1 on a backend other than TensorFlow "
            f"and JAX. Received: accumulation_steps={steps} on "
            f"{keras.backend.backend()}."
        )
    return steps


def _by_name(
    method: Callable[..., Any], *args: Any, **kwargs: Any
) -> dict[str, Any]:
    """Returns the arguments of a method of Keras by their names."""
    bound = inspect.signature(method).bind(None, *args, **kwargs).arguments
    # Keras passes more to its own `evaluate`.
    more = bound.pop("kwargs", {})
    return {name: bound[name] for name in bound if name != "self"} | more


def _check_class_weight(class_weight: Any) -> None:
    """Refuses what Keras would silently misread."""
    if class_weight is not None:
        raise ValueError(
            "`class_weight` must be None: Keras would look it up by the "
            "position of the greatest id of a row. Received: class_weight="
            f"{class_weight}. To weight tokens or sentences, pass "
            "`sample_weight`, float (B, T) or (B,), or data of triples "
            "(inputs, labels, weights)."
        )


def _are_arrays(nest: Any) -> bool:
    """Tells whether a nest has arrays of numbers, and else `None`s alone."""
    leaves = [leaf for leaf in keras.tree.flatten(nest) if leaf is not None]
    return bool(leaves) and all(
        hasattr(leaf, "__array__")
        and len(leaf.shape) > 0
        # Not strings of a KerasHub task: even an empty one counts in the loss.
        and np.asarray(leaf).dtype.kind not in "OSU"
        for leaf in leaves
    )


def _check_shares(kwargs: dict[str, Any]) -> None:
    """Refuses batches of arrays that JAX' devices cannot share equally."""
    distribution: Any = jax_distribution()
    count = distribution.num_model_replicas
    size = kwargs.get("batch_size") or 32  # Keras' default.
    if size % count:
        raise ValueError(
            f"`batch_size` must be a multiple of {count}, the number of "
            f"devices. Received: batch_size={size}."
        )
    if kwargs.get("validation_split"):
        raise ValueError(
            "`validation_split` must be 0 on several devices of JAX. "
            f"Received: validation_split={kwargs['validation_split']}. Pass "
            "`validation_data`."
        )


def _check_optimizer(optimizer: keras.optimizers.Optimizer) -> None:
    """Refuses Keras' accumulation, which would count on every replica."""
    inner = getattr(optimizer, "inner_optimizer", optimizer)
    steps = getattr(inner, "gradient_accumulation_steps", None)
    if steps:
        raise ValueError(
            "`gradient_accumulation_steps` of an optimizer must be None under "
            "a `MirroredStrategy`: replicas cannot synchronize within an "
            f"update. Received: gradient_accumulation_steps={steps}. Use "
            "larger batches and `accumulation_steps` of `compile`."
        )


def _check_replicas(
    num_replicas: int, jit_compile: bool | str, steps_per_execution: int
) -> None:
    """Refuses options on which Keras would fail much later."""
    if jit_compile is True:
        raise ValueError(
            f"`jit_compile` must be False or 'auto' with {num_replicas} "
            "replicas: XLA cannot reach variables on other devices. "
            "Received: jit_compile=True."
        )
    if steps_per_execution != 1:
        raise ValueError(
            f"`steps_per_execution` must be 1 with {num_replicas} replicas. "
            f"Received: steps_per_execution={steps_per_execution}."
        )


# === Batches that are a function of the step ===

# Such as `TokenBatches`: training can resume anywhere, on every backend.


def _are_batches(x: Any) -> bool:
    return hasattr(x, "train_batch")


class _BatchesOf(keras.utils.PyDataset):
    """Batches that a function makes from their numbers, from 0."""

    # `None` for no end.
    num_batches: int | None = None

    def __init__(self, batch: Callable[[int], Any]) -> None:
        super().__init__()
        self._batch = batch

    def __getitem__(self, index: int) -> Any:
        return own_rows(self._batch(index))


def train_data(batches: Any, first_step: int) -> Any:
    """Returns endless training batches as `fit` takes them.

    Args:
        batches: `TokenBatches`, or others that are a function of the step.
        first_step: int. The step to begin with, from 0.

    Returns:
        `tf.data.Dataset` on TensorFlow, `keras.utils.PyDataset` elsewhere.
    """
    # On TensorFlow, `fit` assumes that all batches of a `PyDataset` have one
    # shape if the first two do.
    if keras.backend.backend() == "tensorflow":
        return batches.train_dataset(first_step)
    return _BatchesOf(lambda index: batches.train_batch(first_step + index))


def evaluation_data(batches: Any) -> Any:
    """Returns batches with every example once, as `evaluate` takes them.

    Args:
        batches: `TokenBatches`, or others that are a function of the step.

    Returns:
        `tf.data.Dataset` on TensorFlow, `keras.utils.PyDataset` elsewhere.
    """
    if keras.backend.backend() == "tensorflow":
        return batches.evaluation_dataset()
    data = _BatchesOf(batches.evaluation_batch)
    data.num_batches = len(batches)
    return data
