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
they are taken from (`_Block._mean_score_gradient`).
"""

import dataclasses

from keras import ops

from relative_attention.ops.in_order import after
from relative_attention.ops.masks import MASKED_LOGIT
from relative_attention.ops.masks import hide_masked
from relative_attention.ops.precision import is_half
from relative_attention.ops.precision import widened
from relative_attention.ops.shear import shear
from relative_attention.ops.shear import unshear
from relative_attention.ops.table_product import table_gradient
from relative_attention.ops.table_product import table_product


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
                dropout.draw_kept(
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
        context = _joined(contexts)

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
        return [_Block(0, length, 0, length, length, reach, is_causal)]
    blocks = []
    for start in range(0, length, block_length):
        stop = min(start + block_length, length)
        end = stop if is_causal else length
        near = (max(0, start - reach), min(end, stop + reach))
        if not has_relations:
            near = (0, end)
        blocks.append(_Block(start, stop, *near, end, reach, is_causal))
    return blocks


@dataclasses.dataclass
class _Block:
    """Queries `start` to `stop`, and keys `near_start` to `near_stop`.

    Attributes:
        end: how far the keys go that a query of the block may attend to.
        reach: int, `K`.
    """

    start: int
    stop: int
    near_start: int
    near_stop: int
    end: int
    reach: int
    is_causal: bool
    kept: list | None = None
    kept_scale: float = 1.0

    @property
    def length(self):
        return self.stop - self.start

    @property
    def has_right(self):
        return self.near_stop is not self.end and self.near_stop < self.end

    def regions(self):
        """Of each product: what it is, and its first key and their end."""
        regions = [("near", self.near_start, self.near_stop)]
        if isinstance(self.near_start, int) and self.near_start > 0:
            regions.append(("left", 0, self.near_start))
        if self.has_right:
            regions.append(("right", self.near_stop, self.end))
        return regions

    def attend(self, x, mask, previous):
        """Context vectors `(B, N, C, H_v)`; keeps what the gradient needs."""
        query = after(x["query"][:, :, self.start : self.stop], previous)
        logits = [
            self._logits(x, query, mask, *region) for region in self.regions()
        ]
        # `initial` for sequences without tokens, which Keras refuses otherwise.
        maxima = [
            ops.max(part, axis=-1, keepdims=True, initial=2 * MASKED_LOGIT)
            for part in logits
        ]
        largest = maxima[0]
        for maximum in maxima[1:]:
            largest = ops.maximum(largest, maximum)
        scores = [ops.exp(part - largest) for part in logits]
        total = sum(ops.sum(part, axis=-1, keepdims=True) for part in scores)
        inverse = 1 / total
        if mask is not None:
            # Without this a fully masked row would attend to every key alike.
            inverse = ops.where(largest > MASKED_LOGIT / 2, inverse, 0.0)
        self.is_half = is_half(query)
        if self.is_half:
            scores = [part * inverse for part in scores]
        self.scores = [ops.cast(part, query.dtype) for part in scores]
        # What is left to multiply by.
        self.inverse = None if self.is_half else inverse
        context = 0
        for index, (kind, start, stop) in enumerate(self.regions()):
            values = x[_operand("value", kind)][:, :, start:stop]
            context = context + ops.matmul(self._dropped(index), values)
        if "value_relations" in x:
            self.buckets = self._by_distance(self._dropped(0))
            context = context + table_product(
                self.buckets, x["value_relations"]
            )
        self.context = self._normalized(context)
        return self.context

    def _normalized(self, rows):
        """Context vectors, or their gradient, as of normalised scores."""
        return rows if self.inverse is None else rows * self.inverse

    def _logits(self, x, query, mask, kind, start, stop):
        keys = x[_operand("key", kind)][:, :, start:stop]
        logits = ops.matmul(query, _transposed(keys))
        if kind == "near" and "key_relations" in x:
            by_distance = table_product(query, _transposed(x["key_relations"]))
            logits = logits + self._by_key(by_distance)
        logits = widened(logits)
        part = mask and mask.part(self.start, self.stop, start, stop)
        return logits if part is None else hide_masked(logits, part)

    def add_gradients(self, x, upstream, previous, sums):
        """Append to each list what the block adds to an operand's gradient."""
        upstream = after(upstream[:, :, self.start : self.stop], previous)
        query = x["query"][:, :, self.start : self.stop]
        upstream = self._normalized(upstream)
        of_scores = [
            self._score_gradient(x, upstream, index)
            for index in range(len(self.regions()))
        ]
        mean = self._mean_score_gradient(upstream, of_scores)
        of_query = 0
        of_keys, of_values = {}, {}
        for index, (kind, start, stop) in enumerate(self.regions()):
            # Of a softmax: dS = P (dP - D).
            of_logits = ops.cast(
                widened(self.scores[index]) * (of_scores[index] - mean),
                query.dtype,
            )
            keys = x[_operand("key", kind)][:, :, start:stop]
            of_query = of_query + ops.matmul(of_logits, keys)
            of_keys[kind] = ops.matmul(_transposed(of_logits), query)
            of_values[kind] = ops.matmul(
                _transposed(self._dropped(index)), upstream
            )
            if kind == "near" and "key_relations" in x:
                relations = x["key_relations"]
                by_distance = self._by_distance(of_logits)
                of_query = of_query + table_product(by_distance, relations)
                sums["key_relations"].append(
                    table_gradient(by_distance, query, relations.shape)
                )
        if "value_relations" in x:
            sums["value_relations"].append(
                table_gradient(
                    self.buckets, upstream, x["value_relations"].shape
                )
            )
        sums["query"].append(of_query)
        for name, parts in (("key", of_keys), ("value", of_values)):
            past = [parts[kind] for kind in ("left", "near") if kind in parts]
            sums[name].append(_joined(past))
            if "right" in parts:
                sums[f"{name}_right"].append(parts["right"])

    def _mean_score_gradient(self, upstream, of_scores):
        """`D = sum_j P_ij dP_ij`, `(B, N, C, 1)`: what a row has in common.

        It is also `dO_i O_i`, a product over the context vectors alone (Dao et
        al. 2022, appendix B). In half precision the two differ by what
        each was rounded, and what is then left of the sum of a row of `dS`,
        0 by right, would weigh as much as all keys have in common. So there
        it is the mean of the same numbers that it is taken from, by the same
        weights.
        """
        if not self.is_half:
            return ops.sum(upstream * self.context, axis=-1, keepdims=True)
        weighted = total = 0
        for scores, part in zip(map(widened, self.scores), of_scores):
            weighted += ops.sum(scores * part, axis=-1, keepdims=True)
            total += ops.sum(scores, axis=-1, keepdims=True)
        # Fully masked rows have no weight.
        return weighted / ops.where(total == 0, 1.0, total)

    def _score_gradient(self, x, upstream, index):
        """`dP`, by way of the context vectors: float, `(B, N, C, keys)`."""
        kind, start, stop = self.regions()[index]
        values = x[_operand("value", kind)][:, :, start:stop]
        of_scores = ops.matmul(upstream, _transposed(values))
        if kind == "near" and "value_relations" in x:
            relations = _transposed(x["value_relations"])
            of_scores = of_scores + self._by_key(
                table_product(upstream, relations)
            )
        if self.kept is not None:
            of_scores = ops.where(
                self.kept[index], of_scores * self.kept_scale, 0.0
            )
        return widened(of_scores)

    def _dropped(self, index):
        scores = self.scores[index]
        if self.kept is None:
            return scores
        return ops.where(self.kept[index], scores * self.kept_scale, 0.0)

    def _margins(self):
        """Keys of a band that lie before the first and after the last."""
        before = self.near_start - self.start + self.reach
        if self.near_stop is self.stop:
            return before, self.reach
        return before, self.stop + self.reach - self.near_stop

    def _by_key(self, by_distance):
        """`(B, N, C, 2K + 1)` moved to the keys that are near."""
        return shear(by_distance, self._margins(), not self.is_causal)

    def _by_distance(self, by_key):
        """The transpose of `_by_key`."""
        return unshear(
            by_key, 2 * self.reach + 1, self._margins(), not self.is_causal
        )


