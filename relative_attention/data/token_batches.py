"""Batches of similar length, each of about the same number of tokens."""

import dataclasses
import functools

import numpy as np

from relative_attention.data.keyed_permutation import keyed_permutation

# How many source-target differences, in tokens, are shuffled together: enough
# to mix pairs, too few to pad for. Which ones are together is left to chance.
_WINDOW = 2
_PHASES = range(_WINDOW)
_END_ID = 1
# Far apart, so that no two windows have keys that are alike.
_KEY_STEP = np.uint64(0xD1342543DE82EF95)


class TokenBatches:
    """Cuts a corpus into batches by a budget of tokens.

    Pairs are ordered by their longer side, and the order is cut so that the
    rows of a batch times its longest side is at most `batch_tokens`. Where to
    cut depends on lengths alone, so every epoch has the same number of
    batches; which pairs of a length come to stand together, and in which
    order the batches come, is a function of `(seed, epoch)`. A training run
    can therefore go on at any step, and see what it would have seen.

    `fit` and `evaluate` of a `Transformer` take them, on every backend:
    `model.fit(batches, validation_data=others, epochs=10)`. Elsewhere
    `train_dataset` and `evaluation_dataset` stand for them.

    Args:
        corpus: `TokenCorpus`.
        batch_tokens: int. Most padded positions of a batch, on its longer
            side. A pair longer than this is a batch of its own.
        seed: int. Defaults to `0`.
        start_token_id: int. What the decoder's inputs start with. Defaults to
            `0`.
    """

    def __init__(self, corpus, batch_tokens, seed=0, start_token_id=0):
        self.corpus = corpus
        self.batch_tokens = batch_tokens
        self.seed = seed
        self.start_token_id = start_token_id
        self._order = corpus.length_order
        self._bounds = _cut(self._order, batch_tokens)
        self._windows = [_windows(self._order, phase) for phase in _PHASES]
        self._epoch = functools.lru_cache(maxsize=2)(self._draw_epoch)

    def __len__(self):
        """Number of batches of an epoch."""
        return len(self._bounds) - 1

    def indices(self, epoch=None):
        """Yield the pairs of each batch of an epoch, as arrays of indices.

        Args:
            epoch: int, 0 first, or `None` for the order of the lengths, in
                which nothing is left to chance, as evaluation has it.
        """
        for number in range(len(self)):
            yield self.batch_indices(epoch, number)

    def batch_indices(self, epoch, number):
        """The pairs of one batch, an array of indices.

        It takes the same time whatever the size of the corpus.

        Args:
            epoch: int or `None`, as for `indices`.
            number: int. Of the batch in the epoch, 0 first.
        """
        drawn = None if epoch is None else self._epoch(epoch)
        batch = number if drawn is None else drawn.sequence[number]
        places = np.arange(self._bounds[batch], self._bounds[batch + 1])
        if drawn is not None:
            places = drawn.shuffled(places)
        return np.asarray(self._order.pairs[places], np.int64)

    def line_numbers(self, step):
        """Where the pairs of a step of training stand in the files.

        Args:
            step: int, 0 first.

        Returns:
            Sorted list of int, the lines of the pairs, 1 first.
        """
        indices = self.batch_indices(*divmod(step, len(self)))
        return sorted(self.corpus.line_numbers[indices].tolist())

    def _draw_epoch(self, epoch):
        random = np.random.default_rng([self.seed, epoch])
        return _Epoch(
            windows=self._windows[random.integers(len(_PHASES))],
            key=random.integers(2**64, dtype=np.uint64),
            # Of as many batches as take an epoch, not as many pairs.
            sequence=random.permutation(len(self)).astype(np.uint32),
        )

    def batch(self, indices):
        """Arrays of the given pairs, as `Transformer` takes them.

        Args:
            indices: int array, see `batch_indices`.

        Returns:
            Pair of a dict, `"source_token_ids"` int32 `(B, S)` ending with
            id 1 and `"target_token_ids"` int32 `(B, T)` starting with
            `start_token_id`, and labels int32 `(B, T)` ending with id 1.
        """
        # Not above: reading a corpus needs no Keras.
        from relative_attention.models.decoder_inputs import decoder_inputs

        corpus = self.corpus
        source = _pad(corpus.source_ids, corpus.source_offsets, indices)
        labels = _pad(corpus.target_ids, corpus.target_offsets, indices)
        # After an end of sentence there is no more input.
        inputs = decoder_inputs(
            np.where(labels == _END_ID, 0, labels), self.start_token_id
        )
        return {"source_token_ids": source, "target_token_ids": inputs}, labels

    def train_batch(self, step):
        """The batch of a step of training, see `batch`.

        Args:
            step: int, 0 first, over all epochs.
        """
        return self.batch(self.batch_indices(*divmod(int(step), len(self))))

    def evaluation_batch(self, number):
        """A batch of those that hold every pair once, by length; see `batch`.

        Args:
            number: int, 0 first.
        """
        return self.batch(self.batch_indices(None, int(number)))

    def train_dataset(self, first_step=0):
        """Endless `tf.data.Dataset` of batches, from a step of training on.

        Args:
            first_step: int. Batches to leave out, as seen already.
        """
        import tensorflow as tf

        steps = tf.data.Dataset.range(first_step, tf.int64.max)
        return _dataset(steps, self.train_batch)

    def evaluation_dataset(self):
        """`tf.data.Dataset` of every pair once."""
        import tensorflow as tf

        numbers = tf.data.Dataset.range(len(self))
        return _dataset(numbers, self.evaluation_batch)


