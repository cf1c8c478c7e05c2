"""Buckets and batch sizes, against tensor2tensor's and in use."""

import dataclasses
import json
import re

import pytest

from relative_attention import length_buckets


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


def test_length_buckets_of_special_lengths():
    buckets = length_buckets(64, max_length=8)
    assert (buckets.boundaries, buckets.batch_sizes) == ((), (8,))
    assert buckets.max_length == 1_000_000_000
    buckets = length_buckets(70, max_length=0, drop_long_sequences=True)
    assert buckets.max_length == 70
    buckets = length_buckets(
        4096,
        max_length=50,
        drop_long_sequences=True,
        length_multiplier=2,
        min_length=3,
    )
    assert (buckets.min_length, buckets.max_length) == (3, 100)
    assert buckets.boundaries[:3] == (16, 18, 20)


@pytest.mark.parametrize(
    "name, value, allowed",
    [
        ("batch_tokens", 4e3, "a positive int"),
        ("max_length", -1, "a non-negative int"),
        ("length_bucket_step", 1.0, "a finite number above 1"),
        ("min_length", 257, "at most the maximum length, 256"),
    ],
)
def test_error_when_an_argument_is_wrong(name, value, allowed):
    with pytest.raises(ValueError) as raised:
        length_buckets(**({"batch_tokens": 4096} | {name: value}))
    assert str(raised.value) == (
        f"`{name}` must be {allowed}. Received: {name}={value!r}."
    )
