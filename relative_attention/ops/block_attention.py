"""Self-attention with relations, a block of queries at a time.

Forward, for a query `i`, a key `j` and the distance clipped to `K` on either
side, `c = clip(j - i, -K, K)` (Shaw et al. 2018); `q` is divided by `sqrt(H)`:

    S_ij = q_i (k_j + w^K_c)                      eqs. 4 and 5
    P_ij = exp(S_ij - m_i) / l_i                  softmax; m_i = max_j S_ij,
                                                  l_i = sum_j exp(S_ij - m_i)
    Z_ij = keep_ij P_ij / (1 - rate)              dropout; without, Z = P
    O_i  = sum_j Z_ij (v_j + w^V_c)               eq. 3

Backward, from the gradient `dO` of the context vectors (Dao et al. 2022,
appendix B.2, and what relations add):

    dZ_ij  = dO_i (v_j + w^V_c)
    dP_ij  = keep_ij dZ_ij / (1 - rate)
    D_i    = sum_j P_ij dP_ij = dO_i O_i          D = rowsum(dO * O)
    dS_ij  = P_ij (dP_ij - D_i)                   dS = P * (dP - D)
    dq_i   = sum_j dS_ij (k_j + w^K_c)
    dk_j   = sum_i dS_ij q_i
    dv_j   = sum_i Z_ij dO_i
    dw^K_d = sum_ij [c = d] dS_ij q_i             a row of a relation table is
    dw^V_d = sum_ij [c = d] Z_ij dO_i             added to all pairs of `d`

Only `2K + 1` vectors `w` are distinct, and from one query all keys farther back
than `K` share one of them, all farther ahead another. So per block of queries
there are three products with keys: those farther than `K` to the `left` of all
its queries, those `near` any, and those farther to the `right`
(`attention_block.py`). Three things make relations nearly free:

- A row of logits may be less by a number that all its keys share, so the
  embedding of the farthest distance back is taken from every other:
  `r_d = w_d - w_-K`. Then keys on the left need nothing; those on the right,
  one vector added to them (`block_operands.py`). Of values nothing is lost by
  it, as `w^V_-K` is added to all of them. The gradient written out here is
  that of `r`; automatic differentiation takes `dr` back to `dw`.
- For near keys the `2K + 1` products of a query with the embeddings are
  moved to their keys by a `relative_shift`, whose transpose sums by distance.
- Scores stay unnormalised; context vectors are divided by their sums. With
  the gradient written out (`block_backward.py`), no tensor `(B, N, T, T)` is
  passed over more often than without relations but for the part of the near
  keys; one is kept for the gradient, and with dropout the booleans `keep`; and
  blocks small enough for a cache are worked on one after the other.

In half precision scores are normalised, as sums of unnormalised ones could be
beyond float16, and `D` is made of the very numbers that it is taken from
(`block_backward._row_term`).
"""

from collections.abc import Callable

from keras import ops

from relative_attention.ops.attention_block import split_into_blocks
from relative_attention.ops.attention_mask import AttentionMask
from relative_attention.ops.block_backward import block_gradients
from relative_attention.ops.block_dropout import DropoutLayer
from relative_attention.ops.block_dropout import draw_keep_masks
from relative_attention.ops.block_forward import Residuals
from relative_attention.ops.block_forward import attend
from relative_attention.ops.block_operands import Operands
from relative_attention.ops.block_operands import joined
from relative_attention.ops.block_operands import make_operands
from relative_attention.ops.block_sums import sum_gradients
from relative_attention.ops.custom_gradient import custom_gradient
from relative_attention.ops.static_shape import sizes
from relative_attention.tensor_type import Tensor


