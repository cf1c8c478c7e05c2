"""Self-attention with relations, a block of queries at a time.

Only `2K + 1` vectors are distinct, and from one query all keys farther back
than `K` share one of them, all farther ahead another. So per block of queries
there are three products with keys: `left` of the band, `near` it, and to its
`right`. Three things make relations nearly free:

- A row of logits may be less by a number that all its keys share, so the
  embedding of the farthest distance back is taken from every other. Then keys
  on the left need nothing; those on the right, one vector added to them.
- Near the band, the `2K + 1` products of a query with the embeddings are
  moved to their keys by `shear`.
- Scores stay unnormalised; context vectors are divided by their sums. With
  the gradient written out, no tensor `(B, N, T, T)` is passed over more often
  than without relations, one is kept for the gradient, and blocks small
  enough for a cache are worked on one after the other.

In half precision scores are normalised, as sums of unnormalised ones could be
beyond float16, and the gradient's sums over a row are made of the very numbers
they are taken from (`AttentionBlock._mean_score_gradient`).
"""

from keras import ops

from relative_attention.ops.attention_block import AttentionBlock
from relative_attention.ops.attention_block import joined
from relative_attention.ops.precision import widened


def block_attention(
    query,
    key,
    value,
    key_relations=None,
    value_relations=None,
    mask=None,
    block_length=None,
    dropout=None,
):
    """Context vectors of eqs. 3 and 4, or 1 and 2 without relations.

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
        block_length: int. Queries a block. Defaults to `None`, all in one,
            as it is where `T` is not known beforehand.
        dropout: `Dropout` layer that is active on the scores, or `None`.

    Returns:
        Float tensor `(B, N, T, H_v)`.

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155), eqs. 3-5
    """
    query, key, value = map(ops.convert_to_tensor, (query, key, value))
    length = query.shape[2]
    tables = {"key": key_relations, "value": value_relations}
    reach = 0
    for name, table in tables.items():
        if table is not None:
            tables[name] = _cut_table(table, length)
            reach = tables[name].shape[-2] // 2
    is_causal = mask is not None and mask.is_causal
    blocks = _blocks(
        ops.shape(query)[2],
        block_length if length is not None else None,
        reach,
        has_relations=any(table is not None for table in tables.values()),
        is_causal=is_causal,
    )
    operands = _operands(
        query, key, value, tables, any(block.has_right for block in blocks)
    )
    if dropout is not None:
        # Outside what is differentiated: drawing changes a seed.
        batch_size, num_heads = ops.shape(query)[:2]
        for block in blocks:
            block.kept = [
                dropout.draw_keep_mask(
                    (batch_size, num_heads, block.length, stop - start)
                )
                for _, start, stop in block.regions()
            ]
            block.kept_scale = 1 / (1 - dropout.rate)
    names = list(operands)

    @ops.custom_gradient
    def attend(*tensors):
        x = {
            name: ops.cast(tensor, query.dtype)
            for name, tensor in zip(names, tensors)
        }
        contexts = []
        for block in blocks:
            previous = contexts[-1] if contexts else None
            contexts.append(block.attend(x, mask, previous))
        context = joined(contexts)

        def gradient(*arguments, upstream=None):
            if upstream is None:
                (upstream,) = arguments
            sums = {name: [] for name in names}
            for block in reversed(blocks):
                previous = sums["query"][-1] if sums["query"] else None
                block.add_gradients(x, upstream, previous, sums)
            return tuple(
                _SUMS.get(name, _sum_tables)(parts[::-1], operands[name])
                for name, parts in sums.items()
            )

        return context, gradient

    return attend(*operands.values())


def block_length(length):
    """How many queries a block should have, measured on CPUs.

    Long blocks have wide bands; short ones take many slices of the keys.

    Args:
        length: int, or `None` where it is not known.

    Returns:
        int, or `None` for a single block.
    """
    if length is None:
        return None
    return 128 if length <= 256 else max(256, -(-length // 8))


def _cut_table(table, length):
    """The rows for distances that a sequence of that length has."""
    reach = table.shape[-2] // 2
    if length is None or length > reach:
        return table
    length = max(length, 1)
    return table[..., reach - length + 1 : reach + length, :]


def _operands(query, key, value, tables, has_right):
    """What is multiplied; `_right` is what keys right of a band have."""
    operands = {"query": query, "key": key, "value": value}
    right = {"key": key, "value": value}
    for name, table in tables.items():
        if table is None:
            continue
        farthest = table[..., :1, :]
        relations = table - farthest
        operands[f"{name}_relations"] = relations
        if name == "value":
            # Scores that were dropped do not sum to one, so that of values
            # nothing can be left out.
            operands["value"] = right["value"] = _add_row(value, farthest)
        right[name] = _add_row(right[name], relations[..., -1:, :])
    if has_right:
        operands |= {f"{name}_right": x for name, x in right.items()}
    return operands


def _add_row(x, row):
    """Widened, so that the gradient of the row is summed widened."""
    return ops.cast(widened(x) + ops.cast(row, widened(x).dtype), x.dtype)


def _blocks(length, block_length, reach, has_relations, is_causal):
    if block_length is None or (
        isinstance(length, int) and block_length >= length
    ):
        return [AttentionBlock(0, length, 0, length, length, reach, is_causal)]
    blocks = []
    for start in range(0, length, block_length):
        stop = min(start + block_length, length)
        end = stop if is_causal else length
        near = (max(0, start - reach), min(end, stop + reach))
        if not has_relations:
            near = (0, end)
        blocks.append(AttentionBlock(start, stop, *near, end, reach, is_causal))
    return blocks


def _sum_tables(parts, like):
    return ops.cast(sum(parts), like.dtype)


def _join_queries(parts, like):
    return joined(parts)


def _sum_past(parts, like):
    """Sum of what blocks add to the gradient of keys from the first on."""
    total, finished = parts[-1], []
    for part in parts[-2::-1]:
        stop = part.shape[2]
        finished.append(total[:, :, stop:])
        total = total[:, :, :stop] + part
    return joined([total, *finished[::-1]])


def _sum_future(parts, like):
    """Sum of what blocks add to the gradient of keys up to the last."""
    total, finished = parts[0], []
    for part in parts[1:]:
        start = total.shape[2] - part.shape[2]
        finished.append(total[:, :, :start])
        total = total[:, :, start:] + part
    total = joined([*finished, total])
    before = like.shape[2] - total.shape[2]
    return ops.pad(total, ((0, 0), (0, 0), (before, 0), (0, 0)))


_SUMS = {
    "query": _join_queries,
    "key": _sum_past,
    "value": _sum_past,
    "key_right": _sum_future,
    "value_right": _sum_future,
}
