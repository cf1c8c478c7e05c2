"""Batches of similar length, each of about the same number of tokens."""

import bisect
import functools

import numpy as np

# How far apart, in tokens, the source-target differences of neighbours in a
# batch may be by chance: enough to mix them, too little to pad for.
_JITTER = 2.0


class TokenBatches:
    """Cuts a corpus into batches by a budget of tokens.

    Pairs are ordered by their longer side, and the order is cut so that the
    rows of a batch times its longest side is at most `batch_tokens`. Where to
    cut depends on lengths alone, so every epoch has the same number of
    batches; which pairs of a length come to stand together, and in which
    order the batches come, is a function of `(seed, epoch)`. A training run
    can therefore go on at any step, and see what it would have seen.

    Args:
        corpus: `TokenCorpus`.
        batch_tokens: int. Most padded positions of a batch, on its longer
            side. A pair longer than this is a batch of its own.
        seed: int. Defaults to `0`.
    """

    def __init__(self, corpus, batch_tokens, seed=0):
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        self._difference = np.asarray(
            corpus.source_lengths - corpus.target_lengths
        )
        self._longest = np.maximum(corpus.source_lengths, corpus.target_lengths)
        self._bounds = _cut(np.sort(self._longest), batch_tokens)

    def __len__(self):
        """Number of batches of an epoch."""
        return len(self._bounds) - 1

    def indices(self, epoch=None):
        """Yield the pairs of each batch of an epoch, as arrays of indices.

        Args:
            epoch: int, 0 first, or `None` for the order of the lengths, in
                which nothing is left to chance, as evaluation has it.
        """
        if epoch is None:
            order = np.lexsort((self._difference, self._longest))
            sequence = range(len(self))
        else:
            random = np.random.default_rng([self.seed, epoch])
            jitter = random.uniform(0, _JITTER, len(self._longest))
            # Sorted by the longer side, then by about the difference: both
            # sides of a batch are then almost even.
            order = np.lexsort((self._difference + jitter, self._longest))
            sequence = random.permutation(len(self))
        for batch in sequence:
            yield order[self._bounds[batch] : self._bounds[batch + 1]]

    def batch(self, indices):
        """Arrays of the given pairs, as `Transformer` takes them.

        Returns:
            Pair of a dict, `"source_token_ids"` int32 `(B, S)` ending with
            id 1 and `"target_token_ids"` int32 `(B, T)` starting with id 0,
            and labels int32 `(B, T)` ending with id 1.
        """
        corpus = self.corpus
        source = _pad(corpus.source_ids, corpus.source_offsets, indices)
        labels = _pad(corpus.target_ids, corpus.target_offsets, indices)
        shifted = np.zeros_like(labels)
        shifted[:, 1:] = labels[:, :-1]
        # Where the shift brought an end of sentence there is no more input.
        shifted[shifted == 1] = 0
        return (
            {"source_token_ids": source, "target_token_ids": shifted},
            labels,
        )

    def train_dataset(self, first_step=0):
        """Endless `tf.data.Dataset` of batches, from a step of training on.

        Args:
            first_step: int. Batches to leave out, as seen already.
        """
        import tensorflow as tf

        @functools.lru_cache(maxsize=2)
        def epoch_indices(epoch):
            return list(self.indices(epoch))

        def batch(step):
            epoch, number = divmod(int(step), len(self))
            return self.batch(epoch_indices(epoch)[number])

        return _dataset(tf.data.Dataset.range(first_step, tf.int64.max), batch)

    def evaluation_dataset(self):
        """`tf.data.Dataset` of every pair once."""
        import tensorflow as tf

        indices = list(self.indices())
        return _dataset(
            tf.data.Dataset.range(len(self)),
            lambda number: self.batch(indices[number]),
        )


def _cut(sorted_lengths, batch_tokens):
    """Bounds of batches in the ordered corpus, each as large as fits."""
    bounds = [0]
    while bounds[-1] < len(sorted_lengths):
        start = bounds[-1]
        # Positions of a batch that ends with each of the next pairs; the
        # lengths only grow, so they can be searched.
        more = bisect.bisect_right(
            range(1, len(sorted_lengths) - start),
            batch_tokens,
            key=lambda k, start=start: (k + 1) * sorted_lengths[start + k],
        )
        bounds.append(start + 1 + more)
    return bounds


def _pad(ids, offsets, indices):
    """Rows of ids, each with an end of sentence, padded with 0 on the right."""
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    columns = np.arange(lengths.max() + 1)
    is_token = columns < lengths[:, None]
    rows = np.zeros(is_token.shape, np.int32)
    rows[is_token] = ids[(starts[:, None] + columns)[is_token]]
    rows[np.arange(len(rows)), lengths] = 1
    return rows


def _dataset(numbers, batch):
    """The batches that `batch` makes of a data set of numbers.

    Not `from_generator`: it has the C library give memory back to the system
    all the time (M_TRIM_THRESHOLD), and every step of training take it again.
    """
    import tensorflow as tf

    def load(number):
        inputs, labels = batch(number)
        return *inputs.values(), labels

    def to_batch(number):
        arrays = tf.numpy_function(load, [number], [tf.int32] * 3)
        for array in arrays:
            array.set_shape((None, None))
        source, target, labels = arrays
        return {"source_token_ids": source, "target_token_ids": target}, labels

    return numbers.map(to_batch).prefetch(tf.data.AUTOTUNE)
