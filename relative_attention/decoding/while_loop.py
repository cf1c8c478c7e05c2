"""A loop over tensors whose shapes may grow."""

import keras


def while_loop(condition, body, state):
    """Run `state = body(state)` while `condition(state)`.

    `keras.ops.while_loop` wants every tensor to keep its shape; a cache that
    grows by a position a step does not. In a TensorFlow graph this is
    `tf.while_loop` with shape invariants, elsewhere a Python loop.

    Args:
        condition: takes a state, returns a bool scalar.
        body: takes a state, returns one of the same structure.
        state: nested dicts and lists of tensors. Axis 2 of tensors that have
            one may grow from step to step; all other axes keep their size.

    Returns:
        The last state.
    """
    if keras.backend.backend() == "tensorflow":
        import tensorflow as tf

        if not tf.executing_eagerly():
            (state,) = tf.while_loop(
                condition,
                lambda state: (body(state),),
                (state,),
                shape_invariants=(
                    tf.nest.map_structure(_growing_shape, state),
                ),
            )
            return state
    while bool(condition(state)):
        state = body(state)
    return state


def _growing_shape(tensor):
    import tensorflow as tf

    dims = tensor.shape.as_list()
    if len(dims) > 2:
        dims[2] = None
    return tf.TensorShape(dims)
