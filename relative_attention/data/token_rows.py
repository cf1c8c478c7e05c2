"""Removes the special ids from a row of token ids."""

from collections.abc import Iterable


def ids_of_text(row: Iterable[int], end_id: int, padding_id: int) -> list[int]:
    """Returns the ids before the end of sentence, without padding.

    Args:
        row: iterable of int, such as beam search returns.
        end_id: int. Id of the end of sentence.
        padding_id: int. Id of padding.

    Returns:
        List of int.
    """
    ids = [int(token_id) for token_id in row]
    if end_id in ids:
        ids = ids[: ids.index(end_id)]
    return [token_id for token_id in ids if token_id != padding_id]
