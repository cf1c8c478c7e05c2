"""SentencePiece models whose pieces are given, and texts in their ids."""

import io

import sentencepiece

import relative_attention as ra


def model_of(pieces, model_type="BPE", **kinds):
    """A vocabulary of these pieces, the first merged first.

    Args:
        pieces: the pieces of text; their ids begin with 3.
        model_type: what the model says that it is.
        **kinds: the kind of a piece that is no normal one, by its name.
    """
    from sentencepiece import sentencepiece_model_pb2

    proto = sentencepiece_model_pb2.ModelProto()
    spec = proto.trainer_spec
    spec.model_type = spec.ModelType.Value(model_type)
    spec.pad_id, spec.eos_id, spec.unk_id, spec.bos_id = 0, 1, 2, -1
    spec.vocab_size = 3 + len(pieces)
    proto.normalizer_spec.name = "identity"
    proto.normalizer_spec.add_dummy_prefix = False
    proto.normalizer_spec.remove_extra_whitespaces = False
    kinds = {"<pad>": "CONTROL", "</s>": "CONTROL", "<unk>": "UNKNOWN", **kinds}
    for number, piece in enumerate(("<pad>", "</s>", "<unk>", *pieces)):
        proto.pieces.add(
            piece=piece,
            score=-number,
            type=proto.SentencePiece.Type.Value(kinds.get(piece, "NORMAL")),
        )
    return ra.Vocabulary(proto.SerializeToString())


def trained_model(lines, **options):
    """The bytes of a model that SentencePiece's own trainer makes."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        hard_vocab_limit=False,
        minloglevel=2,
        **options,
    )
    return model.getvalue()
