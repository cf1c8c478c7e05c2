"""Gives SentencePiece models of other makers this package's ids."""

import pathlib
from typing import Any

from relative_attention.errors import InputError

_PADDING, _END = "<pad>", "</s>"


def with_our_ids(model: bytes, name: pathlib.Path | str) -> bytes:
    """Returns a SentencePiece model with padding 0, end 1 and unknown 2.

    Its pieces stay the same, and so does the spelling of every text, which
    does not depend on ids. Padding, which most models lack, is added. Other
    special pieces, such as a start of sentence, stay pieces that spell no
    text.

    Args:
        model: bytes. A serialised SentencePiece model.
        name: string or path. The name of the model in an error.

    Returns:
        bytes. The serialised model.

    Raises:
        InputError: if `model` is not a SentencePiece model, or has padding or
            end of sentence as a piece of text.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    # protobuf makes the classes of the module when it is imported.
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(bytes(model))
    except DecodeError as error:
        raise InputError(f"{name} is not a SentencePiece model.") from error
    kinds = type(proto).SentencePiece
    pieces = list(proto.pieces)
    unknown = [piece for piece in pieces if piece.type == kinds.UNKNOWN]
    if len(unknown) != 1:
        raise InputError(
            f"{name} is not a SentencePiece model: it must have one unknown "
            f"piece. Received: {len(unknown)}."
        )
    spec = proto.trainer_spec
    # An id is the index of a piece: the special pieces go before all others.
    first = [
        _control(pieces, kinds, spec.pad_piece or _PADDING, name),
        _control(pieces, kinds, spec.eos_piece or _END, name),
        unknown[0],
    ]
    taken = {piece.piece for piece in first}
    rest = [piece for piece in pieces if piece.piece not in taken]
    names = [piece.piece for piece in rest]
    del proto.pieces[:]
    proto.pieces.extend([*first, *rest])
    spec.pad_piece, spec.eos_piece = first[0].piece, first[1].piece
    spec.pad_id, spec.eos_id, spec.unk_id = 0, 1, 2
    spec.bos_id = -1
    if spec.bos_piece in names:
        spec.bos_id = len(first) + names.index(spec.bos_piece)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def _control(
    pieces: list[Any], kinds: Any, piece: str, name: pathlib.Path | str
) -> Any:
    """Finds or makes a control symbol, a piece that spells no text.

    Args:
        pieces: list of `SentencePiece` messages.
        kinds: the class of these messages, which names their kinds.
        piece: string. The symbol.
        name: string or path. The name of the model in an error.

    Returns:
        A `SentencePiece` message.

    Raises:
        InputError: if the symbol is a piece of text.
    """
    for found in pieces:
        if found.piece == piece:
            if found.type != kinds.CONTROL:
                raise InputError(
                    f"{name} has {piece} as a piece of text; it must be a "
                    "control symbol. Train it with another `pad_piece` or "
                    "`eos_piece`."
                )
            return found
    return kinds(piece=piece, score=0.0, type=kinds.CONTROL)
