"""The one name for tensors in signatures."""

from typing import Any
from typing import TypeAlias

# A tensor of the backend in use, a symbolic tensor of Keras, or what becomes
# one, as a NumPy array or nested lists. No backend is imported to say so, and
# no checker knows shapes: docstrings give them.
Tensor: TypeAlias = Any
