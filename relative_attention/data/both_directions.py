"""A corpus read in both directions: source to target, and target to source."""

import dataclasses

import numpy as np

from relative_attention.data.token_corpus import TokenCorpus


def both_directions(corpus: TokenCorpus) -> TokenCorpus:
    """Returns the pairs of a corpus, and after them the same pairs swapped.

    Both sides must have one vocabulary. Unlike those of `corpus`, the arrays
    are in memory: ids four times as many as one side has.

    For example, of one pair with the source 5, 6 and the target 7 the sources
    are 5, 6 and 7, the targets 7 and 5, 6.

    Args:
        corpus: `TokenCorpus`.

    Returns:
        `TokenCorpus` of twice the pairs. A swapped pair has the line number of
        the pair.
    """
    source = corpus.source_ids, corpus.source_offsets
    target = corpus.target_ids, corpus.target_offsets
    source_ids, source_offsets = _joined(source, target)
    target_ids, target_offsets = _joined(target, source)
    return dataclasses.replace(
        corpus,
        source_ids=source_ids,
        source_offsets=source_offsets,
        target_ids=target_ids,
        target_offsets=target_offsets,
        line_numbers=np.tile(corpus.line_numbers, 2),
    )


def _joined(
    first: tuple[np.ndarray, np.ndarray], second: tuple[np.ndarray, np.ndarray]
) -> tuple[np.ndarray, np.ndarray]:
    """Returns ids and offsets of the sentences of two sides."""
    (first_ids, first_offsets), (second_ids, second_offsets) = first, second
    # On disk offsets are as small as they can be: the sums need more.
    after = second_offsets[1:].astype(np.int64) + len(first_ids)
    return (
        np.concatenate([first_ids, second_ids]),
        np.concatenate([first_offsets.astype(np.int64), after]),
    )
