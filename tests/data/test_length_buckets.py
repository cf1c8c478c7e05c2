"""Buckets and batch sizes, against tensor2tensor's and in use."""

import bisect
import collections
import dataclasses
import json
import re

import numpy as np
import pytest

from relative_attention import length_buckets

SETTINGS = [
    pytest.param({"batch_tokens": 4096}, id="base"),
    pytest.param({"batch_tokens": 1, "max_length": 40}, id="one_token"),
    pytest.param({"batch_tokens": 997, "max_length": 0}, id="no_maximum"),
    pytest.param({"batch_tokens": 25_000, "shard_multiplier": 3}, id="shards"),
    pytest.param({"batch_tokens": 3000, "length_multiplier": 2}, id="longer"),
    pytest.param({"batch_tokens": 500, "min_length_bucket": 1}, id="from_one"),
    pytest.param({"batch_tokens": 500, "length_bucket_step": 2}, id="doubled"),
]


# === Numbers ===


def test_buckets_are_those_of_tensor2tensor(golden):
    schemes = golden("E_batching_schemes").info["schemes"]
    assert len(schemes) == 16
    for key, scheme in schemes.items():
        name, overrides, drop, shards = re.fullmatch(
            r"(\w+) ({.*}) drop_long_sequences=(\w+) shard_multiplier=(\d+)",
            key,
        ).groups()
        hparams = golden(f"E_hparams/{name}").info | json.loads(overrides)
        buckets = length_buckets(
            hparams["batch_size"],
            max_length=hparams["max_length"],
            min_length_bucket=hparams["min_length_bucket"],
            length_bucket_step=hparams["length_bucket_step"],
            drop_long_sequences=drop == "True",
            shard_multiplier=int(shards),
            min_length=hparams["min_length"],
        )
        assert {
            field: list(value) if isinstance(value, tuple) else value
            for field, value in dataclasses.asdict(buckets).items()
        } == scheme


def test_defaults_are_those_of_transformer_base(golden):
    schemes = golden("E_batching_schemes").info["schemes"]
    scheme = schemes[
        "transformer_base {} drop_long_sequences=False shard_multiplier=1"
    ]
    buckets = length_buckets(4096)
    assert list(buckets.boundaries) == scheme["boundaries"]
    assert list(buckets.batch_sizes) == scheme["batch_sizes"]
    assert buckets.max_length == scheme["max_length"]


def test_buckets_by_hand():
    buckets = length_buckets(
        100, max_length=30, min_length_bucket=4, length_bucket_step=2
    )
    # 25, 12, 6 and 3 rows would fit; the largest highly composite number up
    # to 3 * 25 is 60, whose divisors are 20, 12, 6 and 3.
    assert buckets.boundaries == (4, 8, 16)
    assert buckets.batch_sizes == (20, 12, 6, 3)
    # Three windows of 60 / 3 batches.
    assert buckets.shuffle_queue_size == 60


