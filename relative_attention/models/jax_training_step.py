"""The training step of `TrainingStep` as JAX takes it: state in, state out.

A function that XLA compiles changes no variables. Keras hands it the values of
all of them and takes new ones; within a `keras.StatelessScope` variables have
the values that are handed over, and what is assigned to them is kept aside.
"""

from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relative_attention.ops.losses import token_weights
from relative_attention.tensor_type import Tensor

# The values of trainable variables, of others, of the optimizer's and of the
# metrics', as Keras hands them over.
State = tuple[list[Tensor], list[Tensor], list[Tensor], list[Tensor]]


def jax_train_step(
    model: Any, state: State, data: Any
) -> tuple[dict[str, Tensor], State]:
    """Makes one update, as `TrainingStep.train_step` on one replica.

    Args:
        model: a `TrainingStep`, compiled and built.
        state: the values of its variables.
        data: a batch, as for `keras.Model.train_step`.

    Returns:
        Pair of the dict of the metrics and the new values.
    """
    import jax

    trainable, _, of_optimizer, _ = state
    _, y, sample_weight = batch = keras.utils.unpack_x_y_sample_weight(data)
    num_tokens = ops.sum(token_weights(y, sample_weight))
    loss, gradients, non_trainable, of_metrics = _loss_and_gradients(
        model, state, batch, num_tokens
    )
    norm = ops.sqrt(sum(ops.sum(ops.square(g)) for g in gradients))
    norm = norm / _loss_scale(model, of_optimizer)
    is_finite = ops.isfinite(norm) & ops.isfinite(loss)
    is_usable = model.is_usable_update(loss, is_finite)
    updated = model.optimizer.stateless_apply(
        of_optimizer, gradients, trainable
    )
    # Both are of the same fused pass; a branch would wait for the host.
    trainable, of_optimizer = jax.tree.map(
        lambda new, old: ops.where(is_usable, new, old),
        tuple(map(list, updated)),
        (trainable, of_optimizer),
    )
    with _scope(model.metrics_variables, of_metrics) as scope:
        model.show_loss(loss, num_tokens)
        model.show_update(norm, is_finite, is_usable)
        logs = model.get_metrics_result()
    of_metrics = _values(scope, model.metrics_variables)
    return logs, (trainable, non_trainable, of_optimizer, of_metrics)


def _loss_and_gradients(
    model: Any, state: State, batch: Any, num_tokens: Tensor
) -> tuple[Tensor, list[Tensor], list[Tensor], list[Tensor]]:
    """Computes loss and gradients, of all rows or of one part after another.

    Returns:
        The loss, gradients times a loss scale, and new values of the variables
        that are not trained and of the metrics'.
    """
    import jax

    trainable, non_trainable, of_optimizer, of_metrics = state
    num_parts = model.accumulation_steps
    of_part = {}
    if num_parts > 1 or model.is_projected:
        of_part["num_tokens"] = num_tokens

    def loss_of_rows(
        trainable: list[Tensor],
        others: tuple[list[Tensor], list[Tensor]],
        rows: Any,
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
        ) as scope:
            loss = model.loss_of_rows(*rows, **of_part)
            scaled_loss = model.optimizer.scale_loss(loss)
        others = (
            _values(scope, model.non_trainable_variables),
            _values(scope, model.metrics_variables),
        )
        return scaled_loss, (loss, others)

    differentiate = jax.value_and_grad(loss_of_rows, has_aux=True)
    others = (non_trainable, of_metrics)
    if num_parts == 1:
        (_, (loss, others)), gradients = differentiate(trainable, others, batch)
        return loss, gradients, *others

    def add_part(sums: Any, rows: Any) -> tuple[Any, None]:
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
        _parts(batch, num_parts),
    )
    return loss, gradients, *others


def _parts(batch: Any, num_parts: int) -> Any:
    """Returns a batch with an axis of parts before that of the rows.

    All parts have as many rows. The last ones end with rows of zeros, which
    count for nothing.
    """
    import jax

    def divide(tensor: Tensor) -> Tensor:
        part_rows = -(-tensor.shape[0] // num_parts)
        missing = num_parts * part_rows - tensor.shape[0]
        rest = [(0, 0)] * (len(tensor.shape) - 1)
        padded = ops.pad(tensor, [(0, missing), *rest])
        return ops.reshape(padded, (num_parts, part_rows, *tensor.shape[1:]))

    return jax.tree.map(divide, batch)


def _loss_scale(model: Any, of_optimizer: list[Tensor]) -> Tensor:
    """Returns what the optimizer multiplies a loss by."""
    with _scope(model.optimizer.variables, of_optimizer):
        return model.optimizer.scale_loss(ops.ones((), "float32"))


def _scope(
    variables: Sequence[keras.Variable], values: Sequence[Tensor]
) -> keras.StatelessScope:
    return keras.StatelessScope(state_mapping=list(zip(variables, values)))


def _values(
    scope: keras.StatelessScope, variables: Sequence[keras.Variable]
) -> list[Tensor]:
    return [scope.get_current_value(variable) for variable in variables]
