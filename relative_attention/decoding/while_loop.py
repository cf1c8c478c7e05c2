"""A loop, and a choice, over tensors whose shapes may change."""

import keras


def while_loop(condition, body, state):
    """Run `state = body(state)` while `condition(state)`.

    `keras.ops.while_loop` wants every tensor to keep its shape; a cache that
    grows by a position a step, and loses the sentences that are done, does
    not. In a TensorFlow graph this is `tf.while_loop` with shape invariants,
    elsewhere a Python loop.

    Args:
        condition: takes a state, returns a bool scalar.
        body: takes a state, returns one of the same structure.
        state: nested dicts and lists of tensors. Axes 0 and 2 of those that
            have them may change from step to step; other axes keep their
            size.

    Returns:
        The last state.
    """
    if _is_in_graph():
        import tensorflow as tf

        (state,) = tf.while_loop(
            condition,
            lambda state: (body(state),),
            (state,),
            shape_invariants=(tf.nest.map_structure(_free_shape, state),),
        )
        return state
    while bool(condition(state)):
        state = body(state)
    return state


def change_if(condition, change, state):
    """`change(state)` if the condition holds, else the state.

    `keras.ops.cond` wants both of one shape.

    Args:
        condition: bool scalar.
        change: takes a state, returns one of the same structure.
        state: nested dicts and lists of tensors.
    """
    if _is_in_graph():
        import tensorflow as tf

        return tf.cond(condition, lambda: change(state), lambda: state)
    return change(state) if bool(condition) else state


def _is_in_graph():
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def _free_shape(tensor):
    import tensorflow as tf

    dims = tensor.shape.as_list()
    for axis in (0, 2):
        if axis < len(dims):
            dims[axis] = None
    return tf.TensorShape(dims)
