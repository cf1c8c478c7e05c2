"""Boolean masks: `True` is a real token, or a key that may be attended to."""

import functools
from typing import Any

import keras
from keras import ops

from relative_attention.ops.backend import finds_shapes
from relative_attention.ops.backend import known_values
from relative_attention.tensor_type import Tensor

PADDING_ID = 0
# What Keras puts for sizes that are not known, on PyTorch, to find shapes.
_STAND_INS = frozenset((83, 89))
# Far below any logit, yet finite: a row of -inf would make softmax nan.
MASKED_LOGIT = -1e9


def padding_mask(token_ids: Tensor) -> Tensor:
    """Returns which tokens are real and not padding.

    Id 0 is padding at any position, as in tensor2tensor.

    Args:
        token_ids: int tensor `(B, T)`.

    Returns:
        Bool tensor `(B, T)`. `True` = real token.
    """
    return ops.not_equal(token_ids, PADDING_ID)


def causal_mask(query_positions: Tensor, key_positions: Tensor) -> Tensor:
    """Returns which keys are not after each query.

    Args:
        query_positions: int tensor `(T,)`, absolute.
        key_positions: int tensor `(S,)`, absolute.

    Returns:
        Bool tensor `(T, S)`. `True` = may attend.
    """
    return ops.less_equal(key_positions[None, :], query_positions[:, None])


def merge_masks(
    length: int | Tensor,
    padding_mask: Tensor | None = None,
    attention_mask: Tensor | None = None,
    is_causal: bool = False,
) -> Tensor | None:
    """Merges the padding mask, a user's mask and causality into one mask.

    Args:
        length: int, or int scalar tensor. Number `T` of queries and keys.
        padding_mask: bool tensor `(B, T)`. `True` = real token.
        attention_mask: bool tensor, broadcast to `(B, T, T)`, or with an axis
            of heads to `(B, N, T, T)`. `True` = may attend.
        is_causal: bool. Whether a query attends only to its own and earlier
            positions. Defaults to `False`.

    Returns:
        Bool tensor that broadcasts to `(B, N, T, T)`, or `None` if every query
        may attend to every key, or only shapes are looked for.
    """
    if finds_shapes():
        return None
    masks = []
    if attention_mask is not None:
        mask = as_bool(attention_mask)
        while len(mask.shape) < 3:
            mask = ops.expand_dims(mask, 0)
        is_of_all_heads = len(mask.shape) == 3
        masks.append(ops.expand_dims(mask, 1) if is_of_all_heads else mask)
    if padding_mask is not None:
        masks.append(ops.expand_dims(as_bool(padding_mask), (1, 2)))
    if is_causal:
        positions = ops.arange(length, dtype="int32")
        masks.append(causal_mask(positions, positions)[None, None])
    return functools.reduce(ops.logical_and, masks) if masks else None


def as_bool(mask: Tensor) -> Tensor:
    """Casts a mask of zeros and ones to bool.

    Args:
        mask: bool, int or float tensor, see `check_mask`.
    """
    mask = ops.convert_to_tensor(mask)
    if keras.backend.is_float_dtype(
        keras.backend.standardize_dtype(mask.dtype)
    ):
        # A graph cannot refuse other numbers. In a mask that is added to
        # logits, 0 means the opposite.
        return ops.equal(mask, 1)
    return ops.cast(mask, "bool")


def hide_masked(logits: Tensor, mask: Tensor) -> Tensor:
    """Sets logits to a very low value where a query may not attend.

    Args:
        logits: float tensor `(B, N, T, S)`, not float16, where -1e9 is -inf.
        mask: bool tensor that broadcasts to its shape. `True` = may attend.

    Returns:
        Tensor of the shape and dtype of `logits`.
    """
    # Bare numbers would have Keras' default float type.
    shown, hidden = (
        ops.convert_to_tensor(number, logits.dtype)
        for number in (0.0, MASKED_LOGIT)
    )
    return logits + ops.where(mask, shown, hidden)


def check_mask(name: str, mask: Tensor) -> tuple[int | None, ...]:
    """Checks a user's mask, which may be a symbolic tensor.

    Args:
        name: string. The name of the argument, for the message.
        mask: bool tensor, or int or float tensor of zeros and ones. `True` or
            `1` = may attend, or real token.

    Returns:
        The shape of the mask; `None` for sizes that are not known.

    Raises:
        ValueError: if it holds other numbers, such as an additive mask (checked
            if values are known, so not inside a compiled function).
    """
    if not hasattr(mask, "dtype"):
        mask = ops.convert_to_tensor(mask)
    shape = tuple(mask.shape)
    dtype = keras.backend.standardize_dtype(mask.dtype)
    if dtype == "bool":
        return shape
    values = known_values(mask)
    if values is None:
        return shape
    wrong = values[(values != 0) & (values != 1)]
    if wrong.size:
        way_out = (
            "For token ids, pass `token_ids != 0`."
            if "int" in dtype
            else "For a mask that is added to logits (0 and large negative "
            "numbers), pass `mask == 0`. Keys and values are not passed here."
        )
        raise ValueError(
            f"`{name}` must be bool, or zeros and ones; True and 1 mean that "
            f"a token may be attended to. Received: {wrong[0]}, in {dtype} of "
            f"shape {shape}. {way_out}"
        )
    return shape


def check_flags(**flags: Any) -> None:
    """Raises `ValueError` for flags of a call that were given a tensor.

    A user of `keras.layers.MultiHeadAttention` may pass keys and values by
    position, and they would be taken for flags.

    Args:
        **flags: the arguments, by name.
    """
    for name, value in flags.items():
        shape = tuple(getattr(value, "shape", ()))
        if shape:
            dtype = keras.backend.standardize_dtype(value.dtype)
            raise ValueError(
                f"`{name}` must be True or False. Received: {dtype} of shape "
                f"{shape}. Keys and values are not passed here."
            )


def check_padding_mask(
    name: str, mask: Tensor, batch_size: int | None, length: int | None
) -> None:
    """Checks a user's padding mask, which must have shape `(B, T)`.

    Raises:
        ValueError: if it has another shape, as far as sizes are known; see
            also `check_mask`.
    """
    shape, expected = check_mask(name, mask), (batch_size, length)
    if len(shape) != 2 or not all(map(same_size, shape, expected)):
        raise ValueError(
            f"`{name}` must have shape {expected}, True for real tokens. "
            f"Received shape: {shape}."
        )


def same_size(size: int | Tensor | None, other: int | Tensor | None) -> bool:
    """Returns whether two sizes are the same, as far as they are known."""
    # In a graph a size may be a tensor, whose value is not known yet.
    if not (isinstance(size, int) and isinstance(other, int)):
        return True
    return size == other or (
        finds_shapes() and not _STAND_INS.isdisjoint((size, other))
    )