def _operand(name, kind):
    return f"{name}_right" if kind == "right" else name


def _transposed(tensor):
    return ops.swapaxes(tensor, -1, -2)


def _joined(parts):
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=2)


def _sum_tables(parts, like):
    return ops.cast(sum(parts), like.dtype)


def _join_queries(parts, like):
    return _joined(parts)


def _sum_past(parts, like):
    """Sum of what blocks add to the gradient of keys from the first on."""
    total, finished = parts[-1], []
    for part in parts[-2::-1]:
        stop = part.shape[2]
        finished.append(total[:, :, stop:])
        total = total[:, :, :stop] + part
    return _joined([total, *finished[::-1]])


def _sum_future(parts, like):
    """Sum of what blocks add to the gradient of keys up to the last."""
    total, finished = parts[0], []
    for part in parts[1:]:
        start = total.shape[2] - part.shape[2]
        finished.append(total[:, :, :start])
        total = total[:, :, start:] + part
    total = _joined([*finished, total])
    before = like.shape[2] - total.shape[2]
    return ops.pad(total, ((0, 0), (0, 0), (before, 0), (0, 0)))


_SUMS = {
    "query": _join_queries,
    "key": _sum_past,
    "value": _sum_past,
    "key_right": _sum_future,
    "value_right": _sum_future,
}
