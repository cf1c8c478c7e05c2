"""Computes length buckets and batch sizes as tensor2tensor does."""

import dataclasses
import math
from collections.abc import Iterator
from collections.abc import Sequence

from relative_attention.argument_checks import checked_int
from relative_attention.argument_checks import checked_number

# The maximum length where no pair is left out, as in tensor2tensor.
_NO_MAXIMUM = 10**9
# The last number in tensor2tensor's table of highly composite numbers.
_LARGEST_WINDOW = 110_270_160
# The product of these primes is greater, so no more are needed.
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)


@dataclasses.dataclass(frozen=True)
class LengthBuckets:
    """Holds the buckets of length in which sentences share a batch.

    The length of a pair is that of its longer side. Bucket `i` holds the
    lengths from `boundaries[i - 1]` up to `boundaries[i] - 1`. The first
    bucket holds all shorter lengths, and the last one, which comes after the
    last boundary, all longer ones.

    Attributes:
        boundaries: tuple of int, ascending. First length of each bucket but
            the first.
        batch_sizes: tuple of int, one more than the boundaries. Number of
            rows of a full batch of each bucket.
        min_length: int. Shorter pairs are to be left out.
        max_length: int. Longer pairs are to be left out. It is 1,000,000,000
            if none is.
        shuffle_queue_size: int. Number of batches to shuffle among, lest many
            of one bucket come one after another.
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

    They are for those who want tensor2tensor's batches as they were.
    `TokenBatches` pads less, and can go on at any step.

    A batch has about `batch_tokens` padded positions a side. It has fewer for
    two reasons: its rows are counted by the end of its bucket, which no pair
    reaches, and are rounded down to a divisor of one window that all buckets
    share, a number with very many divisors. Beyond `max_length` it may have
    more.

    Args:
        batch_tokens: int. Number of padded positions of a batch, on its
            longer side; tensor2tensor's `batch_size`.
        max_length: int. The length that the rows of the last bucket are
            counted by. `0` stands for `batch_tokens`. Defaults to `256`.
        min_length_bucket: int. First boundary. Defaults to `8`.
        length_bucket_step: float above 1. A boundary is the one before times
            this, rounded down, or the one before and 1 if that is greater.
            Defaults to `1.1`.
        drop_long_sequences: A boolean to indicate whether pairs over
            `max_length` are to be left out, as tensor2tensor does in training.
            Defaults to `False`.
        shard_multiplier: int. Batches have this many times as many rows, to
            be split among as many devices. Defaults to `1`.
        length_multiplier: int. Boundaries and `max_length` are this many
            times as long, with batches of the same number of tokens. Defaults
            to `1`.
        min_length: int. Shorter pairs are to be left out. Defaults to `0`.

    Returns:
        `LengthBuckets`.

    Raises:
        ValueError: if an argument is out of its range.

    Example:
    >>> def length(source, target):
    ...     return tf.maximum(tf.shape(source)[0], tf.shape(target)[0])
    >>> buckets = length_buckets(4096, drop_long_sequences=True)
    >>> dataset = (
    ...     pairs.filter(lambda *pair: length(*pair) >= buckets.min_length)
    ...     .filter(lambda *pair: length(*pair) <= buckets.max_length)
    ...     .bucket_by_sequence_length(
    ...         length, buckets.boundaries, buckets.batch_sizes
    ...     )
    ...     .shuffle(buckets.shuffle_queue_size)
    ... )

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
    window, sizes = _batch_sizes(batch_tokens, [*boundaries, max_length])
    return LengthBuckets(
        boundaries=tuple(boundaries),
        batch_sizes=tuple(size * shards for size in sizes),
        min_length=min_length,
        max_length=max_length if drop_long_sequences else _NO_MAXIMUM,
        # Three windows, in the smallest batches; both grow with the shards.
        shuffle_queue_size=window // min(sizes) * 3,
    )


def _boundaries(first: int, step: float, max_length: int) -> Iterator[int]:
    """Yields the first length of each bucket but the first.

    With the step 1.5, from 2 up to 10, they are 2, 3, 4, 6 and 9: each is
    1.5 times the one before, rounded down, or the one before and 1.
    """
    boundary = first
    while boundary < max_length:
        yield boundary
        boundary = max(boundary + 1, int(boundary * step))


def _batch_sizes(
    batch_tokens: int, ends: Sequence[int]
) -> tuple[int, list[int]]:
    """Returns the window that all buckets share, and their batch sizes.

    Args:
        batch_tokens: int. Number of padded positions of a batch.
        ends: the length by which the rows of each bucket are counted.

    Returns:
        Pair of an int, and a list of int that divide it.
    """
    # As many rows as fit, before they are rounded down.
    most = [max(1, batch_tokens // end) for end in ends]
    window = _highly_composite_number(min(3 * max(most), _LARGEST_WINDOW))
    return window, [_largest_divisor(window, size) for size in most]


def _highly_composite_number(limit: int) -> int:
    """Returns the largest highly composite number up to `limit`.

    Such a number has more divisors than any smaller one. So it is the
    smallest of those numbers up to `limit` that have the most divisors.
    """
    candidates = _products_of_falling_powers(limit, _PRIMES, limit.bit_length())
    _, negative = max((divisors, -number) for number, divisors in candidates)
    return -negative


def _products_of_falling_powers(
    limit: int, primes: Sequence[int], max_exponent: int
) -> Iterator[tuple[int, int]]:
    """Yields numbers up to `limit`, each with its number of divisors.

    Of two primes the smaller has the greater or the same exponent, as it must
    in a highly composite number: exchanging two exponents would otherwise
    make a smaller number with as many divisors.

    Args:
        limit: int. Greatest product.
        primes: the primes to multiply, ascending.
        max_exponent: int. Greatest exponent of the first prime.
    """
    yield 1, 1
    for exponent in range(1, max_exponent + 1):
        power = primes[0] ** exponent
        if power > limit:
            return
        for number, divisors in _products_of_falling_powers(
            limit // power, primes[1:], exponent
        ):
            # A divisor has this prime 0 to `exponent` times.
            yield power * number, (exponent + 1) * divisors


def _largest_divisor(number: int, limit: int) -> int:
    """Returns the largest divisor of a number up to `limit`."""
    candidates = range(min(number, limit), 0, -1)
    return next(divisor for divisor in candidates if number % divisor == 0)
