"""Self-attention with relations that are added along diagonals.

It is what `block_attention.py` computes, with its equations, for TensorFlow
and lengths that are known, where it is the faster way: an operation on all of
`(B, N, T, T)` costs as much as a small matrix product there, so the fewer the
better. These are left:

    S  = q k^T          products, softmax and, in the gradient,
    P  = softmax(S)     one product by element as without relations
    O  = P v
    dS = P * (dP - D)

and of what relations add to `S` and `dP`, or take from `P` and `dS`, only the
diagonals near the main one are touched (`diagonals.py`), but for one pass over
the keys that are farther ahead than `K` (`diagonal_block.py`). In `dP` that
pass takes `D` off as well, which is one without relations, too.

The embedding of the farthest distance back is taken out of all, `r_d = w_d -
w_-K`, so that keys farther back than `K` need nothing. All logits of a row may
be less by a number, and so may all `dP`; to context vectors `w^V_-K` is added.
"""

from collections.abc import Callable
from collections.abc import Sequence

from keras import ops

from relative_attention.ops.attention_mask import AttentionMask
from relative_attention.ops.block_dropout import DropoutLayer
from relative_attention.ops.block_dropout import draw_keep_masks
from relative_attention.ops.block_operands import added
from relative_attention.ops.block_operands import joined
from relative_attention.ops.block_sums import sum_past
from relative_attention.ops.custom_gradient import custom_gradient
from relative_attention.ops.diagonal_backward import block_gradients
from relative_attention.ops.diagonal_block import split_into_diagonal_blocks
from relative_attention.ops.diagonal_forward import Residuals
from relative_attention.ops.diagonal_forward import attend
from relative_attention.ops.diagonal_operands import Operands
from relative_attention.ops.diagonal_operands import table_rows
from relative_attention.tensor_type import Tensor


def diagonal_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_relations: Tensor | None = None,
    value_relations: Tensor | None = None,
    mask: AttentionMask | None = None,
    block_length: int = 256,
    dropout: DropoutLayer | None = None,
) -> Tensor:
    """Computes what `block_attention` does, with the same arguments.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`.
        key_relations: float tensor `(2K + 1, H)`, or `(N, 2K + 1, H)`; or
            `None`, but not both.
        value_relations: float tensor of `H_v` numbers a row, or `None`.
        mask: `AttentionMask`, or `None`.
        block_length: int. Number of queries a block, at least. Defaults to
            `256`.
        dropout: `Dropout` layer that is active on the scores, or `None`.

    Returns:
        Float tensor `(B, N, T, H_v)`.

    References:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3-5
     - [Dao et al., 2022](https://arxiv.org/abs/2205.14135), appendix B
    """
    length = query.shape[2]
    tables = {"key": key_relations, "value": value_relations}
    given = {
        name: ops.convert_to_tensor(table)
        for name, table in tables.items()
        if table is not None
    }
    (num_relations, *_) = {table.shape[-2] for table in given.values()}
    is_causal = mask is not None and mask.is_causal
    blocks = split_into_diagonal_blocks(
        length, block_length, min(num_relations // 2, length - 1), is_causal
    )
    has_ahead = blocks[0].stretch > 0
    rows = {}
    for name, table in given.items():
        rows[name], back = table_rows(table, length, is_causal, has_ahead)
        if name == "value":
            rows[name] = ops.concatenate([rows[name], back], axis=-2)
    # Outside what is differentiated: drawing changes a seed.
    keep_masks = draw_keep_masks(dropout, blocks, query)

    @custom_gradient
    def attend_by_blocks(
        query: Tensor, key: Tensor, value: Tensor, *row_tensors: Tensor
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        narrow = {
            f"{name}_rows": ops.cast(tensor, query.dtype)
            for name, tensor in zip(rows, row_tensors)
        }
        x = Operands(
            query,
            key,
            value,
            narrow.get("key_rows"),
            narrow.get("value_rows"),
            has_ahead,
        )
        residuals: list[Residuals] = []
        for block, keep_mask in zip(blocks, keep_masks):
            previous = residuals[-1].context if residuals else None
            residuals.append(attend(block, x, mask, keep_mask, previous))

        def gradient(d_context: Tensor) -> tuple[Tensor, ...]:
            parts: list[Operands] = []
            for block, keep_mask, residual in zip(
                blocks, keep_masks, residuals
            ):
                previous = parts[-1].query if parts else None
                parts.append(
                    block_gradients(
                        block, x, keep_mask, residual, d_context, previous
                    )
                )
            return _sum_gradients(parts, row_tensors)

        return joined([residual.context for residual in residuals]), gradient

    return attend_by_blocks(query, key, value, *rows.values())


def _sum_gradients(
    parts: Sequence[Operands], rows: Sequence[Tensor]
) -> tuple[Tensor, ...]:
    """Sums the gradients of blocks; those of rows in the dtype of the rows."""
    d_rows = [
        added(list(d_row))
        for d_row in zip(*((part.key_rows, part.value_rows) for part in parts))
        if d_row[0] is not None
    ]
    return (
        joined([part.query for part in parts]),
        sum_past([part.key for part in parts]),
        sum_past([part.value for part in parts]),
        *(ops.cast(d_row, row.dtype) for d_row, row in zip(d_rows, rows)),
    )
