"""The arrays of batches, to compare them."""

import numpy as np


def arrays(batch):
    """The three arrays of a batch, of numpy or of tensors."""
    inputs, labels = batch
    return [
        np.asarray(array)
        for array in (
            inputs["source_token_ids"],
            inputs["target_token_ids"],
            labels,
        )
    ]


def assert_same_batch(batch, other):
    for array, expected in zip(arrays(batch), arrays(other), strict=True):
        np.testing.assert_array_equal(array, expected)


def assert_same_batches(batches, others):
    for batch, other in zip(list(batches), list(others), strict=True):
        assert_same_batch(batch, other)
