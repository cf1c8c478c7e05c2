import numpy as np
import pytest

from relative_attention.ops import AttentionMask

B, T = 2, 6


@pytest.fixture
def masks(rng):
    return {
        "padding_mask": rng.random((B, T)) < 0.7,
        "attention_mask": rng.random((B, T, T)) < 0.7,
    }


def expected(padding_mask=None, attention_mask=None, is_causal=False):
    """The whole mask, `(B, T, T)`, pair by pair."""
    result = np.ones((B, T, T), bool)
    for b, i, j in np.ndindex(B, T, T):
        if padding_mask is not None:
            result[b, i, j] &= padding_mask[b, j]
        if attention_mask is not None:
            result[b, i, j] &= np.broadcast_to(attention_mask, result.shape)[
                b, i, j
            ]
        if is_causal:
            result[b, i, j] &= j <= i
    return result


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "names",
    [
        [],
        ["padding_mask"],
        ["attention_mask"],
        ["padding_mask", "attention_mask"],
    ],
    ids=lambda names: "+".join(names) or "none",
)
def test_part_is_cut_from_the_whole(masks, names, is_causal):
    given = {name: masks[name] for name in names}
    mask = AttentionMask(T, is_causal=is_causal, **given)
    whole = expected(is_causal=is_causal, **given)
    parts = [
        (0, T, 0, T),
        (0, 3, 0, 2),
        (2, 5, 0, 3),
        (2, 5, 1, 6),
        (4, 6, 5, 6),
    ]
    for first, end, first_key, end_key in parts:
        part = mask.part(first, end, first_key, end_key)
        wanted = whole[:, None, first:end, first_key:end_key]
        part = True if part is None else np.asarray(part)
        np.testing.assert_array_equal(
            np.broadcast_to(part, wanted.shape), wanted
        )


@pytest.mark.parametrize(
    "shape", [(T, T), (1, T, T), (B, 1, T), (1, T), (B, T, 1)]
)
def test_mask_is_broadcast(rng, shape):
    given = rng.random(shape) < 0.5
    mask = AttentionMask(T, attention_mask=given)
    whole = np.broadcast_to(given, (B, T, T))[:, None]
    for part, wanted in (
        (mask.whole(), whole),
        (mask.part(1, 4, 2, 6), whole[:, :, 1:4, 2:6]),
    ):
        np.testing.assert_array_equal(
            np.broadcast_to(np.asarray(part), wanted.shape), wanted
        )


def test_past_of_a_causal_mask_needs_no_mask():
    mask = AttentionMask(T, is_causal=True)
    assert mask.part(3, 6, 0, 4) is None
    assert mask.part(3, 6, 0, 5) is not None
