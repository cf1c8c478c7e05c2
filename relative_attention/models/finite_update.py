"""An update that is made on all replicas, or on none.

The optimizer of each replica is given the same gradients, the sums over all
replicas. TensorFlow alone.
"""

import keras

from relative_attention.tensor_type import Tensor


def gradient_norm(
    optimizer: keras.optimizers.Optimizer, gradients: list[Tensor | None]
) -> Tensor:
    """Computes the length of all gradients together, without a loss scale.

    Args:
        optimizer: the optimizer, whose loss scale they have.
        gradients: list of float tensors, or `None`.

    Returns:
        float32 scalar.
    """
    import tensorflow as tf

    norm = tf.linalg.global_norm([g for g in gradients if g is not None])
    return tf.cast(norm, "float32") / optimizer.scale_loss(tf.constant(1.0))


def update_all_replicas(
    optimizer: keras.optimizers.Optimizer,
    variables: list[keras.Variable],
    gradients: list[Tensor | None],
    is_usable: Tensor,
) -> None:
    """Applies gradients if they are usable.

    Args:
        optimizer: the optimizer, built.
        variables: list of variables.
        gradients: list of sums over replicas, one for each variable; `None`
            for those that are left alone.
        is_usable: bool scalar, the same on all replicas.
    """
    import tensorflow as tf

    pairs = [(g, v) for g, v in zip(gradients, variables) if g is not None]
    present = [gradient for gradient, _ in pairs]
    variables = [variable for _, variable in pairs]
    context = tf.distribute.get_replica_context()
    num_replicas = context.num_replicas_in_sync
    if num_replicas > 1:
        # The optimizer adds up once more; clipping what is less does nothing.
        clipped = clip_gradients(optimizer, present)
        present = [gradient / num_replicas for gradient in clipped]

    def apply(present: list[Tensor]) -> None:
        optimizer.apply(present, variables)

    def apply_or_not(
        strategy: "tf.distribute.Strategy", present: Tensor, is_usable: Tensor
    ) -> None:
        # A branch with an update on all replicas can only be taken by all.
        is_usable = strategy.experimental_local_results(is_usable)[0]
        tf.cond(
            is_usable,
            lambda: strategy.extended.call_for_each_replica(
                apply, args=(present,)
            ),
            lambda: None,
        )

    # A strategy has replicas meet in the optimizer even where there is one.
    if tf.distribute.has_strategy():
        context.merge_call(apply_or_not, args=(present, is_usable))
    else:
        tf.cond(is_usable, lambda: apply(present), lambda: None)


def clip_gradients(
    optimizer: keras.optimizers.Optimizer, gradients: list[Tensor]
) -> list[Tensor]:
    """Clips sums over replicas as the optimizer would clip each one's share.

    Args:
        optimizer: the optimizer, with `clipnorm`, `global_clipnorm` or
            `clipvalue`, or none of them.
        gradients: list of float tensors, times its loss scale.

    Returns:
        List of float tensors.
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