@pytest.mark.parametrize("settings", SETTINGS)
def test_batches_keep_to_their_tokens_and_share_a_window(settings):
    buckets = length_buckets(**settings)
    shards = settings.get("shard_multiplier", 1)
    maximum = settings.get("max_length", 256) or settings["batch_tokens"]
    maximum *= settings.get("length_multiplier", 1)
    ends = (*buckets.boundaries, maximum)
    assert list(ends) == sorted(set(ends))
    assert len(buckets.batch_sizes) == len(ends)
    for size, end in zip(buckets.batch_sizes, ends):
        rows, rest = divmod(size, shards)
        assert rest == 0
        most = max(1, settings["batch_tokens"] // end)
        assert most / 2 <= rows <= most
    assert list(buckets.batch_sizes) == sorted(
        buckets.batch_sizes, reverse=True
    )
    window = buckets.shuffle_queue_size // 3 * min(buckets.batch_sizes)
    assert all(window % size == 0 for size in buckets.batch_sizes)


def test_one_bucket_when_no_boundary_is_below_the_maximum():
    buckets = length_buckets(64, max_length=8)
    assert (buckets.boundaries, buckets.batch_sizes) == ((), (8,))


def test_length_multiplier_lengthens_the_maximum_and_not_the_minimum():
    buckets = length_buckets(
        4096,
        max_length=50,
        drop_long_sequences=True,
        length_multiplier=2,
        min_length=3,
    )
    assert (buckets.min_length, buckets.max_length) == (3, 100)
    assert buckets.boundaries[:3] == (16, 18, 20)


def test_no_pair_is_too_long_unless_told():
    assert length_buckets(4096).max_length == 1_000_000_000
    dropping = length_buckets(4096, drop_long_sequences=True)
    assert dropping.max_length == 256
    dropping = length_buckets(70, max_length=0, drop_long_sequences=True)
    assert dropping.max_length == 70


# === In use ===


def test_tf_data_makes_batches_of_these_sizes(rng):
    import tensorflow as tf

    buckets = length_buckets(
        40,
        max_length=12,
        min_length_bucket=4,
        length_bucket_step=1.5,
        drop_long_sequences=True,
        min_length=2,
    )
    source_lengths = rng.integers(1, 15, 211)
    target_lengths = source_lengths + rng.integers(0, 3, 211)
    lengths = np.stack([source_lengths, target_lengths], axis=1)

    def length(source, target):
        return tf.maximum(tf.shape(source)[0], tf.shape(target)[0])

    dataset = (
        tf.data.Dataset.from_tensor_slices(lengths)
        .map(lambda pair: (tf.ones(pair[:1]), tf.ones(pair[1:])))
        .filter(lambda *pair: length(*pair) >= buckets.min_length)
        .filter(lambda *pair: length(*pair) <= buckets.max_length)
        .bucket_by_sequence_length(
            length, buckets.boundaries, buckets.batch_sizes
        )
        .shuffle(buckets.shuffle_queue_size, seed=1)
    )
    seen = []
    sizes = collections.defaultdict(list)
    for source, target in dataset.as_numpy_iterator():
        pairs = np.stack([source.sum(1), target.sum(1)], axis=1).astype(int)
        (bucket,) = {
            bisect.bisect(buckets.boundaries, longest)
            for longest in pairs.max(1)
        }
        sizes[bucket].append(len(pairs))
        assert len(pairs) * pairs.max() <= 40
        seen += pairs.tolist()
    assert len(sizes) == len(buckets.batch_sizes)
    for bucket, found in sizes.items():
        # At the end of the data, what is left of a bucket.
        *full, rest = sorted(found, reverse=True)
        assert set(full) == {buckets.batch_sizes[bucket]}
        assert rest <= buckets.batch_sizes[bucket]
    longest = lengths.max(1)
    assert sorted(seen) == sorted(
        lengths[(longest >= 2) & (longest <= 12)].tolist()
    )


# === Errors ===


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        pytest.param("batch_tokens", 0, "an int of at least 1", id="no_tokens"),
        pytest.param("batch_tokens", 4e3, "an int", id="float_tokens"),
        pytest.param("batch_tokens", True, "an int", id="bool_tokens"),
        pytest.param("max_length", -1, "an int of at least 0", id="maximum"),
        pytest.param("max_length", None, "an int", id="maximum_none"),
        pytest.param("min_length_bucket", 0, "at least 1", id="first_bucket"),
        pytest.param("length_bucket_step", 1.0, "above 1", id="no_step"),
        pytest.param("length_bucket_step", float("nan"), "finite", id="nan"),
        pytest.param("length_bucket_step", float("inf"), "finite", id="inf"),
        pytest.param("length_bucket_step", "1.1", "number", id="step_string"),
        pytest.param("shard_multiplier", 0, "at least 1", id="shards"),
        pytest.param("length_multiplier", 0, "at least 1", id="multiplier"),
        pytest.param("min_length", -1, "an int of at least 0", id="minimum"),
        pytest.param("min_length", 257, "at most the maximum length, 256",
                     id="minimum_over_maximum"),
    ],
)  # fmt: skip
def test_error_when_an_argument_is_wrong(name, value, allowed):
    with pytest.raises(ValueError) as raised:
        length_buckets(**({"batch_tokens": 4096} | {name: value}))
    message = str(raised.value)
    assert message.startswith(f"`{name}` must be ")
    assert allowed in message
    assert message.endswith(f"Received: {name}={value!r}.")
