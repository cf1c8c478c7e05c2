"""SentencePiece models whose pieces are given, and texts in their ids."""

import numpy as np

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


def encoded(lines, vocabulary):
    """A `TokenCorpus` in memory, with the lines on both sides."""
    rows = vocabulary.encode(lines)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    ids = np.array([i for row in rows for i in row], np.uint16)
    return ra.TokenCorpus(
        source_ids=ids,
        source_offsets=offsets.astype(np.uint32),
        target_ids=ids,
        target_offsets=offsets.astype(np.uint32),
        line_numbers=np.arange(len(lines)) + 1,
        num_empty=0,
        num_too_long=0,
    )


def rows_of(corpus, side):
    """Lists of the ids of each sentence of one side."""
    ids = getattr(corpus, f"{side}_ids")
    offsets = getattr(corpus, f"{side}_offsets")
    return [ids[start:end].tolist() for start, end in zip(offsets, offsets[1:])]
