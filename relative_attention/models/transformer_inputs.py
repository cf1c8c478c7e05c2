"""What a `Transformer` is called with."""

import keras

from relative_attention.ops.given_mask import same_size

NAMES = ("source_token_ids", "target_token_ids")


def input_specs():
    """A `keras.layers.InputSpec` of each input, by which Keras checks ranks."""
    return [keras.layers.InputSpec(ndim=2, name=name) for name in NAMES]


def token_id_signature():
    """The inputs of an exported model, for any number of any length."""
    specs = {
        name: keras.layers.InputSpec(
            shape=(None, None), dtype="int32", name=name
        )
        for name in NAMES
    }
    return [specs]


def check_token_ids(name, token_ids):
    """Raise `ValueError` unless ids are of rows of sentences.

    Args:
        name: string. The argument, for the message.
        token_ids: what should be an int tensor `(B, T)`.
    """
    shape = tuple(token_ids.shape)
    if len(shape) != 2:
        raise ValueError(
            f"`{name}` must have two axes, a row for each sentence. Received "
            f"shape: {shape}."
        )


def check_inputs(inputs):
    """Raise `ValueError` unless inputs are a source for every target.

    Args:
        inputs: what should be a dict of int tensors `(B, S)` and `(B, T)`.
    """
    if not isinstance(inputs, dict) or not set(NAMES) <= set(inputs):
        received = (
            f"a dict with the keys {sorted(inputs)}"
            if isinstance(inputs, dict)
            else f"a {type(inputs).__name__}"
        )
        raise ValueError(
            '`inputs` must be a dict of "source_token_ids" and '
            f'"target_token_ids". Received: {received}.'
        )
    for name in NAMES:
        check_token_ids(name, inputs[name])
    source, target = (tuple(inputs[name].shape) for name in NAMES)
    if not same_size(source[0], target[0]):
        raise ValueError(
            "`source_token_ids` and `target_token_ids` must be of as many "
            f"sentences. Received shapes: {source} and {target}."
        )
