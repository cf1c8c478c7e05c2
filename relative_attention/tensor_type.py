"""The names for tensors and their shapes in signatures."""

from typing import Any
from typing import TypeAlias

# A tensor of the backend in use, a symbolic tensor of Keras, or what becomes
# one, as a NumPy array or nested lists. No backend is imported to say so, and
# no checker knows shapes: docstrings give them.
Tensor: TypeAlias = Any

# Sizes of a tensor's axes; `None` stands for one that is not known yet.
Shape: TypeAlias = tuple[int | None, ...]
