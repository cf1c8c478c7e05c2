"""Checks of masks that callers give: bool, or the integers 0 and 1."""

import keras
from keras import ops

from relative_attention.ops.known_values import known_values
from relative_attention.tensor_type import Tensor


def given_mask(name: str, mask: Tensor) -> Tensor:
    """Checks a mask and returns it as a bool tensor.

    Args:
        name: string. The name of the argument, for the message.
        mask: bool tensor, or int tensor of zeros and ones, as KerasHub makes
            them. `True` or `1` = may attend, or real token.

    Returns:
        Bool tensor.

    Raises:
        ValueError: if it has another dtype, such as that of an additive mask,
            or (where its values are known, so not inside a compiled function)
            another integer.
    """
    check_mask(name, mask)
    return ops.cast(mask, "bool")


def check_mask(name: str, mask: Tensor) -> tuple[int | None, ...]:
    """Checks a mask, which may be a symbolic tensor.

    Args:
        name: string. The name of the argument, for the message.
        mask: see `given_mask`.

    Returns:
        The shape of the mask; `None` for sizes that are not known.

    Raises:
        ValueError: see `given_mask`.
    """
    if not hasattr(mask, "dtype"):
        mask = ops.convert_to_tensor(mask)
    shape = tuple(mask.shape)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return shape
    if "int" not in dtype:
        raise ValueError(
            f"`{name}` must be bool, or integers 0 and 1; True and 1 mean "
            f"that there is something to attend to. Received: {dtype} of "
            f"shape {shape}. Of a mask that is added to logits "
            "(0 and large negative numbers), pass `mask == 0`; this is not "
            "the place of keys or values."
        )
    values = known_values(mask)
    if values is not None and ((values < 0) | (values > 1)).any():
        wrong = values[(values < 0) | (values > 1)][0]
        raise ValueError(
            f"`{name}` must be bool, or integers 0 and 1. Received: {wrong}. "
            "Of token ids, pass `token_ids != 0`."
        )
    return shape


def check_padding_mask(
    name: str, mask: Tensor, batch_size: int | None, length: int | None
) -> None:
    """Checks that a mask has the shape of the padding of a sequence.

    Args:
        name: string. The name of the argument, for the message.
        mask: what should be a bool tensor `(B, T)`.
        batch_size, length: int or `None`, the sizes that it must have where
            these are known.

    Raises:
        ValueError: if it has another shape, or see `given_mask`.
    """
    shape, expected = check_mask(name, mask), (batch_size, length)
    if len(shape) != 2 or not all(map(same_size, shape, expected)):
        raise ValueError(
            f"`{name}` must have shape {expected}, True for real tokens. "
            f"Received shape: {shape}."
        )


def same_size(size: int | Tensor | None, other: int | Tensor | None) -> bool:
    """Returns whether two sizes are the same, as far as they are known."""
    # In a graph a size may be a tensor, which tells nothing now.
    return not (isinstance(size, int) and isinstance(other, int)) or (
        size == other
    )
