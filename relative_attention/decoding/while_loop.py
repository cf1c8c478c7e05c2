"""A loop, and a choice, over tensors whose shapes may change."""

from collections.abc import Callable
from typing import Any
from typing import TypeVar

import keras

from relative_attention.decoding.optional_tensors import tensors_of
from relative_attention.decoding.optional_tensors import with_tensors
from relative_attention.tensor_type import Tensor

# A structure of tensors: nested dicts, lists, tuples and named tuples.
State = TypeVar("State")


def while_loop(
    condition: Callable[[State], Tensor],
    body: Callable[[State], State],
    state: State,
) -> State:
    """Runs `state = body(state)` while `condition(state)`.

    `keras.ops.while_loop` wants every tensor to keep its shape; a cache that
    grows by a position a step, and loses the sentences that are done, does
    not. In a TensorFlow graph this is `tf.while_loop` with shape invariants,
    elsewhere a Python loop.

    Args:
        condition: takes a state, returns a bool scalar.
        body: takes a state, returns one of the same structure.
        state: nested dicts, lists and named tuples of tensors. Axes 0 and 2
            of those that have them may change from step to step; other axes
            keep their size. What is `None` stays `None`.

    Returns:
        The last state.
    """
    if _is_in_graph():
        return _graph_loop(condition, body, state)
    while bool(condition(state)):
        state = body(state)
    return state


def fixed_while_loop(
    condition: Callable[[State], Tensor],
    body: Callable[[State], State],
    state: State,
) -> State:
    """Runs `state = body(state)` while `condition(state)`, of one shape.

    On JAX it is one loop that XLA compiles, elsewhere a Python loop.

    Args:
        condition: takes a state, returns a bool scalar.
        body: takes a state, returns one of the same structure and shapes.
        state: nested dicts, lists and named tuples of tensors and `None`.

    Returns:
        The last state.
    """
    if keras.backend.backend() != "jax":
        return while_loop(condition, body, state)
    import jax

    return jax.lax.while_loop(condition, body, state)


def change_if(
    condition: Tensor, change: Callable[[State], State], state: State
) -> State:
    """Returns `change(state)` if the condition holds, else the state.

    `keras.ops.cond` wants both to have one shape.

    Args:
        condition: bool scalar.
        change: takes a state, returns one of the same structure.
        state: nested dicts, lists and named tuples of tensors.
    """
    if _is_in_graph():
        import tensorflow as tf

        return tf.cond(condition, lambda: change(state), lambda: state)
    return change(state) if bool(condition) else state


def _graph_loop(
    condition: Callable[[State], Tensor],
    body: Callable[[State], State],
    state: State,
) -> State:
    """Adds a `tf.while_loop` to the graph that is being made."""
    import tensorflow as tf

    def changed(*tensors: Tensor) -> list[Tensor]:
        after = body(with_tensors(state, tensors))
        keras.tree.assert_same_structure(state, after)
        return tensors_of(after)

    # TensorFlow takes no `None` as a variable of a loop, and wants to be told
    # which shapes change.
    tensors = tensors_of(state)
    tensors = tf.while_loop(
        lambda *tensors: condition(with_tensors(state, tensors)),
        changed,
        tensors,
        shape_invariants=[_free_shape(tensor) for tensor in tensors],
    )
    return with_tensors(state, tensors)


def _is_in_graph() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def _free_shape(tensor: Tensor) -> Any:
    """Returns the `tf.TensorShape` of a tensor with axes 0 and 2 free."""
    import tensorflow as tf

    dims = tensor.shape.as_list()
    for axis in (0, 2):
        if axis < len(dims):
            dims[axis] = None
    return tf.TensorShape(dims)
