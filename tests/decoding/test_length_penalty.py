"""The length penalty of GNMT, as it is printed."""

import numpy as np

from relative_attention.decoding.length_penalty import length_penalty


def test_penalty_is_that_of_the_paper():
    # (5 + |Y|)^alpha / (5 + 1)^alpha: of 1 token 1, of 7 tokens 2^alpha.
    lengths = np.array([1, 7, 19], np.int32)
    np.testing.assert_allclose(length_penalty(lengths, 1.0), [1, 2, 4])
    np.testing.assert_allclose(
        length_penalty(lengths, 0.5), [1, 2**0.5, 2], rtol=1e-6
    )
    np.testing.assert_array_equal(length_penalty(lengths, 0.0), [1, 1, 1])
