"""Which source word each word of a translation comes from."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from relative_attention.decoding.constraints import padded_rows
from relative_attention.models.config import END_ID

_UNKNOWN = re.compile(" \u2047 ?")


def word_alignment(
    attention: np.ndarray,
    source_token_ids: Sequence[int],
    token_ids: Sequence[int],
    vocabularies: tuple[Any, Any],
) -> tuple[tuple[int, int], ...]:
    """Links each word of a translation to the source word it attends to most.

    Words are parts of the text between blanks. The scores are the mean over
    the heads of the last block, which aligns better in the bundled models than
    the one before; a word has the sum of its pieces.

    Args:
        attention: float array `(L, N, T, S)`, the cross-attention scores.
        source_token_ids: the ids of the source, with its end.
        token_ids: the ids of the translation, with its end, if it ended.
        vocabularies: those of source and target.

    Returns:
        Pairs of the numbers of a source word and of a target word, from 0, by
        the target word.
    """
    source, target = vocabularies
    # Before the words of some models is a start.
    start = int(getattr(source, "start", False))
    columns = _words_of_pieces(source_token_ids[start:-1], source)
    has_ended = [*token_ids[-1:]] == [END_ID]
    rows = _words_of_pieces(
        token_ids[: len(token_ids) - has_ended], target, is_shown=True
    )
    if not columns or not rows:
        return ()
    scores = attention[-1].mean(axis=0)
    of_words = np.zeros((rows[-1] + 1, columns[-1] + 1))
    pieces = scores[: len(rows), start : start + len(columns)]
    np.add.at(of_words, np.ix_(rows, columns), pieces)
    return tuple(
        (int(column), row)
        for row, column in enumerate(of_words.argmax(axis=1))
        if row in rows
    )


def _words_of_pieces(
    ids: Sequence[int], vocabulary: Any, is_shown: bool = False
) -> list[int]:
    """Returns the number of the word that each piece belongs to.

    `is_shown` tells whether the text that users see is the decoded one.
    """
    beginnings = [ids[: number + 1] for number in range(len(ids))]
    if not beginnings:
        return []
    texts = vocabulary.decode(padded_rows(beginnings))
    if not is_shown:
        # SentencePiece decodes what it does not know with blanks around it,
        # which the text did not have.
        texts = [_UNKNOWN.sub("\u2047", text) for text in texts]
    # After a blank a new word begins.
    return [len(f"{text}.".split()) - 1 for text in texts]
