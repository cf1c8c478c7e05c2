"""A training step of TensorFlow, the same on one replica and on many.

Keras' own step goes wrong in four places once there are several replicas: it
clips gradients before they are added up; its loss scale looks at the first
replica alone; the step counter, and the seeds of dropout, move on when a data
set has ended; and what it shows is a mean of means. Here gradients are added
up first, and everything waits for the batch.
"""

import keras

from relative_attention.ops.replicas import counting_alone
from relative_attention.ops.replicas import sum_over_replicas
from relative_attention.ops.token_log_likelihood import token_weights


def train_step(model, data):
    """One update of a `TrainableModel`; returns its metrics.

    Called on every replica, each with its own rows of the batch.
    """
    import tensorflow as tf

    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    if not model.optimizer.built:
        with tf.init_scope():
            model.optimizer.build(model.trainable_variables)
    # A data set that has ended gives no batch, but what does not depend on
    # one would run all the same: counters, and seeds.
    batch = [tensor for tensor in tf.nest.flatten(data) if tensor is not None]
    with tf.control_dependencies(batch):
        if model.accumulation_steps == 1:
            loss, gradients = _gradients(model, x, y, sample_weight)
        else:
            loss, gradients = _accumulated(model, x, y, sample_weight)
        loss, gradients = _over_replicas(loss, gradients)
        _update(model, loss, gradients)
    return model.get_metrics_result()


def is_mirrored(strategy):
    """Whether replicas, be it a single one, meet outside compiled code."""
    import tensorflow as tf

    return isinstance(
        strategy,
        (
            tf.distribute.MirroredStrategy,
            tf.distribute.MultiWorkerMirroredStrategy,
        ),
    )


def on_all_replicas(model, step, results):
    """What `fit` calls with an iterator: a step on every replica.

    Metrics are read outside the replicas, where they are sums over all.

    Args:
        model: Keras model made within a strategy's scope.
        step: function of a replica's part of a batch.
        results: function without arguments, of what is shown after it.
    """
    import tensorflow as tf

    strategy = model.distribute_strategy

    def on_batch(batch):
        strategy.run(step, args=(batch,))
        return results()

    def on_next_batch(iterator):
        return on_batch(iterator.get_next())

    if not model.run_eagerly:
        on_batch = tf.function(on_batch, reduce_retracing=True, autograph=False)
        on_next_batch = tf.function(
            on_next_batch, reduce_retracing=True, autograph=False
        )

    def call(iterator):
        if isinstance(
            iterator, (tf.data.Iterator, tf.distribute.DistributedIterator)
        ):
            return on_next_batch(iterator)
        return on_batch(next(iterator))

    return call


def _gradients(model, x, y, sample_weight, weight=None):
    """Loss and gradients of a batch, times `weight` if there is one."""
    import tensorflow as tf

    with tf.GradientTape() as tape:
        y_pred = model(x, training=True)
        loss = model.compute_loss(
            x=x, y=y, y_pred=y_pred, sample_weight=sample_weight, training=True
        )
        if weight is not None:
            loss = loss * weight
        scaled_loss = model.optimizer.scale_loss(loss)
    gradients = [
        # As slices, a row that is looked up twice would count as two in the
        # length of the gradient; and sums over replicas are dense anyway.
        gradient if gradient is None else tf.convert_to_tensor(gradient)
        for gradient in tape.gradient(scaled_loss, model.trainable_variables)
    ]
    model.compute_metrics(x, y, y_pred, sample_weight=sample_weight)
    return loss, gradients


