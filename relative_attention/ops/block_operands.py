"""The operands of block attention, and their gradients."""

import functools
import operator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import NamedTuple

from keras import ops

from relative_attention.ops.attention_block import Region
from relative_attention.ops.precision import widened
from relative_attention.tensor_type import Tensor


class Operands(NamedTuple):
    """The tensors that blocks multiply, or the gradients of these.

    Attributes:
        query: float tensor `(B, N, T, H)`, scaled.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`; with relations, plus the
            embedding of the distance `-K`.
        key_relations: float tensor `(2K + 1, H)` or `(N, 2K + 1, H)`: the
            embeddings less that of `-K`; or `None`.
        value_relations: float tensor, likewise; or `None`.
        key_right: float tensor of the shape of `key`: what it is to queries
            that are farther back than `K`; `None` where no block has such.
        value_right: float tensor, likewise.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    key_relations: Tensor | None = None
    value_relations: Tensor | None = None
    key_right: Tensor | None = None
    value_right: Tensor | None = None

    def present(self) -> dict[str, Tensor]:
        """Returns the tensors that there are, by name and in order."""
        return {
            name: tensor
            for name, tensor in self._asdict().items()
            if tensor is not None
        }

    def keys(self, region: Region) -> Tensor:
        """Returns the keys of a region, `(B, N, keys, H)`."""
        keys: Tensor = self.key_right if region.side == "right" else self.key
        return _positions(keys, region)

    def values(self, region: Region) -> Tensor:
        """Returns the values of a region, `(B, N, keys, H_v)`."""
        is_right = region.side == "right"
        values: Tensor = self.value_right if is_right else self.value
        return _positions(values, region)


def make_operands(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    tables: Mapping[str, Tensor | None],
    has_right: bool,
) -> Operands:
    """Takes the embedding of the farthest distance back out of the tables.

    With `r_d = w_d - w_-K`, keys on the left of a band need no relation, as
    `r_-K = 0`, and those on its right the same one, `r_K`, from every query.

    Args:
        query: float tensor `(B, N, T, H)`.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`.
        tables: the relation tables of `"key"` and `"value"`, each a float
            tensor `(2K + 1, H)` or `(N, 2K + 1, H)`, or `None`.
        has_right: A boolean to indicate whether a block has keys to its right.

    Returns:
        The operands; all is differentiable.
    """
    operands = {"query": query, "key": key, "value": value}
    right = {"key": key, "value": value}
    for name, table in tables.items():
        if table is None:
            continue
        farthest = table[..., :1, :]
        relations = table - farthest
        operands[f"{name}_relations"] = relations
        if name == "value":
            # Softmax takes no notice of what is taken from all logits of a
            # row, but scores that were dropped do not sum to one, so that of
            # values nothing can be left out.
            operands["value"] = right["value"] = _add_row(value, farthest)
        right[name] = _add_row(right[name], relations[..., -1:, :])
    if has_right:
        operands |= {f"{name}_right": x for name, x in right.items()}
    return Operands(**operands)


def transposed(tensor: Tensor) -> Tensor:
    """Swaps the last two axes of a tensor."""
    return ops.swapaxes(tensor, -1, -2)


def joined(parts: Sequence[Tensor]) -> Tensor:
    """Joins tensors `(B, N, positions, H)` along their positions."""
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=2)


def added(parts: Sequence[Tensor]) -> Tensor:
    """Adds tensors from the first to the last.

    Python's `sum` begins with 0, which is one more operation.
    """
    return functools.reduce(operator.add, parts)


def _positions(tensor: Tensor, region: Region) -> Tensor:
    if not isinstance(region.stop, int):
        # A region that ends where the sequence does, and begins with it.
        return tensor
    return tensor[:, :, region.start : region.stop]


def _add_row(x: Tensor, row: Tensor) -> Tensor:
    # Widened, so that the gradient of the row, a sum over all positions and
    # sentences, is summed widened.
    return ops.cast(widened(x) + ops.cast(row, widened(x).dtype), x.dtype)
