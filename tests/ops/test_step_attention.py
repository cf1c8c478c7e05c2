import numpy as np
import pytest
from keras import ops

from relative_attention.ops import attention_context
from relative_attention.ops import attention_logits
from relative_attention.ops import step_attention


@pytest.mark.parametrize("own", [True, False], ids=["own", "keras"])
@pytest.mark.parametrize("num_queries", [1, 2])
def test_steps_attend_as_all_do(monkeypatch, rng, num_queries, own):
    monkeypatch.setattr(step_attention, "prefers_own_kernels", lambda: own)
    # Small integers, so that every order of sums gives the same.
    query, key, value, scores = (
        ops.array(rng.integers(-9, 9, shape).astype("float32"))
        for shape in (
            (2, 3, num_queries, 4),
            (2, 3, 5, 4),
            (2, 3, 5, 7),
            (2, 3, num_queries, 5),
        )
    )
    np.testing.assert_array_equal(
        step_attention.step_logits(query, key), attention_logits(query, key)
    )
    np.testing.assert_array_equal(
        step_attention.step_context(scores, value),
        attention_context(scores, value),
    )
