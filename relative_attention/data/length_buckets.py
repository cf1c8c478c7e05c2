"""Computes length buckets and batch sizes as tensor2tensor does."""

import dataclasses
import math
from collections.abc import Iterator

import numpy as np

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_number

# The maximum length if no pair is left out, as in tensor2tensor.
_NO_MAXIMUM = 10**9
# The last number in tensor2tensor's table of highly composite numbers.
_LARGEST_WINDOW = 110_270_160


@dataclasses.dataclass(frozen=True)
class LengthBuckets:
    """Length buckets; sentences of one bucket share a batch.

    The length of a pair is that of its longer side. Bucket `i` holds the
    lengths from `boundaries[i - 1]` up to `boundaries[i] - 1`. The first
    bucket holds all shorter lengths, and the last one, which comes after the
    last boundary, all longer ones.

    Attributes:
        boundaries: tuple of int, ascending. First length of each bucket except
            the first.
        batch_sizes: tuple of int, one more than the boundaries. Number of
            rows of a full batch of each bucket.
        min_length: int. Shorter pairs should be left out.
        max_length: int. Longer pairs should be left out. 1,000,000,000 if none
            should be.
        shuffle_queue_size: int. Number of batches to shuffle, so that batches
            of one bucket do not follow each other.
    """

    boundaries: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    min_length: int
    max_length: int
    shuffle_queue_size: int


def length_buckets(
    batch_tokens: int,
    max_length: int = 256,
    min_length_bucket: int = 8,
    length_bucket_step: float = 1.1,
    drop_long_sequences: bool = False,
    shard_multiplier: int = 1,
    length_multiplier: int = 1,
    min_length: int = 0,
) -> LengthBuckets:
    """Returns tensor2tensor's length buckets and batch sizes, for `tf.data`.

    Use them to reproduce tensor2tensor's batches. `TokenBatches` pads less, and
    can resume at any step.

    A batch has about `batch_tokens` tokens on its longer side, with padding.
    There are fewer tokens for two reasons. The number of rows is computed from
    the end of the bucket, which no pair reaches. The number is then rounded
    down to a divisor of one window that all buckets share, a number with very
    many divisors. A batch of pairs beyond `max_length` may have more tokens.

    Args:
        batch_tokens: int. Number of tokens of a batch on its longer side, with
            padding; tensor2tensor's `batch_size`.
        max_length: int. The length from which the number of rows of the last
            bucket is computed. `0` means `batch_tokens`. Defaults to `256`.
        min_length_bucket: int. First boundary. Defaults to `8`.
        length_bucket_step: float above 1. A boundary is the previous one times
            this, rounded down, but at least the previous one plus 1. Defaults
            to `1.1`.
        drop_long_sequences: A boolean to indicate whether pairs over
            `max_length` should be left out, as tensor2tensor does in training.
            Defaults to `False`.
        shard_multiplier: int. Number of devices; batches have this many times
            as many rows. Defaults to `1`.
        length_multiplier: int. Boundaries and `max_length` are multiplied by
            this; batches keep their number of tokens. Defaults to `1`.
        min_length: int. Shorter pairs should be left out. Defaults to `0`.

    Returns:
        `LengthBuckets`.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
    >>> import tensorflow as tf
    >>> lengths = tf.data.Dataset.range(1, 400)
    >>> pairs = lengths.map(lambda n: (tf.ones([n]), tf.ones([n + 2])))
    >>> def length(source, target):
    ...     return tf.maximum(tf.shape(source)[0], tf.shape(target)[0])
    >>> buckets = ra.length_buckets(4096, drop_long_sequences=True)
    >>> dataset = (
    ...     pairs.filter(lambda *pair: length(*pair) >= buckets.min_length)
    ...     .filter(lambda *pair: length(*pair) <= buckets.max_length)
    ...     .bucket_by_sequence_length(
    ...         length, buckets.boundaries, buckets.batch_sizes
    ...     )
    ...     .shuffle(buckets.shuffle_queue_size)
    ... )
    >>> sum(len(source) for source, target in dataset)
    254

    Reference:
     - tensor2tensor, `batching_scheme` in
       [data_reader.py](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/utils/data_reader.py)
    """
    batch_tokens = checked_int("batch_tokens", batch_tokens)
    max_length = checked_int("max_length", max_length, 0) or batch_tokens
    first = checked_int("min_length_bucket", min_length_bucket)
    step = checked_number(
        "length_bucket_step",
        length_bucket_step,
        lambda step: 1 < step < math.inf,
        "a finite number above 1",
    )
    shards = checked_int("shard_multiplier", shard_multiplier)
    multiplier = checked_int("length_multiplier", length_multiplier)
    min_length = checked_int("min_length", min_length, 0)
    if min_length > max_length:
        raise ValueError(
            "`min_length` must be at most the maximum length, "
            f"{max_length}. Received: min_length={min_length!r}."
        )
    boundaries = [
        boundary * multiplier
        for boundary in _boundaries(first, step, max_length)
    ]
    max_length *= multiplier
    # As many rows as fit, from the end of each bucket, before they are rounded
    # down.
    most = [max(1, batch_tokens // end) for end in (*boundaries, max_length)]
    window = _highly_composite_number(min(3 * max(most), _LARGEST_WINDOW))
    sizes = [_largest_divisor(window, size) for size in most]
    return LengthBuckets(
        boundaries=tuple(boundaries),
        batch_sizes=tuple(size * shards for size in sizes),
        min_length=min_length,
        max_length=max_length if drop_long_sequences else _NO_MAXIMUM,
        # Three windows, in the smallest batches; both grow with the shards.
        shuffle_queue_size=window // min(sizes) * 3,
    )


def _boundaries(first: int, step: float, max_length: int) -> Iterator[int]:
    """Yields the first length of each bucket except the first.

    With the step 1.5, from 2 up to 10, they are 2, 3, 4, 6 and 9: each is 1.5
    times the previous one, rounded down, but at least the previous one plus 1.
    """
    boundary = first
    while boundary < max_length:
        yield boundary
        boundary = max(boundary + 1, int(boundary * step))


def _highly_composite_number(limit: int) -> int:
    """Returns the largest highly composite number up to `limit`.

    Such a number has more divisors than any smaller one. So it is the
    smallest of those numbers up to `limit` that have the most divisors.
    """
    num_divisors = np.zeros(limit + 1, np.int16)
    for divisor in range(1, math.isqrt(limit) + 1):
        # The pairs `divisor * other`, where `other` is no smaller.
        num_divisors[divisor**2] += 1
        num_divisors[divisor * (divisor + 1) :: divisor] += 2
    return int(num_divisors.argmax())


def _largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of a number up to `limit`."""
    candidates = range(min(number, limit), 0, -1)
    return next(divisor for divisor in candidates if number % divisor == 0)
