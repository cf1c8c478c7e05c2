"""The values of a tensor, where looking at them costs nothing."""

from typing import TYPE_CHECKING

from keras import ops

from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import numpy as np


def known_values(tensor: Tensor) -> "np.ndarray | None":
    """Returns a tensor as an array, where its values are known and near.

    Args:
        tensor: tensor or array.

    Returns:
        NumPy array, or `None` where the tensor stands for values to come, as
        in a compiled function, or lies on an accelerator, which would have to
        be waited for.
    """
    try:
        if "cpu" not in str(tensor.device).lower():
            return None
        return ops.convert_to_numpy(tensor)
    except Exception:  # Each backend raises an error of its own.
        return None
