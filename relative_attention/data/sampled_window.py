"""Some batches of an epoch whose text is spelt at random."""

import dataclasses

import numpy as np

from relative_attention.data.subword_sampling import SubwordSampling
from relative_attention.data.token_corpus import TokenCorpus

# Halvings of the range in which the least budget is looked for.
_TRIALS = 12


@dataclasses.dataclass(frozen=True)
class SampledWindow:
    """The batches of some steps, cut anew by the lengths that were drawn.

    Pairs of one length are no longer so when they are spelt at random, and a
    batch of them would be padded to the longest. So the pairs of some steps
    that follow one another are drawn together, sorted by their lengths, and
    cut into as many batches as before, of about the same padded size.

    Attributes:
        pairs: int64 array `(N,)`, the pairs of the corpus that it holds.
        corpus: `TokenCorpus` of these pairs, as they were drawn.
        rows: list of an int64 array for each batch, which of `pairs` it has.
    """

    pairs: np.ndarray
    corpus: TokenCorpus
    rows: list[np.ndarray]

    @classmethod
    def draw(
        cls,
        sampling: SubwordSampling,
        corpus: TokenCorpus,
        pairs: np.ndarray,
        num_batches: int,
        seed: tuple[int, int],
    ) -> "SampledWindow":
        """Draws the pairs of a window, and cuts them into batches.

        Args:
            sampling: `SubwordSampling`.
            corpus: `TokenCorpus`.
            pairs: int64 array `(N,)`, the pairs of the window.
            num_batches: int. Number of batches, at most `N`.
            seed: pair of the key of the epoch and the number of the window.
        """
        drawn = sampling.draw(corpus, pairs, seed[0])
        order = np.asarray(drawn.length_order.pairs)
        longest = np.maximum(drawn.source_lengths, drawn.target_lengths)
        bounds = even_bounds(longest[order], num_batches)
        batches = np.random.default_rng(seed).permutation(num_batches)
        return cls(
            pairs,
            drawn,
            [order[bounds[batch] : bounds[batch + 1]] for batch in batches],
        )


def even_bounds(lengths: np.ndarray, num_batches: int) -> list[int]:
    """Cuts sorted rows into batches of about the same padded size.

    Args:
        lengths: int array `(N,)`, ascending.
        num_batches: int. Number of batches, at most `N`.

    Returns:
        List of `num_batches + 1` ints: where each batch starts, and where the
        last one ends. Its largest batch, its rows times its longest one, is
        near the least that is possible.
    """
    total = int(lengths.sum())
    # With the first, a batch takes all; the second is too little, or just
    # enough.
    high, low = len(lengths) * int(lengths[-1]), total // num_batches
    for _ in range(_TRIALS):
        middle = (low + high) // 2
        if _cut(lengths, num_batches, middle)[-1] == len(lengths):
            high = middle
        else:
            low = middle
    return _cut(lengths, num_batches, high)


def _cut(lengths: np.ndarray, num_batches: int, budget: int) -> list[int]:
    """Returns where batches start of a budget, each with a row at least.

    What the batches have no room for is left over at the end.
    """
    bounds = [0]
    counts = np.arange(1, len(lengths) + 1)
    for left in range(num_batches - 1, -1, -1):
        start = bounds[-1]
        sizes = counts[: len(lengths) - start] * lengths[start:]
        rows = max(int(np.searchsorted(sizes, budget, "right")), 1)
        # Those that follow get a row each.
        bounds.append(min(start + rows, len(lengths) - left))
    return bounds
