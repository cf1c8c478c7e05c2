"""Attention in memory that grows with the length, and not with its square.

A block of queries at a time attends to all keys. The gradient computes the
scores of a block again (`recompute.py`; Rabe & Staats 2021), so the scores of
all queries are never in memory. A causal mask is made for each block. With a
causal mask the text is cut into eight parts, or fewer, and a part leaves out
the keys after it.

long_relative_attention    the relations that a window needs
  long_attention           cuts the queries into `Blocks`
    map_recomputed         recompute.py; for each block, and in the gradient:
      _BlockFunction         makes the `Block`: its mask, its dropout
        attend                 `_attend_to_window`; for encodings without
                               tables, `_attend_block` of the layer

On PyTorch there are as many parts as blocks; see `_num_parts`.

With relations, most keys have the same clipped distance to all queries of a
block: `-K`, or `K` if they are ahead. That relation is added to the key and to
the value, as eqs. 3 and 4 have it. Only in a window around the block distances
differ between queries. For a block of three queries and `K = 2`:

    key       0  1  2  3  4  5  6  7  8  9 10
    query 4  -2 -2 -2|-1  0  1  2  2  2| 2  2
    query 5  -2 -2 -2|-2 -1  0  1  2  2| 2  2
    query 6  -2 -2 -2|-2 -2 -1  0  1  2| 2  2

There values are shifted into place, see `relative_shift`.

Reference:
 - [Rabe & Staats, 2021](https://arxiv.org/abs/2112.05682)
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import NamedTuple
from typing import Self

import keras
from keras import ops

from relative_attention.ops.attention import plain_product
from relative_attention.ops.attention import softmax_over_keys
from relative_attention.ops.attention import table_product
from relative_attention.ops.backend import add_to_columns
from relative_attention.ops.backend import custom_gradient
from relative_attention.ops.backend import matmul
from relative_attention.ops.backend import sizes
from relative_attention.ops.backend import start_indices
from relative_attention.ops.backend import widened
from relative_attention.ops.dropout import DrawKept
from relative_attention.ops.dropout import Kept
from relative_attention.ops.dropout import only_kept
from relative_attention.ops.dropout import scaled_as_kept
from relative_attention.ops.masks import causal_mask
from relative_attention.ops.recompute import Part
from relative_attention.ops.recompute import map_recomputed
from relative_attention.ops.relative_attention import one_table
from relative_attention.ops.relative_attention import relative_shift
from relative_attention.ops.relative_attention import transposed_relative_shift
from relative_attention.tensor_type import Tensor

# With more queries, a block takes more memory. With fewer, the gradients of
# keys and values, which are added up for each block, take more of the time;
# this was measured on TensorFlow only.
_MOST_QUERIES = 128 if keras.backend.backend() == "tensorflow" else 64
# With eight parts, 1/16 of all pairs is computed although it is masked.
_CAUSAL_PARTS = 8
# The most pairs of query and key whose scores are all in memory at a time with
# the implementation "auto": the pairs of 2,048 tokens.
MOST_PAIRS = 2048**2


def is_long(num_queries: int | None, num_keys: int | None) -> bool:
    """Returns whether a text of known length needs too much memory at once."""
    if not isinstance(num_queries, int) or not isinstance(num_keys, int):
        return False
    return num_queries * num_keys > MOST_PAIRS


class Block(NamedTuple):
    """A block of queries and the keys that they may attend to.

    Attributes:
        query: float tensor `(B, N, R, H)`.
        key: float tensor `(B, N, S, H)`.
        value: float tensor `(B, N, S, H_v)`.
        start: int scalar, the position of the first query.
        query_positions: int tensor `(R,)`.
        key_positions: int tensor `(S,)`. Keys of other positions than those of
            the text are masked.
        mask: bool tensor that broadcasts to `(B, N, R, S)`, or `None`.
        kept: the scores that dropout keeps, with a mask `(B, N, R, S)`; or
            `None`, no dropout.
    """

    query: Tensor
    key: Tensor
    value: Tensor
    start: int | Tensor
    query_positions: Tensor
    key_positions: Tensor
    mask: Tensor | None
    kept: Kept | None


def long_attention(
    attend: Callable[..., Tensor],
    query: Tensor,
    key: Tensor,
    value: Tensor,
    *tensors: Tensor,
    mask: Tensor | None = None,
    is_causal: bool = False,
    draw_kept: DrawKept | None = None,
    margins: tuple[int, int] = (0, 0),
) -> Tensor:
    """Computes context vectors, block by block, and again in the gradient.

    Args:
        attend: takes a `Block` and `tensors` and returns its context vectors
            `(B, N, R, H_v)`.
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, S, H)`.
        value: float tensor `(B, N, S, H_v)`.
        *tensors: float tensors for `attend`. On TensorFlow no other weights
            have gradients.
        mask: bool tensor `(B or 1, N or 1, T or 1, S or 1)`; `True` = may
            attend. Defaults to `None`, every key.
        is_causal: A boolean to indicate whether later keys are masked, too.
            Defaults to `False`.
        draw_kept: draws what dropout keeps of a block, by shape and number.
            Defaults to `None`, no dropout.
        margins: pair of int. Numbers of masked keys to add before and after
            the others. Defaults to none.

    Returns:
        Float tensor `(B, N, T, H_v)`.
    """
    query, key, value = map(ops.convert_to_tensor, (query, key, value))
    *batch_and_heads, length, width = sizes(query)
    num_keys = sizes(key)[2]
    blocks = Blocks.of(length, is_causal)
    missing = blocks.num_padded - length
    rows = _padded(query, 2, 0, missing)
    rows = ops.reshape(
        rows, (*batch_and_heads, blocks.num_blocks, blocks.block_queries, width)
    )  # (B, N, blocks, R, H)
    before, after = margins
    if is_causal or after:
        after += missing
    key, value = (_padded(x, 2, before, after) for x in (key, value))
    if mask is not None:
        # An axis of unknown size may turn out to have a single element.
        for axis, size in ((2, length), (3, num_keys)):
            if mask.shape[axis] is None:
                shape = [1] * axis + [size] + [1] * (3 - axis)
                mask = ops.logical_and(mask, ops.ones(shape, "bool"))
        if mask.shape[2] != 1:
            mask = _padded(mask, 2, 0, missing)
        if mask.shape[3] != 1:
            mask = _padded(mask, 3, before, after)
    compute = _BlockFunction(
        attend,
        blocks.block_queries,
        num_keys,
        margins,
        mask,
        is_causal,
        draw_kept,
    )
    parts = []
    for index in range(blocks.num_parts):
        end = sizes(key)[2]
        if is_causal and index < blocks.num_parts - 1:
            end = blocks.end(index) + sum(margins)
        parts.append(Part(functools.partial(_up_to, end), compute))
    context = map_recomputed(
        parts, ops.transpose(rows, (2, 0, 1, 3, 4)), key, value, *tensors
    )
    context = ops.reshape(
        ops.transpose(context, (1, 2, 0, 3, 4)),
        (*batch_and_heads, blocks.num_padded, value.shape[-1]),
    )
    return _first(context, length)


class Blocks(NamedTuple):
    """How the queries of a text are cut into parts, and parts into blocks.

    All parts have the same number of blocks, and all blocks the same number of
    rows, a query each. The last rows may be padding.

    Attributes:
        num_parts: int. The blocks of a part see the same keys.
        part_blocks: int, or int scalar if the length is one.
        block_queries: as `part_blocks`.
    """

    num_parts: int
    part_blocks: int | Tensor
    block_queries: int | Tensor

    @classmethod
    def of(cls, length: int | Tensor, is_causal: bool) -> Self:
        """Returns the blocks of a text of this length."""
        num_parts = _num_parts(length) if is_causal else 1
        part_blocks = _at_least_1(-(-length // (num_parts * _MOST_QUERIES)))
        return cls(
            num_parts, part_blocks, -(-length // (num_parts * part_blocks))
        )

    @property
    def num_blocks(self) -> int | Tensor:
        return self.num_parts * self.part_blocks

    @property
    def num_padded(self) -> int | Tensor:
        """The number of rows of all blocks."""
        return self.num_blocks * self.block_queries

    def end(self, part: int) -> int | Tensor:
        """Returns the number of rows of a part and those before it."""
        return (part + 1) * self.part_blocks * self.block_queries


def _num_parts(length: int | Tensor) -> int:
    """Returns in how many parts of the text queries see other keys."""
    if not isinstance(length, int):
        return _CAUSAL_PARTS
    num_blocks = max(1, -(-length // _MOST_QUERIES))
    # Where each block is computed by a call, it may have keys of its own.
    is_eager = keras.backend.backend() == "torch"
    return num_blocks if is_eager else min(num_blocks, _CAUSAL_PARTS)


def _at_least_1(number: int | Tensor) -> int | Tensor:
    return max(number, 1) if isinstance(number, int) else ops.maximum(number, 1)


@dataclasses.dataclass(frozen=True, eq=False)
class _BlockFunction:
    """Makes a `Block` and computes its context vectors.

    Attributes:
        attend, margins, is_causal, draw_kept: see `long_attention`.
        block_queries: int, or int scalar. Number of queries of a block.
        num_keys: int, or int scalar. Number of keys without `margins`.
        mask: that of `long_attention`, with padding for all rows and keys.
    """

    attend: Callable[..., Tensor]
    block_queries: int | Tensor
    num_keys: int | Tensor
    margins: tuple[int, int]
    mask: Tensor | None
    is_causal: bool
    draw_kept: DrawKept | None

    def __call__(
        self,
        number: int | Tensor,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *tensors: Tensor,
    ) -> Tensor:
        block_keys = sizes(key)[2]
        start = number * self.block_queries
        positions = start + ops.arange(self.block_queries, dtype="int32")
        key_positions = ops.arange(block_keys, dtype="int32") - self.margins[0]
        masks = []
        if self.mask is not None:
            rows = _mask_rows(self.mask, start, self.block_queries)
            masks.append(rows[..., :block_keys])
        if self.is_causal:
            masks.append(causal_mask(positions, key_positions))
        # With a causal mask, keys after the text are later than every query.
        if any(self.margins):
            masks.append((key_positions >= 0) & (key_positions < self.num_keys))
        kept = None
        if self.draw_kept is not None:
            shape = (*sizes(query)[:2], self.block_queries, block_keys)
            kept = self.draw_kept(shape, number)
        block = Block(
            query,
            key,
            value,
            start,
            positions,
            key_positions,
            functools.reduce(ops.logical_and, masks) if masks else None,
            kept,
        )
        context = self.attend(block, *tensors)
        if self.mask is None:
            return context
        # Without this a fully masked row would attend to every key equally.
        can_attend = ops.any(block.mask, axis=-1, keepdims=True)
        return context * ops.cast(can_attend, context.dtype)


def _up_to(
    end: int | Tensor, key: Tensor, value: Tensor, *tensors: Tensor
) -> tuple[Tensor, ...]:
    """Returns the keys and values of a part, and the other tensors."""
    return _first(key, end), _first(value, end), *tensors


def _padded(
    x: Tensor, axis: int, before: int | Tensor, after: int | Tensor
) -> Tensor:
    if isinstance(before, int) and isinstance(after, int):
        if not before and not after:
            return x
    widths = [(0, 0)] * len(x.shape)
    widths[axis] = (before, after)
    return ops.pad(x, widths)


def _first(x: Tensor, count: int | Tensor) -> Tensor:
    # In TensorFlow the gradient of `ops.slice` is faster than that of `[]`.
    batch_size, num_heads, _, width = sizes(x)
    return ops.slice(x, (0, 0, 0, 0), (batch_size, num_heads, count, width))


def _mask_rows(
    mask: Tensor, start: int | Tensor, count: int | Tensor
) -> Tensor:
    if mask.shape[2] == 1:
        return mask
    batch_size, num_heads, _, num_keys = sizes(mask)
    return ops.slice(
        mask,
        start_indices(0, 0, start, 0),
        (batch_size, num_heads, count, num_keys),
    )


# === With relations ===


def long_relative_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_relations: Tensor | None = None,
    value_relations: Tensor | None = None,
    mask: Tensor | None = None,
    is_causal: bool = False,
    draw_kept: DrawKept | None = None,
) -> Tensor:
    """Computes what `relative_attention` does, by `long_attention`.

    Args:
        query, key, value, key_relations, value_relations: see
            `relative_attention`.
        mask, is_causal, draw_kept: see `long_attention`.

    Returns:
        Float tensor `(B, N, T, H_v)`.
    """
    tables = [
        one_table(ops.copy(table))
        for table in (key_relations, value_relations)
        if table is not None
    ]
    margins = (0, 0)
    if tables:
        # The rows below are for the distances -(K - 1) to K, or to 0.
        limit = tables[0].shape[-2] // 2
        margins = (limit - 1, 0 if is_causal else limit)
    farthest = [table[..., :1, :] for table in tables]
    # Relations of a window, less the relation of the farthest key. The latter
    # is added to values here. It is not added to keys, as it would add the same
    # number to all logits of a query.
    rows = [
        table[..., 1 : sum(margins) + 2, :] - far
        for table, far in zip(tables, farthest)
    ]
    if value_relations is not None:
        value = ops.cast(widened(value) + widened(farthest[-1]), value.dtype)

    def attend(block: Block, *rows: Tensor) -> Tensor:
        return _attend_to_window(
            block,
            *rows,
            has_keys=key_relations is not None,
            has_values=value_relations is not None,
            window=_Window(block.start, is_causal),
        )

    return long_attention(
        attend,
        query,
        key,
        value,
        *rows,
        mask=mask,
        is_causal=is_causal,
        draw_kept=draw_kept,
        margins=margins,
    )


def _attend_to_window(
    block: Block,
    *rows: Tensor,
    has_keys: bool,
    has_values: bool,
    window: "_Window",
) -> Tensor:
    """Computes `O` of a block, with the gradient of `relative_attention.py`."""
    block_queries = sizes(block.query)[2]
    key, value = block.key, block.value
    if has_keys:
        key = window.with_far(key, rows[0], block_queries)
    if has_values:
        value = window.with_far(value, rows[-1], block_queries)

    def attend(
        query: Tensor, key: Tensor, value: Tensor, *rows: Tensor
    ) -> tuple[Tensor, Callable]:
        key_rows = rows[0] if has_keys else None
        value_rows = rows[-1] if has_values else None
        # Eq. 4: S_ij = q_i (k_j + w^K_c)
        logits = window.product(query, key, key_rows)
        scores = softmax_over_keys(logits, block.mask)  # P
        unscaled = only_kept(scores, block.kept)  # Z, unscaled
        # Eq. 3: O_i = sum_j Z_ij (v_j + w^V_c)
        context, by_row = window.sums(unscaled, value, value_rows)

        def gradient(d_context: Tensor) -> tuple[Tensor, ...]:
            d_context = scaled_as_kept(d_context, block.kept)
            d_scores = window.product(d_context, value, value_rows)
            d_scores = only_kept(widened(d_scores), block.kept)
            weights = widened(scores)
            # A row of `dS` sums to 0, even if scores are rounded.
            row_term = ops.sum(weights * d_scores, -1, keepdims=True)  # D
            row_term = row_term / ops.sum(weights, -1, keepdims=True)
            d_logits = ops.cast(weights * (d_scores - row_term), query.dtype)
            d_query, d_by_row = window.sums(d_logits, key, key_rows)
            d_rows = []
            if has_keys:
                d_rows.append(_row_gradient(d_by_row, query, key_rows))
            if has_values:
                d_rows.append(_row_gradient(by_row, d_context, value_rows))
            return (
                d_query,
                _transposed_product(d_logits, query),
                _transposed_product(unscaled, d_context),
                *d_rows,
            )

        return scaled_as_kept(context, block.kept), gradient

    inputs = (block.query, key, value, *rows)
    if keras.backend.backend() == "tensorflow":
        return custom_gradient(attend)(*inputs)
    # On other backends a custom gradient would keep the tensors that `gradient`
    # uses, as `recompute.py` does not know of them.
    return attend(*inputs)[0]


def _transposed_product(scores: Tensor, x: Tensor) -> Tensor:
    """Multiplies transposed scores `(B, N, R, S)` by `(B, N, R, H)`."""
    # The smaller matrices are transposed.
    product = ops.matmul(ops.swapaxes(x, -1, -2), scores)
    return ops.swapaxes(product, -1, -2)


def _row_gradient(by_row: Tensor, x: Tensor, rows: Tensor) -> Tensor:
    # In float32, as it sums over all sentences and positions.
    by_head = ops.matmul(ops.swapaxes(widened(by_row), -1, -2), widened(x))
    d_rows = ops.sum(by_head, axis=(0, 1) if len(rows.shape) == 2 else 0)
    return ops.cast(d_rows, rows.dtype)


class _Window(NamedTuple):
    """`product` and `sums` of `relative_attention.py` for a block.

    Attributes:
        start: int scalar, the column of the first key of the window.
        is_causal: A boolean to indicate whether later keys are masked, so that
            nothing is added to them.
    """

    start: int | Tensor
    is_causal: bool

    def product(self, x: Tensor, y: Tensor, rows: Tensor | None) -> Tensor:
        """Computes `x_i (y_j + w_c)`: `(B, N, R, S)`."""
        product = plain_product(x, y, transpose=True)
        if rows is None:
            return product
        by_row = table_product(x, ops.swapaxes(rows, -1, -2))
        near = relative_shift(by_row, self.is_causal)
        return add_to_columns(product, near, self.start)

    def sums(
        self, scores: Tensor, y: Tensor, rows: Tensor | None
    ) -> tuple[Tensor, Tensor | None]:
        """Computes `sum_j a_ij (y_j + w_c)`, and sums `a` by distance."""
        sums = matmul(scores, y)
        if rows is None:
            return sums, None
        batch_size, num_heads, block_queries, _ = sizes(scores)
        num_distances = rows.shape[-2]
        near = ops.slice(
            scores,
            start_indices(0, 0, 0, self.start),
            (
                batch_size,
                num_heads,
                block_queries,
                block_queries + num_distances - 1,
            ),
        )
        by_row = transposed_relative_shift(near, num_distances, self.is_causal)
        return sums + table_product(by_row, rows), by_row

    def with_far(
        self, y: Tensor, rows: Tensor, block_queries: int | Tensor
    ) -> Tensor:
        """Adds `r_K` to the keys, or values, that are ahead of the window."""
        if self.is_causal:
            return y
        end = self.start + block_queries + rows.shape[-2] - 1
        columns = ops.arange(sizes(y)[2], dtype="int32")
        rows = widened(rows)
        is_ahead = ops.cast((columns >= end)[:, None], rows.dtype)
        return ops.cast(widened(y) + is_ahead * rows[..., -1:, :], y.dtype)
