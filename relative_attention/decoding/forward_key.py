"""What a graph of a model was made of."""

import functools

import keras


def forward_key(model):
    """What the equations of a model consist of, to compare with later.

    A graph holds the variables and the Python that the model had when it was
    made. A layer that has been replaced, adapted (`enable_lora`), quantized,
    frozen, set to another dtype policy or given other numbers may compute
    something else; new values in the same variables do not matter, a graph
    reads them.

    Args:
        model: Keras model, or any object that has layers.

    Returns:
        Pair of a key that compares by `==`, and a list of the objects whose
        identity it holds: an `id` says nothing once its object is gone.
    """
    key, parts = [], []
    seen = set()
    pending = [model]
    while pending:
        owner = pending.pop()
        if id(owner) in seen or isinstance(owner, keras.Variable):
            continue
        seen.add(id(owner))
        parts.append(owner)
        key.append(id(owner))
        if _kind(type(owner)) is keras.layers.Layer:
            # As Keras spells them, quantization included.
            key.append(owner.dtype_policy.name)
            key.append(owner.trainable)
        for name, value in vars(owner).items():
            if name[0] == "_" and name not in _OF_LAYERS or name == "built":
                continue
            kind = _kind(type(value))
            if kind is None:
                continue
            if kind is not object:
                found = _flat(value) if kind is list else (value,)
                parts += found
                key.append(name)
                key += map(id, found)
                pending += (
                    p for p in found if _kind(type(p)) is keras.layers.Layer
                )
            # What training keeps with a model, such as `stop_training`, comes
            # and goes: of the model itself only its parts count.
            elif owner is not model:
                key.append(name)
                key.append(value)
    return key, parts


# Where Keras keeps the parts of a layer, under whatever names.
_OF_LAYERS = ("_layers", "_trainable_variables", "_non_trainable_variables")


@functools.cache
def _kind(of):
    """A layer's, a variable's, a container's or a plain value's, or `None`."""
    for kind in (keras.layers.Layer, keras.Variable):
        if issubclass(of, kind):
            return kind
    if issubclass(of, list | tuple | dict):
        return list
    if issubclass(of, bool | int | float | str | type(None)):
        return object
    return None


def _flat(value):
    """The layers and variables in lists, tuples and dicts, however deep."""
    found = []
    for item in value.values() if isinstance(value, dict) else value:
        kind = _kind(type(item))
        if kind is list:
            found += _flat(item)
        elif kind in (keras.layers.Layer, keras.Variable):
            found.append(item)
    return found
