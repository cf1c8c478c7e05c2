"""Structures of tensors of which some may be `None`.

A named tuple has all its fields, be they of use or not. TensorFlow's graphs
and loops take tensors alone: these take the `None` out and put them back.
"""

from collections.abc import Iterable
from typing import Any
from typing import TypeVar

import keras

from relative_attention.tensor_type import Tensor

Structure = TypeVar("Structure")


def tensors_of(structure: Any) -> list[Tensor]:
    """Lists the tensors of nested dicts, lists and tuples, without `None`."""
    return [leaf for leaf in keras.tree.flatten(structure) if leaf is not None]


def with_tensors(structure: Structure, tensors: Iterable[Tensor]) -> Structure:
    """Puts tensors where a structure has anything but `None`.

    Args:
        structure: nested dicts, lists and tuples.
        tensors: as many as `tensors_of(structure)`, in its order.
    """
    following = iter(tensors)
    return keras.tree.map_structure(
        lambda leaf: None if leaf is None else next(following), structure
    )
