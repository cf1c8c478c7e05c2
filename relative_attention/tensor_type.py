"""The names for tensors and their shapes in signatures."""

from typing import Any
from typing import TypeAlias

# A tensor of the backend, a symbolic Keras tensor, or something that is
# converted to one, such as a NumPy array or nested lists. This imports no
# backend. Type checkers do not check shapes, so docstrings give them.
Tensor: TypeAlias = Any

# Sizes of a tensor's axes; `None` for one that is not known yet.
Shape: TypeAlias = tuple[int | None, ...]
