"""Makes arrays of sentence pairs, padded to the longest."""

from typing import TypeAlias

import numpy as np

from relative_attention.data.token_corpus import TokenCorpus

Batch: TypeAlias = tuple[dict[str, np.ndarray], np.ndarray]

_END_ID = 1


def padded_batch(
    corpus: TokenCorpus, indices: np.ndarray, start_token_id: int
) -> Batch:
    """Returns pairs of a corpus as `Transformer` takes them.

    Args:
        corpus: `TokenCorpus`.
        indices: int array `(B,)`, the pairs to take.
        start_token_id: int. The id that the decoder's inputs start with.

    Returns:
        Pair of a dict, `"source_token_ids"` int32 `(B, S)` ending with id 1
        and `"target_token_ids"` int32 `(B, T)` starting with `start_token_id`,
        and labels int32 `(B, T)` ending with id 1.
    """
    # Imported here, since reading a corpus needs no Keras.
    from relative_attention.models.decoder_inputs import decoder_inputs

    source = _pad(corpus.source_ids, corpus.source_offsets, indices)
    labels = _pad(corpus.target_ids, corpus.target_offsets, indices)
    # Nothing follows an end of sentence, so it is no input.
    inputs = decoder_inputs(
        np.where(labels == _END_ID, 0, labels), start_token_id
    )
    return {"source_token_ids": source, "target_token_ids": inputs}, labels


def _pad(
    ids: np.ndarray, offsets: np.ndarray, indices: np.ndarray
) -> np.ndarray:
    """Returns sentences with an end of sentence each, padded with 0.

    Args:
        ids: int array, the ids of all sentences one after another.
        offsets: int array, the offset of each sentence in `ids`.
        indices: int array `(B,)`, the sentences to take.

    Returns:
        Int32 array `(B, T)`, where `T` is the length of the longest sentence,
        its end included.
    """
    starts = offsets[indices]
    lengths = offsets[indices + 1] - starts
    columns = np.arange(lengths.max() + 1)
    is_token = columns < lengths[:, None]
    rows = np.zeros(is_token.shape, np.int32)
    rows[is_token] = ids[(starts[:, None] + columns)[is_token]]
    rows[np.arange(len(rows)), lengths] = _END_ID
    return rows
