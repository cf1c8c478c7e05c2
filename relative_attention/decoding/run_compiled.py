"""A search as one TensorFlow graph."""

from collections.abc import Callable
from typing import Any
from typing import TypeVar

import keras

from relative_attention.decoding.forward_key import forward_key
from relative_attention.decoding.optional_tensors import tensors_of
from relative_attention.decoding.optional_tensors import with_tensors

Inputs = TypeVar("Inputs")


def run_compiled(
    function: Callable[..., Any], model: Any, inputs: Inputs, **options: Any
) -> Any:
    """Computes `function(model, inputs, **options)`, compiled where it pays.

    Under TensorFlow it is one graph, traced once for a model, a structure of
    inputs and options, whatever the shapes; elsewhere it is a plain call.
    Graphs are kept with the model, so that they go when the model goes; they
    also go when its equations have changed since (`forward_key`).

    Args:
        function: a function of this package, at module level.
        model: its first argument.
        inputs: named tuple of tensors, of `None` and of such tuples. What is
            `None` is no input of the graph.
        **options: hashable values.
    """
    if keras.backend.backend() != "tensorflow":
        return function(model, inputs, **options)
    import tensorflow as tf

    tensors = tensors_of(inputs)
    # Of the inputs only their structure is kept with the graph.
    structure = with_tensors(inputs, (True for _ in tensors))
    key = (function, structure, tuple(sorted(options.items())))
    graphs = compiled_functions(model)
    if key not in graphs:
        signature = [
            tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
            for tensor in tensors
        ]
        graphs[key] = tf.function(
            lambda tensors: function(
                model, with_tensors(structure, tensors), **options
            ),
            input_signature=[signature],
            autograph=False,
        )
    return graphs[key](tensors)


def compiled_functions(model: Any) -> dict[Any, Any]:
    """Returns the dict of what was compiled of the model as it is now.

    Args:
        model: the model, with which it is kept.
    """
    forward, parts = forward_key(model)
    kept = model.__dict__.get("_compiled")
    if kept is None or kept["forward"] != forward:
        # The parts too, so that no other object takes the place of one.
        kept = {"forward": forward, "parts": parts, "graphs": {}}
        model.__dict__["_compiled"] = kept
    return kept["graphs"]
