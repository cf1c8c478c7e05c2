"""A training step, on TensorFlow and on JAX.

Keras' own step has four faults with several replicas: it clips gradients before
it adds them up; its loss scale only checks the first replica; the step counter
and the seeds of dropout advance when a data set has ended; and the loss that it
shows is a mean of means. Here a batch goes through

    1. loss and gradients, of all its rows or of one part after another;
    2. their sums over all replicas (`sum_over_replicas`);
    3. the metrics;
    4. the update, unless the loss or a gradient is not finite.

The calls of a step on TensorFlow, and where they are:

    TrainableModel.train_step        trainable.py, `ExactSteps`; `fit` calls it
      tensorflow_step
        loss_of_rows
          token_scores               models/transformer.py; calls the loss,
                                     `score_projection` (losses.py), or returns
                                     logits
          compute_loss               trainable.py; takes the loss from there, or
                                     computes it from logits; adds regularizers
        count_step                   metrics; whether the weights change
        update_all_replicas          calls `optimizer.apply` of optimizer.py

Both backends share `loss_of_rows` and `count_step`. An evaluation also calls
`compute_loss`.

A replica runs the step of one device on its rows of the batch. On TensorFlow it
is a device of `tf.distribute` (`on_all_replicas`), on JAX one of
`keras.distribution.DataParallel` (`on_jax_replicas`).
"""

import contextlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

import keras
import numpy as np
from keras import ops

from relative_attention.ops.backend import jax_replica
from relative_attention.ops.backend import num_replicas
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import sum_over_replicas
from relative_attention.ops.cross_entropy import token_weights
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

# Inputs, labels `(B, T)`, and their weights or `None`.
Rows = tuple[Any, Tensor, Tensor | None]
Gradients = list[Tensor | None]
# On JAX, the values of the trainable variables, the others, the optimizer's and
# the metrics', as Keras passes them.
State = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def supports_own_step() -> bool:
    """Returns whether the backend uses this step. PyTorch uses Keras' own."""
    return keras.backend.backend() in ("tensorflow", "jax")


