"""SentencePiece models of other makers, with this package's ids."""

from relative_attention.errors import InputError

_PADDING, _END = "<pad>", "</s>"


def with_our_ids(model, name):
    """The same pieces, with padding at 0, end of sentence 1 and unknown 2.

    Which pieces spell a text does not depend on their ids. Padding, which
    most models lack, is added; what a model has else before its pieces, such
    as a start of sentence, stays a piece that no text is spelt with.

    Args:
        model: bytes. A serialised SentencePiece model.
        name: what to call it in an error.

    Returns:
        bytes.

    Raises:
        InputError: if it is no SentencePiece model.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
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


def _control(pieces, kinds, piece, name):
    """The piece of this name that stands for no text, made if it is not."""
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