def block_attention(
    query: Tensor,
    key: Tensor,
    value: Tensor,
    key_relations: Tensor | None = None,
    value_relations: Tensor | None = None,
    mask: AttentionMask | None = None,
    block_length: int | None = None,
    dropout: DropoutLayer | None = None,
) -> Tensor:
    """Computes context vectors by eqs. 3 and 4, or 1 and 2 without relations.

    Args:
        query: float tensor `(B, N, T, H)`, already divided by `sqrt(H)`.
        key: float tensor `(B, N, T, H)`.
        value: float tensor `(B, N, T, H_v)`.
        key_relations: float tensor `(2K + 1, H)`, or `(N, 2K + 1, H)`, row
            `K + d` for distance `d`; or `None`. In float32 its gradient is
            summed in float32, whatever the dtype of the query.
        value_relations: float tensor of `H_v` numbers a row, or `None`.
        mask: `AttentionMask`, or `None`. A query that may attend to nothing
            gets zeros.
        block_length: int. Number of queries a block. Defaults to `None`, all
            in one, as it is where `T` is not known beforehand.
        dropout: `Dropout` layer that is active on the scores, or `None`.

    Returns:
        Float tensor `(B, N, T, H_v)`.

    References:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3-5
     - [Dao et al., 2022](https://arxiv.org/abs/2205.14135), appendix B
    """
    query, key, value = map(ops.convert_to_tensor, (query, key, value))
    length = query.shape[2]
    tables = {
        "key": _cut_table(key_relations, length),
        "value": _cut_table(value_relations, length),
    }
    given = [table for table in tables.values() if table is not None]
    blocks = split_into_blocks(
        sizes(query)[2],
        block_length if length is not None else None,
        max_relative_position=given[-1].shape[-2] // 2 if given else 0,
        has_relations=bool(given),
        is_causal=mask is not None and mask.is_causal,
    )
    operands = make_operands(
        query, key, value, tables, any(block.has_right for block in blocks)
    )
    # Outside what is differentiated: drawing changes a seed.
    keep_masks = draw_keep_masks(dropout, blocks, query)
    names = list(operands.present())

    @custom_gradient
    def attend_by_blocks(
        *tensors: Tensor,
    ) -> tuple[Tensor, Callable[[Tensor], tuple[Tensor, ...]]]:
        x = Operands(
            **{
                name: ops.cast(tensor, query.dtype)
                for name, tensor in zip(names, tensors)
            }
        )
        contexts: list[Tensor] = []
        residuals: list[Residuals] = []
        for block, masks in zip(blocks, keep_masks):
            previous = contexts[-1] if contexts else None
            context, residual = attend(block, x, mask, masks, previous)
            contexts.append(context)
            residuals.append(residual)

        def gradient(d_context: Tensor) -> tuple[Tensor, ...]:
            parts: list[Operands] = []
            for block, masks, residual in zip(
                reversed(blocks), reversed(keep_masks), reversed(residuals)
            ):
                previous = parts[-1].query if parts else None
                parts.append(
                    block_gradients(
                        block, x, masks, residual, d_context, previous
                    )
                )
            sums = sum_gradients(parts[::-1], like=operands)
            return tuple(sums.present().values())

        return joined(contexts), gradient

    return attend_by_blocks(*operands.present().values())


def block_length(length: int | None) -> int | None:
    """Returns how many queries a block should have, measured on CPUs.

    Long blocks have wide bands; short ones take many slices of the keys.

    Args:
        length: int. Number of tokens, or `None` where it is not known.

    Returns:
        Number of queries, or `None` for a single block.
    """
    if length is None:
        return None
    return 128 if length <= 256 else max(256, -(-length // 8))


def _cut_table(table: Tensor | None, length: int | None) -> Tensor | None:
    """Returns the rows for distances that a sequence of a length has."""
    if table is None:
        return None
    max_relative_position = table.shape[-2] // 2
    if length is None or length > max_relative_position:
        return table
    # Distances go from `1 - length` to `length - 1`.
    farthest = max(length, 1) - 1
    return table[
        ...,
        max_relative_position - farthest : max_relative_position + farthest + 1,
        :,
    ]
