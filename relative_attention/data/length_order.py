"""Sorts the pairs of a corpus by length."""

import dataclasses

import numpy as np


@dataclasses.dataclass(frozen=True)
class LengthOrder:
    """The pairs of a corpus, sorted by length.

    The first key is the length of the longer side of a pair; the second is
    the difference between the two lengths, source minus target. Pairs that are
    equal in both form a length group, in the order of the corpus.

    For example, four pairs whose sentences have these lengths,

    | pair | source | target | longest | difference |
    | ---- | ------ | ------ | ------- | ---------- |
    | 0    | 3      | 2      | 3       | 1          |
    | 1    | 2      | 2      | 2       | 0          |
    | 2    | 2      | 3      | 3       | -1         |
    | 3    | 3      | 2      | 3       | 1          |

    are sorted as `pairs = [1, 2, 0, 3]`. They form three length groups: pair 1,
    pair 2, and the pairs 0 and 3. So `longest` is `[2, 3, 3]`, `difference` is
    `[0, -1, 1]` and `starts` is `[0, 1, 2, 4]`.

    Attributes:
        pairs: int64 array `(num_pairs,)`. Index of the pair at each position of
            this order.
        longest: int64 array `(num_groups,)`. Length of the longer side in each
            length group, the end of sentence included.
        difference: int64 array `(num_groups,)`. Source length minus target
            length in each length group.
        starts: int64 array `(num_groups + 1,)`. Position in `pairs` at which
            each length group starts, and at which the last one ends.
    """

    pairs: np.ndarray
    longest: np.ndarray
    difference: np.ndarray
    starts: np.ndarray


def order_by_length(
    source_lengths: np.ndarray, target_lengths: np.ndarray
) -> LengthOrder:
    """Sorts pairs by their lengths.

    Args:
        source_lengths: int64 array `(num_pairs,)`. Number of tokens of each
            source sentence, the end of sentence included.
        target_lengths: int64 array `(num_pairs,)`. The same of the target.
    """
    longest = np.maximum(source_lengths, target_lengths)
    difference = source_lengths - target_lengths
    # Stable: pairs of a length group stay in the order of the corpus.
    pairs = np.lexsort((difference, longest))
    longest, difference = longest[pairs], difference[pairs]
    # No pair has the length 0, so the first one starts a group.
    is_first = np.diff(longest, prepend=0) != 0
    is_first |= np.diff(difference, prepend=0) != 0
    firsts = np.flatnonzero(is_first)
    return LengthOrder(
        pairs,
        longest[firsts],
        difference[firsts],
        np.append(firsts, len(pairs)),
    )