def equal_parts(batch: Any, num_parts: int) -> Any:
    """Stacks parts with the same number of rows, as XLA needs them.

        rows 1 2 3 4 5 6 7, three parts     1 2 3 | 4 5 6 | 7 0 0

    The rows of zeros at the end do not count.

    Args:
        batch: nest of tensors `(R, ...)`. `None`s in it are kept.
        num_parts: int.

    Returns:
        The nest, of tensors `(num_parts, rows, ...)`.
    """

    def stack(tensor: Tensor) -> Tensor:
        num_rows, *rest = sizes(tensor)
        part_rows = -(-num_rows // num_parts)
        missing = num_parts * part_rows - num_rows
        padded = ops.pad(tensor, [(0, missing), *[(0, 0) for _ in rest]])
        return ops.reshape(padded, (num_parts, part_rows, *rest))

    return _map(stack, batch)


def _map(function: Callable[[Tensor], Tensor], batch: Any) -> Any:
    return keras.tree.map_structure(
        lambda tensor: None if tensor is None else function(tensor), batch
    )


def loss_of_rows(
    model: keras.Model,
    x: Any,
    y: Tensor,
    sample_weight: Tensor | None,
    num_tokens: Tensor,
) -> Tensor:
    """Computes the loss of rows in training, and updates the metrics.

    Args:
        model: compiled `TrainableModel`.
        x, y, sample_weight: a replica's rows of a batch, or a part of them.
        num_tokens: float scalar, the weight of all tokens of the batch.

    Returns:
        float scalar, their part of the loss of the batch.
    """
    y_pred = model.token_scores(
        x, y, sample_weight, num_tokens, loss=model.scoring_loss
    )
    loss = model.compute_loss(
        x, y, y_pred, sample_weight, training=True, num_tokens=num_tokens
    )
    model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
    return loss


def count_step(
    model: keras.Model,
    loss: Tensor,
    own_tokens: Tensor,
    norm: Tensor,
    loss_scale: Tensor,
) -> Tensor:
    """Updates the metrics of a step, and decides whether weights change.

    Loss and gradient norm are of the whole batch; `own_tokens` is the weight of
    this replica's tokens.
    """
    loss = ops.cast(loss, "float32")
    is_finite_loss = ops.isfinite(loss)
    is_finite = ops.logical_and(ops.isfinite(norm), is_finite_loss)
    is_usable = is_finite
    if isinstance(model.optimizer, keras.optimizers.LossScaleOptimizer):
        # If the loss scale is too large, gradients overflow. The optimizer then
        # skips the update and halves the scale, which is not reported. At 1
        # nothing is scaled: these gradients are not finite themselves.
        is_lowered = ops.logical_and(is_finite_loss, loss_scale > 1)
        is_usable = ops.logical_or(is_finite, is_lowered)
    # Each replica weights the loss by its own tokens; the metric sums over
    # replicas. A skipped update must not enter the mean.
    model.loss_metric.update_state(
        ops.where(is_finite_loss, loss, 0.0),
        sample_weight=ops.where(is_finite_loss, own_tokens, 0.0),
    )
    model.gradient_norm_metric.update_state(
        ops.where(is_finite, norm, 0.0), ops.cast(is_finite, "float32")
    )
    # The metric sums over replicas.
    model.skipped_metric.update_state(
        ops.cast(ops.logical_not(is_usable), "float32") / num_replicas()
    )
    return is_usable


# === TensorFlow ===


def tensorflow_step(model: keras.Model, data: Any) -> dict[str, Tensor]:
    """Makes one update, on every replica with its own rows of the batch."""
    import tensorflow as tf

    optimizer = model.optimizer
    if not optimizer.built:
        with tf.init_scope():
            optimizer.build(model.trainable_variables)
    # A data set that has ended gives no batch. Counters and seeds do not
    # depend on the batch, and would advance all the same.
    given = [tensor for tensor in tf.nest.flatten(data) if tensor is not None]
    with tf.control_dependencies(given):
        batch = keras.utils.unpack_x_y_sample_weight(data)
        own_tokens = ops.sum(token_weights(*batch[1:]))
        # Here, as replicas cannot synchronize inside the loop over parts.
        num_tokens = sum_over_replicas(own_tokens)
        loss, found = _tensorflow_gradients(model, batch, num_tokens)
        # Variables that the loss does not depend on have no gradient.
        variables, gradients = [], []
        for variable, gradient in zip(model.trainable_variables, found):
            if gradient is not None:
                variables.append(variable)
                gradients.append(gradient)
        loss, *gradients = sum_over_replicas([loss, *gradients])
        norm = gradient_norm(optimizer, gradients)
        loss_scale = optimizer.scale_loss(tf.constant(1.0))
        is_usable = count_step(model, loss, own_tokens, norm, loss_scale)
        update_all_replicas(optimizer, variables, gradients, is_usable)
    return model.get_metrics_result()


def _tensorflow_gradients(
    model: keras.Model, batch: Rows, num_tokens: Tensor
) -> tuple[Tensor, Gradients]:
    """Returns loss and scaled gradients of a replica's rows of a batch."""
    import tensorflow as tf

    def differentiate(rows: Rows) -> tuple[Tensor, Gradients]:
        with tf.GradientTape() as tape:
            loss = loss_of_rows(model, *rows, num_tokens)
            scaled_loss = model.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled_loss, model.trainable_variables)
        # With sparse slices, a row that is looked up twice would count twice in
        # the gradient norm. Sums over replicas are dense anyway.
        return loss, [
            gradient if gradient is None else tf.convert_to_tensor(gradient)
            for gradient in gradients
        ]

    num_parts = model.accumulation_steps
    if num_parts == 1:
        return differentiate(batch)
    num_rows = tf.shape(batch[1])[0]
    # At least one, so that the loop ends if there are no rows.
    part_rows = tf.maximum(-(-num_rows // num_parts), 1)
    # XLA needs to know every shape before it runs.
    stacked = equal_parts(batch, num_parts) if model.jit_compile else None

    def rows_of(part: Tensor) -> Any:
        if stacked is not None:
            return _map(lambda parts: tf.gather(parts, part), stacked)
        first = part * part_rows
        return _map(lambda tensor: tensor[first : first + part_rows], batch)

    def add_part(
        part: Tensor, loss: Tensor, sums: list[Tensor]
    ) -> tuple[Tensor, Tensor, list[Tensor]]:
        part_loss, gradients = differentiate(rows_of(part))
        sums = [
            total if gradient is None else total + gradient
            for total, gradient in zip(sums, gradients)
        ]
        return part + 1, loss + part_loss, sums

    zeros = [tf.zeros_like(weight) for weight in model.trainable_variables]
    _, loss, sums = tf.while_loop(
        lambda part, loss, sums: part * part_rows < num_rows,
        add_part,
        (tf.constant(0), tf.constant(0.0), zeros),
        parallel_iterations=1,
    )
    return loss, sums


def gradient_norm(
    optimizer: keras.optimizers.Optimizer, gradients: Gradients
) -> Tensor:
    """Computes the norm of all gradients together: float32 scalar.

    Args:
        optimizer: the optimizer, whose loss scale the gradients have.
        gradients: list of float tensors, or `None`.
    """
    import tensorflow as tf

    norm = tf.linalg.global_norm(gradients)
    return tf.cast(norm, "float32") / optimizer.scale_loss(tf.constant(1.0))


def update_all_replicas(
    optimizer: keras.optimizers.Optimizer,
    variables: list[keras.Variable],
    gradients: list[Tensor],
    is_usable: Tensor,
) -> None:
    """Updates variables on all replicas, or on none.

    The gradients are sums over replicas; `is_usable` is the same on all.
    """
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    num_replicas = context.num_replicas_in_sync
    if num_replicas > 1:
        # The optimizer adds up over replicas again, so each gives its share.
        # Gradients are clipped here, as the optimizer would clip each share.
        # After this, shares are so small that the optimizer does not clip them.
        clipped = clip_gradients(optimizer, gradients)
        gradients = [gradient / num_replicas for gradient in clipped]

    def apply(gradients: list[Tensor]) -> None:
        optimizer.apply(gradients, variables)

    def apply_or_not(
        strategy: "tf.distribute.Strategy", gradients: Tensor, is_usable: Tensor
    ) -> None:
        # All replicas must take the same branch, as they synchronize in it.
        is_usable = strategy.experimental_local_results(is_usable)[0]
        tf.cond(
            is_usable,
            lambda: strategy.extended.call_for_each_replica(
                apply, args=(gradients,)
            ),
            lambda: None,
        )

    # Under a strategy replicas synchronize in the optimizer, even a single one.
    if tf.distribute.has_strategy():
        context.merge_call(apply_or_not, args=(gradients, is_usable))
    else:
        tf.cond(is_usable, lambda: apply(gradients), lambda: None)


def clip_gradients(
    optimizer: keras.optimizers.Optimizer, gradients: list[Tensor]
) -> list[Tensor]:
    """Clips sums over replicas as the optimizer would clip its own gradients.

    The gradients are multiplied by its loss scale, and so are the results.
    """
    import tensorflow as tf

    inner = getattr(optimizer, "inner_optimizer", optimizer)
    scale = optimizer.scale_loss(tf.constant(1.0))
    if inner.clipnorm:
        return [tf.clip_by_norm(g, inner.clipnorm * scale) for g in gradients]
    if inner.global_clipnorm:
        limit = inner.global_clipnorm * scale
        return tf.clip_by_global_norm(gradients, limit)[0]
    if inner.clipvalue:
        limit = inner.clipvalue * scale
        return [tf.clip_by_value(g, -limit, limit) for g in gradients]
    return gradients


def on_all_replicas(
    model: keras.Model,
    step: Callable[[Any], Any],
    results: Callable[[], Any],
) -> Callable[[Iterator], Any]:
    """Makes the function that `fit` calls with an iterator.

    It makes a step on every replica. `results`, such as the metrics, are read
    outside the replicas, where they are sums over all.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy

    def on_batch(batch: Any) -> Any:
        strategy.run(step, args=(batch,))
        return results()

    def on_next_batch(iterator: Any) -> Any:
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


# === JAX ===

# A function that XLA compiles changes no variables. Keras hands it the values
# of all of them and takes new ones. Within a `keras.StatelessScope` variables
# have the values that were handed over, and keep aside what is assigned.


def jax_distribution() -> keras.distribution.DataParallel | None:
    """Returns the devices of `keras.distribution` that share a batch, if any.

    `None` also for a single device.
    """
    if keras.backend.backend() != "jax":
        return None
    found = keras.distribution.distribution()
    if not isinstance(found, keras.distribution.DataParallel):
        return None
    return found if found.num_model_replicas > 1 else None


def on_jax_replicas(
    model: keras.Model,
    step: Callable[[Any, Any], tuple[Any, Any]],
    state: Any,
    data: Any,
) -> tuple[dict[str, Tensor], Any]:
    """Makes a step on every device of `keras.distribution.DataParallel`.

    Each device runs the program of one device on its own rows. Without this,
    XLA would divide that program itself: it would gather the rows of all
    devices wherever a loop or a random draw goes over them. `state` has lists
    of the values of variables, the metrics' last.
    """
    distribution = jax_distribution()
    if distribution is None:
        return step(state, data)
    import jax

    axis, count = distribution.batch_dim_name, distribution.num_model_replicas
    *variables, of_metrics = state

    def on_replica(variables: Any, data: Any) -> tuple[Any, list[Tensor]]:
        with jax_replica(axis, count):
            # Metrics are sums: they add up over the replicas.
            zeros = [ops.zeros(v.shape, v.dtype) for v in of_metrics]
            _, (*variables, sums) = step((*variables, zeros), data)
            trainable, others, *rest = variables
            # Equal on all, but for moving averages of batches.
            means = [
                sum_over_replicas(value) / count
                if keras.backend.is_float_dtype(str(value.dtype))
                else value
                for value in others
            ]
            return (trainable, means, *rest), sum_over_replicas(sums)

    variables, sums = jax.shard_map(
        on_replica,
        mesh=distribution.device_mesh.backend_mesh,
        in_specs=(jax.P(), jax.P(axis)),
        out_specs=jax.P(),
        check_vma=False,
    )(variables, data)
    of_metrics = [old + new for old, new in zip(of_metrics, sums)]
    with _scope(model.metrics_variables, of_metrics):
        logs = model.get_metrics_result()
    return logs, (*variables, of_metrics)


def own_rows(batch: Any) -> Any:
    """Returns the rows of a batch that this process gives to its devices.

    Every device has the same number of rows. The rows of zeros that are added
    at the end do not count.

    Args:
        batch: nest of arrays `(R, ...)`, the same in all processes. `None`s in
            it are kept.

    Returns:
        The nest; without several devices of JAX, `batch`.
    """
    if jax_distribution() is None:
        return batch
    import jax

    number, count = jax.process_index(), jax.process_count()

    def cut(rows: Any) -> Any:
        size = len(rows) // count
        return rows[number * size : (number + 1) * size]

    return _map(cut, rows_for_devices(batch, count))


def rows_for_devices(batch: Any, num_processes: int = 1) -> Any:
    """Adds rows of zeros, so that JAX' devices have equal numbers of rows.

    Args:
        batch: nest of arrays `(R, ...)`. `None`s in it are kept.
        num_processes: int. Of how many processes the devices share the rows.

    Returns:
        The nest; without several devices of JAX, `batch`.
    """
    distribution = jax_distribution()
    if distribution is None:
        return batch
    import jax

    count = distribution.num_model_replicas
    count = count // jax.process_count() * num_processes

    def pad(rows: Any) -> np.ndarray:
        widths = [(0, -len(rows) % count), *[(0, 0)] * (rows.ndim - 1)]
        return np.pad(np.asarray(rows), widths)

    return _map(pad, batch)


@contextlib.contextmanager
def on_one_device(model: keras.Model) -> Iterator[None]:
    """Reads a model's weights from one device of this process.

    Within this context JAX translates on that device. Otherwise all devices
    would do the same work, and all processes would have to take part.

    Args:
        model: built Keras model.
    """
    if jax_distribution() is None:
        yield
        return
    values: Any = [
        (weight, weight.value.addressable_data(0)) for weight in model.weights
    ]
    with keras.StatelessScope(state_mapping=values):
        yield


def on_devices_of(variable: keras.Variable, values: np.ndarray) -> Any:
    """Copies values to the devices that a variable is on, to be assigned.

    An assignment to devices of several processes would make all of them
    compare what they assign.

    Returns:
        Tensor; without several devices of JAX, `values`.
    """
    if jax_distribution() is None:
        return values
    import jax

    sharding = variable.value.sharding
    return jax.make_array_from_callback(
        values.shape, sharding, lambda index: values[index]
    )


def jax_step(
    model: keras.Model, state: State, data: Any
) -> tuple[dict[str, Tensor], State]:
    """Makes one update, as `tensorflow_step`, of the values of variables."""
    import jax

    trainable, _, of_optimizer, _ = state
    optimizer = model.optimizer
    batch = keras.utils.unpack_x_y_sample_weight(data)
    own_tokens = ops.sum(token_weights(*batch[1:]))
    num_tokens = sum_over_replicas(own_tokens)
    loss, gradients, non_trainable, of_metrics = _jax_gradients(
        model, state, batch, num_tokens
    )
    loss, *gradients = sum_over_replicas([loss, *gradients])
    norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients))
    with _scope(optimizer.variables, of_optimizer):
        loss_scale = optimizer.scale_loss(ops.ones((), "float32"))
    with _scope(model.metrics_variables, of_metrics) as scope:
        is_usable = count_step(
            model, loss, own_tokens, norm / loss_scale, loss_scale
        )
        logs = model.get_metrics_result()
    of_metrics = _values(scope, model.metrics_variables)
    updated = optimizer.stateless_apply(of_optimizer, gradients, trainable)
    # XLA fuses both branches of `where`. A Python branch would synchronize
    # with the host.
    trainable, of_optimizer = jax.tree.map(
        lambda new, old: ops.where(is_usable, new, old),
        tuple(map(list, updated)),
        (trainable, of_optimizer),
    )
    return logs, (trainable, non_trainable, of_optimizer, of_metrics)


def _jax_gradients(
    model: keras.Model,
    state: State,
    batch: Rows,
    num_tokens: Tensor,
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """Returns loss and scaled gradients, and new values of other variables.

    These are the variables that are not trained, and those of the metrics.
    """
    import jax

    trainable, non_trainable, of_optimizer, of_metrics = state

    def loss_of(
        trainable: list[Tensor],
        others: tuple[list[Tensor], list[Tensor]],
        rows: Rows,
    ) -> tuple[Tensor, Any]:
        non_trainable, of_metrics = others
        with _scope(
            [
                *model.trainable_variables,
                *model.non_trainable_variables,
                *model.optimizer.variables,
                *model.metrics_variables,
            ],
            [*trainable, *non_trainable, *of_optimizer, *of_metrics],
            # Those that layers add.
            collect_losses=True,
        ) as scope:
            loss = loss_of_rows(model, *rows, num_tokens)
            scaled_loss = model.optimizer.scale_loss(loss)
        others = (
            _values(scope, model.non_trainable_variables),
            _values(scope, model.metrics_variables),
        )
        return scaled_loss, (loss, others)

    differentiate = jax.value_and_grad(loss_of, has_aux=True)
    others = (non_trainable, of_metrics)
    num_parts = model.accumulation_steps
    if num_parts == 1:
        (_, (loss, others)), gradients = differentiate(trainable, others, batch)
        return loss, gradients, *others

    def add_part(sums: Any, rows: Rows) -> tuple[Any, None]:
        loss, gradients, others = sums
        (_, (part_loss, others)), of_part = differentiate(
            trainable, others, rows
        )
        added = [total + more for total, more in zip(gradients, of_part)]
        return (loss + part_loss, added, others), None

    zeros = [ops.zeros_like(values) for values in trainable]
    (loss, gradients, others), _ = jax.lax.scan(
        add_part,
        (ops.zeros((), num_tokens.dtype), zeros, others),
        equal_parts(batch, num_parts),
    )
    return loss, gradients, *others


def _scope(
    variables: Sequence[keras.Variable],
    values: Sequence[Tensor],
    collect_losses: bool = False,
) -> keras.StatelessScope:
    return keras.StatelessScope(
        state_mapping=list(zip(variables, values)),
        collect_losses=collect_losses,
    )


def _values(
    scope: keras.StatelessScope, variables: Sequence[keras.Variable]
) -> list[Tensor]:
    return [scope.get_current_value(variable) for variable in variables]
