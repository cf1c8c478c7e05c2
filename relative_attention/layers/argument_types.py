"""Names for the types of arguments that many layers share."""

from collections.abc import Callable
from typing import Any
from typing import TypeAlias

import keras

from relative_attention.tensor_type import Tensor

# Sizes of a tensor's axes; `None` stands for one that is not known yet.
Shape: TypeAlias = tuple[int | None, ...]

# What `keras.initializers.get` and its siblings turn into an object: a name,
# a config, or the object itself.
InitializerLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.initializers.Initializer
)
RegularizerLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.regularizers.Regularizer
    | None
)
ConstraintLike: TypeAlias = (
    str
    | dict[str, Any]
    | Callable[..., Tensor]
    | keras.constraints.Constraint
    | None
)
