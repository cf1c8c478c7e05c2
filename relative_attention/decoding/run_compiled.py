"""A search as one TensorFlow graph."""

import keras

from relative_attention.decoding.forward_key import forward_key


def run_compiled(function, model, tensors, **options):
    """`function(model, tensors, **options)`, compiled where it pays.

    Under TensorFlow it is one graph, traced once for a model, a set of
    tensors and options, whatever the shapes; elsewhere it is a plain call.
    Graphs are kept with the model, so that they go when the model goes; they
    also go when its equations have changed since (`forward_key`).

    Args:
        function: a function of this package, at module level.
        model: what it takes.
        tensors: dict of tensors.
        **options: hashable values.
    """
    if keras.backend.backend() != "tensorflow":
        return function(model, tensors, **options)
    import tensorflow as tf

    graphs = _graphs(model)
    key = (function, tuple(sorted(tensors)), tuple(sorted(options.items())))
    if key not in graphs:
        signature = {
            name: tf.TensorSpec([None] * len(tensor.shape), tensor.dtype)
            for name, tensor in tensors.items()
        }
        graphs[key] = tf.function(
            lambda tensors: function(model, tensors, **options),
            input_signature=[signature],
            autograph=False,
        )
    return graphs[key](tensors)


def _graphs(model):
    """The dict of graphs of the model as it is now."""
    forward, parts = forward_key(model)
    kept = model.__dict__.get("_compiled")
    if kept is None or kept["forward"] != forward:
        # The parts too, so that no other object takes the place of one.
        kept = {"forward": forward, "parts": parts, "graphs": {}}
        model.__dict__["_compiled"] = kept
    return kept["graphs"]
