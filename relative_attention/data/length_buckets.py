"""tensor2tensor's scheme of batches: which lengths, how many rows."""

import dataclasses
import math

from relative_attention.argument_checks import checked_int

_NO_MAXIMUM = 10**9
# Where tensor2tensor's table of highly composite numbers ends.
_LARGEST_WINDOW = 110_270_160
# The product of these is greater, so no more are needed.
_PRIMES = (2, 3, 5, 7, 11, 13, 17, 19, 23)


@dataclasses.dataclass(frozen=True)
class LengthBuckets:
    """Sentences of like length share a batch; a bucket has one batch size.

    The length of a pair is that of its longer side. Bucket `i` holds lengths
    from `boundaries[i - 1]` up to `boundaries[i] - 1`; the first has all that
    are shorter, the last, which `boundaries` lacks, all that are longer.

    Attributes:
        boundaries: tuple of int, ascending. First length of each bucket but
            the first.
        batch_sizes: tuple of int, one more than boundaries. Rows of a full
            batch of each bucket.
        min_length: int. Shorter pairs are to be left out.
        max_length: int. Longer pairs are to be left out; 1,000,000,000 where
            none is.
        shuffle_queue_size: int. Batches to shuffle among, lest many of one
            bucket come one after another.
    """

    boundaries: tuple[int, ...]
    batch_sizes: tuple[int, ...]
    min_length: int
    max_length: int
    shuffle_queue_size: int


def length_buckets(
    batch_tokens,
    max_length=256,
    min_length_bucket=8,
    length_bucket_step=1.1,
    drop_long_sequences=False,
    shard_multiplier=1,
    length_multiplier=1,
    min_length=0,
):
    """Buckets and batch sizes of tensor2tensor, for `tf.data`.

    For those who want tensor2tensor's batches as they were; `TokenBatches`
    pads less, and can go on at any step.

    A batch has about `batch_tokens` padded positions a side, fewer for two
    reasons: it is counted by the end of its bucket, which no pair reaches, and
    rounded down to a divisor of one window that all buckets share, a number
    with very many divisors. Beyond `max_length` it may have more.

    Args:
        batch_tokens: int. Padded positions of a batch, on its longer side;
            tensor2tensor's `batch_size`.
        max_length: int. The last bucket is counted by it. `0` is
            `batch_tokens`. Defaults to `256`.
        min_length_bucket: int. First boundary. Defaults to `8`.
        length_bucket_step: float above 1. A boundary is the one before times
            this, rounded down, or one more if that is greater. Defaults to
            `1.1`.
        drop_long_sequences: bool. Whether pairs over `max_length` are to be
            left out, as tensor2tensor does in training. Defaults to `False`.
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
    (
        batch_tokens,
        max_length,
        min_length_bucket,
        shard_multiplier,
        length_multiplier,
        min_length,
    ) = (
        checked_int(name, value, minimum, f"an int of at least {minimum}")
        for name, value, minimum in (
            ("batch_tokens", batch_tokens, 1),
            ("max_length", max_length, 0),
            ("min_length_bucket", min_length_bucket, 1),
            ("shard_multiplier", shard_multiplier, 1),
            ("length_multiplier", length_multiplier, 1),
            ("min_length", min_length, 0),
        )
    )
    _check(
        "length_bucket_step",
        length_bucket_step,
        isinstance(length_bucket_step, int | float)
        and 1 < length_bucket_step < math.inf,
        "a finite number above 1",
    )
    max_length = max_length or batch_tokens
    _check(
        "min_length",
        min_length,
        min_length <= max_length,
        f"at most the maximum length, {max_length}",
    )
    boundaries = []
    boundary = min_length_bucket
    while boundary < max_length:
        boundaries.append(boundary * length_multiplier)
        boundary = max(boundary + 1, int(boundary * length_bucket_step))
    max_length *= length_multiplier
    # As many rows as fit, before they are rounded.
    most = [max(1, batch_tokens // end) for end in (*boundaries, max_length)]
    window = _highly_composite_number(min(3 * max(most), _LARGEST_WINDOW))
    sizes = [_largest_divisor(window, size) for size in most]
    return LengthBuckets(
        boundaries=tuple(boundaries),
        batch_sizes=tuple(size * shard_multiplier for size in sizes),
        min_length=min_length,
        max_length=max_length if drop_long_sequences else _NO_MAXIMUM,
        # Three windows, in the smallest batches; both grow with the shards.
        shuffle_queue_size=window // min(sizes) * 3,
    )


def _check(name, value, is_right, allowed):
    if not is_right:
        raise ValueError(
            f"`{name}` must be {allowed}. Received: {name}={value!r}."
        )


def _highly_composite_number(limit):
    """The largest up to `limit` with more divisors than any smaller number.

    It is the smallest of those up to `limit` that have the most divisors.
    """
    candidates = _products_of_falling_powers(limit, _PRIMES, limit.bit_length())
    _, negative = max((divisors, -number) for number, divisors in candidates)
    return -negative


def _products_of_falling_powers(limit, primes, max_exponent):
    """Yield numbers up to `limit`, each with its number of divisors.

    Of two primes the smaller has the greater or the same exponent, as it must
    in a number with more divisors than any smaller one.
    """
    yield 1, 1
    for exponent in range(1, max_exponent + 1):
        power = primes[0] ** exponent
        if power > limit:
            return
        for number, divisors in _products_of_falling_powers(
            limit // power, primes[1:], exponent
        ):
            yield power * number, (exponent + 1) * divisors


def _largest_divisor(number, limit):
    candidates = range(min(number, limit), 0, -1)
    return next(divisor for divisor in candidates if number % divisor == 0)