def _accumulated(model, x, y, sample_weight):
    """Loss and gradients of a batch, a part of its rows after another.

    Each part's mean over tokens is weighted by its share of the tokens of the
    batch, all replicas together.
    """
    import tensorflow as tf

    total = sum_over_replicas(tf.reduce_sum(token_weights(y, sample_weight)))
    num_rows = tf.shape(y)[0]
    # At least one, so that the loop ends where there are no rows.
    part_rows = tf.maximum(-(-num_rows // model.accumulation_steps), 1)
    parts = tf.nest.map_structure(
        lambda tensor: (
            None
            if tensor is None
            else _parts(model, tensor, num_rows, part_rows)
        ),
        (x, y, sample_weight),
    )

    def has_more(number, loss, sums):
        return number * part_rows < num_rows

    def add_part(number, loss, sums):
        part_x, part_y, part_weight = tf.nest.map_structure(
            lambda part: None if part is None else part(number), parts
        )
        weight = tf.reduce_sum(token_weights(part_y, part_weight)) / tf.maximum(
            total, 1e-9
        )
        with counting_alone():
            part_loss, gradients = _gradients(
                model, part_x, part_y, part_weight, weight
            )
        sums = [
            total if gradient is None else total + gradient
            for total, gradient in zip(sums, gradients)
        ]
        return number + 1, loss + part_loss, sums

    _, loss, gradients = tf.while_loop(
        has_more,
        add_part,
        (
            tf.constant(0),
            tf.constant(0.0),
            [tf.zeros_like(variable) for variable in model.trainable_variables],
        ),
        parallel_iterations=1,
    )
    return loss, gradients


def _parts(model, tensor, num_rows, part_rows):
    """Function of the number of a part that gives its rows of a tensor."""
    import tensorflow as tf

    if not model.jit_compile:
        # The last part has what is left.
        return lambda number: tensor[
            number * part_rows : (number + 1) * part_rows
        ]
    # XLA wants to know every shape before it runs, so that all parts have as
    # many rows: at the end some of padding, which counts nothing.
    num_parts = model.accumulation_steps
    missing = num_parts * part_rows - num_rows
    padded = tf.pad(tensor, [[0, missing]] + [[0, 0]] * (tensor.ndim - 1))
    parts = tf.reshape(
        padded,
        tf.concat([[num_parts, part_rows], tf.shape(tensor)[1:]], axis=0),
    )
    return lambda number: tf.ensure_shape(
        tf.gather(parts, number), (None, *tensor.shape[1:])
    )


def _over_replicas(loss, gradients):
    """Sums over all replicas."""
    import tensorflow as tf

    context = tf.distribute.get_replica_context()
    if context.num_replicas_in_sync == 1:
        return loss, gradients
    present = [g for g in gradients if g is not None]
    loss, *present = context.all_reduce("SUM", [loss, *present])
    present = iter(present)
    return loss, [None if g is None else next(present) for g in gradients]


def _clipped(optimizer, gradients):
    """The sums, clipped; the optimizer would clip each replica's share."""
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


def _update(model, loss, gradients):
    """Apply gradients that are finite; count the step if they are not."""
    import tensorflow as tf

    optimizer = model.optimizer
    norm = tf.linalg.global_norm([g for g in gradients if g is not None])
    norm = tf.cast(norm, "float32") / optimizer.scale_loss(tf.constant(1.0))
    is_finite = tf.math.is_finite(norm) & tf.math.is_finite(loss)
    # A loss scale that is too large overflows gradients, and lowers itself.
    is_scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    is_usable = tf.math.is_finite(loss) if is_scaled else is_finite
    model.gradient_norm_metric.update_state(
        tf.where(is_finite, norm, 0.0), tf.cast(is_finite, "float32")
    )
    context = tf.distribute.get_replica_context()
    num_replicas = context.num_replicas_in_sync
    # A metric adds up what the replicas count.
    model.skipped_metric.update_state(
        tf.cast(~is_usable, "float32") / num_replicas
    )
    variables = [
        variable
        for variable, gradient in zip(model.trainable_variables, gradients)
        if gradient is not None
    ]
    gradients = [gradient for gradient in gradients if gradient is not None]
    if num_replicas > 1:
        # The optimizer adds up once more; clipping what is less does nothing.
        gradients = [g / num_replicas for g in _clipped(optimizer, gradients)]

    def apply(gradients):
        optimizer.apply(gradients, variables)

    def apply_if_usable(strategy, gradients, is_usable):
        # A branch with an update on all replicas can only be taken by all.
        is_usable = strategy.experimental_local_results(is_usable)[0]
        tf.cond(
            is_usable,
            lambda: strategy.extended.call_for_each_replica(
                apply, args=(gradients,)
            ),
            lambda: None,
        )

    # A strategy has replicas meet in the optimizer even where there is one.
    if not tf.distribute.has_strategy():
        tf.cond(is_usable, lambda: apply(gradients), lambda: None)
    else:
        context.merge_call(apply_if_usable, args=(gradients, is_usable))
