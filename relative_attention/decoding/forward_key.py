"""A key of the equations of a model, which tells whether a graph is stale."""

from collections.abc import Iterable
from typing import Any

import keras

# Where Keras keeps the parts of a layer, under whatever names.
_OF_LAYERS = ("_layers", "_trainable_variables", "_non_trainable_variables")
# The kind of each type that was met.
_KINDS: dict[type, type | None] = {}


def forward_key(model: Any) -> tuple[list[Any], list[Any]]:
    """Lists what the equations of a model consist of, to compare with later.

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
    key: list[Any] = []
    parts: list[Any] = []
    seen = set()
    pending = [model]
    while pending:
        owner = pending.pop()
        if id(owner) in seen or isinstance(owner, keras.Variable):
            continue
        seen.add(id(owner))
        parts.append(owner)
        key.append(id(owner))
        if _kind(owner) is keras.layers.Layer:
            # As Keras spells them, quantization included.
            key.append(owner.dtype_policy.name)
            key.append(owner.trainable)
        for name, value in _own_values(owner):
            kind = _kind(value)
            if kind in (keras.layers.Layer, keras.Variable, list):
                found = _parts(value) if kind is list else [value]
                parts += found
                key.append(name)
                key += map(id, found)
                pending += (
                    part for part in found if _kind(part) is keras.layers.Layer
                )
            # What training keeps with a model, such as `stop_training`, comes
            # and goes: of the model itself only its parts count.
            elif kind is object and owner is not model:
                key.append(name)
                key.append(value)
    return key, parts


def _own_values(owner: Any) -> Iterable[tuple[str, Any]]:
    """Lists the attributes that say what a layer computes."""
    return [
        (name, value)
        for name, value in vars(owner).items()
        if name != "built" and (name[0] != "_" or name in _OF_LAYERS)
    ]


def _kind(value: Any) -> type | None:
    """Returns the kind of an attribute, by its type.

    It is `Layer`, `Variable`, `list` for a container, `object` for a plain
    value, and `None` for what says nothing of the equations.
    """
    of = type(value)
    # Once for each type: a model has thousands of attributes.
    if of not in _KINDS:
        _KINDS[of] = _kind_of_type(of)
    return _KINDS[of]


def _kind_of_type(of: type) -> type | None:
    for kind in (keras.layers.Layer, keras.Variable):
        if issubclass(of, kind):
            return kind
    if issubclass(of, list | tuple | dict):
        return list
    if issubclass(of, bool | int | float | str | type(None)):
        return object
    return None


def _parts(container: Any) -> list[Any]:
    """Lists the layers and variables of nested lists, tuples and dicts."""
    found = []
    items = container.values() if isinstance(container, dict) else container
    for item in items:
        kind = _kind(item)
        if kind is list:
            found += _parts(item)
        elif kind in (keras.layers.Layer, keras.Variable):
            found.append(item)
    return found
