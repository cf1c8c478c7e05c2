"""Compiles searches, and has the loops for them.

A search is a plain function of a model and tensors. On TensorFlow
`run_compiled` makes it one graph. The loops here run in such a graph, and as
Python loops elsewhere.
"""

from collections.abc import Callable
from collections.abc import Iterable
from typing import Any
from typing import TypeVar

import keras
from keras import ops

from relative_attention.tensor_type import Tensor

# A structure of tensors and `None`: nested dicts, lists and (named) tuples.
State = TypeVar("State")


def run_compiled(
    function: Callable[..., Any], model: Any, inputs: Any, **options: Any
) -> Any:
    """Computes `function(model, inputs, **options)`, compiled if it pays.

    On TensorFlow it is one graph, traced once per model, structure of inputs
    and options, for all shapes. Elsewhere it is a plain call.

    Args:
        function: a function of this package, at module level.
        model: its first argument.
        inputs: named tuple of tensors, `None` and such tuples. `None`s are not
            inputs of the graph.
        **options: hashable values.
    """
    if keras.backend.backend() != "tensorflow":
        return function(model, inputs, **options)
    import tensorflow as tf

    if tf.config.functions_run_eagerly():
        return function(model, inputs, **options)
    # The graph only keeps the structure and the types of the inputs.
    signature = keras.tree.map_structure(
        lambda tensor: (
            tensor
            if tensor is None
            else tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
        ),
        inputs,
    )
    key = (function, signature, tuple(sorted(options.items())))
    graphs = compiled_functions(model)
    if key not in graphs:
        # TensorFlow counts the first call of each `tf.function` as a retracing
        # of this code, and warns after five. Explicit tracing is not counted.
        graphs[key] = tf.function(
            lambda inputs: function(model, inputs, **options), autograph=False
        ).get_concrete_function(signature)
    return graphs[key](inputs)


def compiled_functions(model: Any) -> dict[Any, Any]:
    """Returns the dict of functions compiled for the model in its present form.

    It is kept with the model, and emptied when variables or dtypes of the model
    change: after adapters, quantization or a new layer. New values of the same
    variables do not matter, as a graph reads them.
    """
    weights = list(getattr(model, "weights", ()))
    dtypes = [
        layer.dtype_policy.name
        for member in getattr(model, "models", [model])
        if isinstance(member, keras.Model)
        for layer in member._flatten_layers()
    ]
    key = [*map(id, weights), *dtypes]
    kept = model.__dict__.get("_compiled")
    if kept is None or kept["key"] != key:
        # Keeps the weights too, or a new one could get the `id` of an old one.
        kept = {"key": key, "weights": weights, "functions": {}}
        # Bypasses Keras, which would track the attribute.
        model.__dict__["_compiled"] = kept
    return kept["functions"]


def while_loop(
    condition: Callable[[State], Tensor],
    body: Callable[[State], State],
    state: State,
    is_fixed: bool = False,
) -> State:
    """Runs `state = body(state)` while `condition(state)`.

    `keras.ops.while_loop` requires every tensor to keep its shape. But a cache
    grows by one position per step, and loses finished sentences. In a
    TensorFlow graph this is `tf.while_loop` with shape invariants, elsewhere a
    Python loop.

    Args:
        condition: takes a state, returns a bool scalar.
        body: takes a state, returns one of the same structure.
        state: nested dicts, lists and named tuples of tensors. Axes 0 and 2
            may change from step to step; other axes keep their size. `None`
            stays `None`.
        is_fixed: bool. Whether no shape changes. On JAX, XLA compiles such a
            loop. Defaults to `False`.

    Returns:
        The last state.
    """
    if is_fixed and keras.backend.backend() == "jax":
        import jax

        return jax.lax.while_loop(condition, body, state)
    if not _is_in_graph():
        while bool(condition(state)):
            state = body(state)
        return state
    import tensorflow as tf

    def changed(*tensors: Tensor) -> list[Tensor]:
        after = body(_with_tensors(state, tensors))
        keras.tree.assert_same_structure(state, after)
        return _tensors_of(after)

    # TensorFlow does not accept `None` as a variable of a loop, and must be
    # told which shapes change.
    tensors = _tensors_of(state)
    tensors = tf.while_loop(
        lambda *tensors: condition(_with_tensors(state, tensors)),
        changed,
        tensors,
        shape_invariants=[_free_shape(tensor) for tensor in tensors],
    )
    return _with_tensors(state, tensors)


def change_if(
    condition: Tensor, change: Callable[[State], State], state: State
) -> State:
    """Returns `change(state)` if the condition holds, else the state.

    `keras.ops.cond` requires the same shapes of both.
    """
    if _is_in_graph():
        import tensorflow as tf

        return tf.cond(condition, lambda: change(state), lambda: state)
    return change(state) if bool(condition) else state


def take_rows(values: Tensor, rows: Tensor) -> Tensor:
    """Computes `ops.take(values, rows, axis=0)` for non-negative indices.

    On TensorFlow `ops.take` spends five operations on negative indices, and a
    step of decoding takes rows of small tensors a dozen times.
    """
    if keras.backend.backend() != "tensorflow":
        return ops.take(values, rows, axis=0)
    import tensorflow as tf

    return tf.gather(values, rows)


def _is_in_graph() -> bool:
    if keras.backend.backend() != "tensorflow":
        return False
    import tensorflow as tf

    return not tf.executing_eagerly()


def _free_shape(tensor: Tensor) -> Any:
    """Returns the `tf.TensorShape` of a tensor with axes 0 and 2 free."""
    import tensorflow as tf

    return tf.TensorShape(
        None if axis in (0, 2) else size
        for axis, size in enumerate(tensor.shape)
    )


def _tensors_of(structure: Any) -> list[Tensor]:
    """Lists the tensors of a structure, without `None`."""
    return [leaf for leaf in keras.tree.flatten(structure) if leaf is not None]


def _with_tensors(structure: State, tensors: Iterable[Tensor]) -> State:
    """Puts tensors into a structure, except where it has `None`."""
    following = iter(tensors)
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else next(following), structure
    )
