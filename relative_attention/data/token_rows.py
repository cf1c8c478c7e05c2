"""What of a row of token ids is text."""


def ids_of_text(row, end_id, padding_id):
    """The ids before the end of sentence, without padding.

    Args:
        row: iterable of int, as a search returns it.
        end_id: int. Id of the end of sentence.
        padding_id: int. Id of padding.

    Returns:
        List of int.
    """
    ids = [int(token_id) for token_id in row]
    if end_id in ids:
        ids = ids[: ids.index(end_id)]
    return [token_id for token_id in ids if token_id != padding_id]