@dataclasses.dataclass(frozen=True)
class _Epoch:
    """What chance decides of an epoch: which pairs meet, and when.

    Attributes:
        windows: int array, where each window starts in the order of lengths,
            and the end. Pairs change places within a window.
        key: uint64, of the permutations of the windows.
        sequence: int array, the batches in the order in which they come.
    """

    windows: np.ndarray
    key: np.uint64
    sequence: np.ndarray

    def shuffled(self, places):
        """The places in the order of lengths that come to these."""
        window = np.searchsorted(self.windows, places, side="right") - 1
        starts = self.windows[window]
        sizes = self.windows[window + 1] - starts
        keys = window.astype(np.uint64) * _KEY_STEP + self.key
        return starts + keyed_permutation(places - starts, sizes, keys)


def _windows(order, phase):
    """Starts of the stretches of one longer side and about one difference."""
    window = (order.difference + phase) // _WINDOW
    is_new = np.ones(len(window), bool)
    is_new[1:] = (np.diff(window) != 0) | (np.diff(order.longest) != 0)
    return np.append(order.starts[:-1][is_new], order.starts[-1])


def _cut(order, batch_tokens):
    """Bounds of batches in the order of lengths, each as large as fits."""
    is_last = np.append(np.diff(order.longest) != 0, True)
    lengths = order.longest[is_last]
    # Where the pairs of each length end, and how many of them fit.
    ends = order.starts[1:][is_last]
    rows = np.maximum(batch_tokens // lengths, 1)
    bounds = []
    start = 0
    for group, end in enumerate(ends.tolist()):
        if start >= end:
            continue
        # Batches of this length alone, and what is left of it.
        whole = np.arange(start, end + 1, rows[group])
        bounds.append(whole[:-1])
        start = int(whole[-1])
        if start < end:
            bounds.append([start])
            start = _end_of_batch(start, group, ends, rows)
    return np.concatenate([*bounds, order.starts[-1:]])


def _end_of_batch(start, group, ends, rows):
    """How far a batch reaches: into longer pairs while there is room."""
    stop = start
    while group < len(ends) and stop < start + rows[group]:
        stop = min(int(ends[group]), start + int(rows[group]))
        if stop < ends[group]:
            break
        group += 1
    return stop


def _pad(ids, offsets, indices):
    """Rows of ids, each with an end of sentence, padded with 0 on the right."""
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    columns = np.arange(lengths.max() + 1)
    is_token = columns < lengths[:, None]
    rows = np.zeros(is_token.shape, np.int32)
    rows[is_token] = ids[(starts[:, None] + columns)[is_token]]
    rows[np.arange(len(rows)), lengths] = _END_ID
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

    options = tf.data.Options()
    # Of several machines each takes its rows of every batch.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    batches = numbers.map(to_batch).with_options(options)
    return batches.prefetch(tf.data.AUTOTUNE)
