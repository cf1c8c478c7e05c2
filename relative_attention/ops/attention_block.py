"""A block of queries, the keys around it and their products.

See `block_attention.py` for what is computed, and why so.
"""

import dataclasses

from keras import ops

from relative_attention.ops.control_dependency import run_after
from relative_attention.ops.masks import MASKED_LOGIT
from relative_attention.ops.masks import hide_masked
from relative_attention.ops.precision import is_half
from relative_attention.ops.precision import widened
from relative_attention.ops.shear import shear
from relative_attention.ops.shear import unshear
from relative_attention.ops.table_product import table_gradient
from relative_attention.ops.table_product import table_product


@dataclasses.dataclass
class AttentionBlock:
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
        query = run_after(x["query"][:, :, self.start : self.stop], previous)
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
        upstream = run_after(upstream[:, :, self.start : self.stop], previous)
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
            sums[name].append(joined(past))
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


def joined(parts):
    return parts[0] if len(parts) == 1 else ops.concatenate(parts, axis=2)
