"""Reads a model's architecture off the variables of its checkpoint.

OpenNMT-tf stores no configuration beside a checkpoint, so that names, shapes
and the graph of objects are all there is to tell the sizes, the positions, the
order of normalization and what is shared.
"""

import re
from typing import Any

from relative_attention.convert.opennmt_tf.checkpoint import OpenNMTTFCheckpoint
from relative_attention.convert.opennmt_tf.weights import OUTPUT_BIAS
from relative_attention.convert.opennmt_tf.weights import OUTPUT_KERNEL
from relative_attention.convert.opennmt_tf.weights import SOURCE_EMBEDDING
from relative_attention.convert.opennmt_tf.weights import TARGET_EMBEDDING
from relative_attention.convert.opennmt_tf.weights import position_table
from relative_attention.errors import InputError
from relative_attention.models.transformer_config import POSITION_ENCODINGS

_ATTENTION = "model/encoder/layers/0/self_attention/layer"
_TABLE = f"{_ATTENTION}/relative_position_keys"
_POSITION_ENCODER = "model/encoder/position_encoder"
# Variables of these names belong to a second source.
_MULTI_SOURCE = re.compile(
    r"model/(encoder/encoders|examples_inputter/features_inputter/inputters|"
    r"decoder/layers/\d+/attention/[1-9]\d*)/.*"
)
_RATES = {"dropout": 0.1, "attention_dropout": 0.1, "intermediate_dropout": 0.1}


def config_fields(
    checkpoint: OpenNMTTFCheckpoint,
    num_heads: int | None,
    position_encoding: str | None,
) -> dict[str, Any]:
    """Returns the architecture that a checkpoint shows.

    Args:
        checkpoint: `OpenNMTTFCheckpoint`. The checkpoint.
        num_heads, position_encoding: see `load_opennmt_tf`.

    Returns:
        Dict of arguments of `TransformerConfig`. The dropout, which nothing
        shows, is OpenNMT-tf's default.

    Raises:
        InputError: if it is another kind of model, or an argument is missing
            or contradicts the variables.
    """
    _check_kind(checkpoint)
    source_size, hidden_dim = _matrix(checkpoint, SOURCE_EMBEDDING)
    target_size, sharing = _target_and_sharing(checkpoint)
    table = None
    if checkpoint.key(_TABLE) is not None:
        table = _matrix(checkpoint, _TABLE)
    position_encoding = _position_encoding(checkpoint, position_encoding)
    fields: dict[str, Any] = {
        "vocabulary_size": target_size,
        "source_vocabulary_size": (
            None if source_size == target_size else source_size
        ),
        "share_embeddings": sharing,
        "num_encoder_layers": _count_layers(checkpoint, "encoder"),
        "num_decoder_layers": _count_layers(checkpoint, "decoder"),
        "hidden_dim": hidden_dim,
        "intermediate_dim": _matrix(
            checkpoint, "model/encoder/layers/0/ffn/layer/inner/kernel"
        )[1],
        "num_heads": _num_heads(hidden_dim, table, num_heads),
        "position_encoding": position_encoding,
        "normalize_first": (
            checkpoint.key("model/encoder/layer_norm/gamma") is not None
        ),
        # That of Keras, which OpenNMT-tf leaves as it is.
        "layer_norm_epsilon": 1e-3,
        "attention_bias": (
            checkpoint.key(f"{_ATTENTION}/linear_queries/bias") is not None
        ),
        "output_bias": checkpoint.key(OUTPUT_BIAS) is not None,
        "start_token_id": 2,
        **_RATES,
    }
    if table is not None:
        fields["max_relative_position"] = (table[0] - 1) // 2
    if "sinusoidal" in (position_encoding or ""):
        fields["first_position"] = 1
    if position_encoding == "learned":
        # The first row, of a position 0 that does not occur, is left out.
        length, _ = _matrix(checkpoint, position_table("encoder"))
        fields["max_length"] = length - 1
    return fields


def _check_kind(checkpoint: OpenNMTTFCheckpoint) -> None:
    """Refuses what is no Transformer of one source and one target."""
    if not any(name.startswith("model/") for name in checkpoint.shapes):
        raise InputError(
            f"{checkpoint.prefix} is no checkpoint of OpenNMT-tf 2: no name "
            "of a variable begins with 'model/'. (One of OpenNMT-tf 1 is "
            "brought to version 2 by OpenNMT-tf 2 itself.)"
        )
    several = sorted(filter(_MULTI_SOURCE.fullmatch, checkpoint.shapes))
    if several:
        raise InputError(
            f"{checkpoint.prefix} has more than one source ({several[0]}); "
            "only models of one source are supported."
        )
    for side in ("encoder", "decoder"):
        path = f"model/{side}/layers/0/self_attention/layer"
        if checkpoint.key(f"{path}/linear_queries/kernel") is None:
            raise InputError(
                f"{checkpoint.prefix} is no Transformer for translation: it "
                f"lacks {path}/linear_queries/kernel. OpenNMT-tf's RNNs, "
                "language models, taggers and classifiers are not supported."
            )


def _matrix(checkpoint: OpenNMTTFCheckpoint, path: str) -> tuple[int, int]:
    """Returns the rows and columns of a variable that must be a matrix."""
    shape = checkpoint.shape(path)
    if shape is None:
        raise InputError(f"{checkpoint.prefix} lacks the variable {path}.")
    if len(shape) != 2:
        raise InputError(
            f"{path} in {checkpoint.prefix} must be a matrix. Received shape: "
            f"{shape}."
        )
    num_rows, num_columns = shape
    return num_rows, num_columns


def _target_and_sharing(checkpoint: OpenNMTTFCheckpoint) -> tuple[int, str]:
    """Returns the size of the target vocabulary, and `share_embeddings`.

    The names that source embedding, target embedding and output kernel are
    stored under tell what is shared: equal names mean one variable.
    """
    source = checkpoint.key(SOURCE_EMBEDDING)
    target = _own_or_shared(checkpoint, TARGET_EMBEDDING, source)
    output = _own_or_shared(checkpoint, OUTPUT_KERNEL, target)
    if target == output:
        sharing = "all" if source == target else "target"
    else:
        sharing = "source_target" if source == target else "none"
    path = SOURCE_EMBEDDING if source == target else TARGET_EMBEDDING
    size, _ = _matrix(checkpoint, path)
    if (
        sharing == "source_target"
        # The kernel of the logits is (D, V), an embedding is (V, D).
        and _matrix(checkpoint, OUTPUT_KERNEL)
        != _matrix(checkpoint, SOURCE_EMBEDDING)[::-1]
    ):
        raise InputError(
            f"{checkpoint.prefix} lacks the variable {TARGET_EMBEDDING}: "
            f"{SOURCE_EMBEDDING} {checkpoint.shape(SOURCE_EMBEDDING)} cannot "
            f"stand for it, since {OUTPUT_KERNEL} has shape "
            f"{checkpoint.shape(OUTPUT_KERNEL)}."
        )
    return size, sharing


def _own_or_shared(
    checkpoint: OpenNMTTFCheckpoint, path: str, other: str | None
) -> str | None:
    """Returns the name of a variable, or of the one that it is shared with.

    A variable that is not stored is a shared one: the graph of objects tells
    so where there is a graph.
    """
    if checkpoint.has_object(path):
        return checkpoint.key(path)
    return checkpoint.key(path) or other


def _position_encoding(
    checkpoint: OpenNMTTFCheckpoint, given: str | None
) -> str | None:
    """Returns the positions that the checkpoint shows, or that are given."""
    is_relative = checkpoint.key(_TABLE) is not None
    is_learned = checkpoint.key(position_table("encoder")) is not None
    if is_relative and is_learned:
        raise InputError(
            f"{checkpoint.prefix} has relation tables and learned absolute "
            "positions; models with both are not supported."
        )
    if is_learned:
        without: str | None = "learned"
        with_encoder = "learned"
    elif is_relative:
        without, with_encoder = "relative", "relative+sinusoidal"
    else:
        without, with_encoder = None, "sinusoidal"
    if given != "auto":
        _check_given(checkpoint, given, (without, with_encoder))
        return given
    # A sinusoidal encoding has no variables, but is an object.
    if checkpoint.has_object(_POSITION_ENCODER):
        return with_encoder
    if without is None:
        raise InputError(
            f"{checkpoint.prefix} has neither relation tables nor a position "
            "encoder. Say which positions the model has: `position_encoding` "
            "(`--positions`) 'sinusoidal' or none."
        )
    return without


def _check_given(
    checkpoint: OpenNMTTFCheckpoint,
    given: str | None,
    possible: tuple[str | None, ...],
) -> None:
    """Refuses positions that the variables contradict."""
    if given not in possible:
        known = ", ".join(map(repr, ("auto", *POSITION_ENCODINGS)))
        raise InputError(
            f"By its variables {checkpoint.prefix} has positions "
            f"{' or '.join(map(repr, dict.fromkeys(possible)))}. Received: "
            f"position_encoding={given!r}; known: {known}."
        )


def _num_heads(
    hidden_dim: int, table: tuple[int, int] | None, given: int | None
) -> int:
    """Returns the number of heads, by the columns of a relation table.

    Every head shares one table `(2K + 1, H)`, and `N * H` is the width.
    """
    if table is None:
        if given is None:
            raise InputError(
                "The number of heads must be given (`--num-heads`): a model "
                "without relation tables does not show it. OpenNMT-tf's base "
                "models have 8, its big models 16."
            )
        if given < 1 or hidden_dim % given:
            raise InputError(
                f"The number of heads must divide the width {hidden_dim}. "
                f"Received: num_heads={given}."
            )
        return given
    num_rows, head_dim = table
    if hidden_dim % head_dim or num_rows % 2 == 0:
        raise InputError(
            "A relation table must have an odd number of rows, and columns "
            f"that divide the width {hidden_dim}. {_TABLE} has shape {table}."
        )
    num_heads = hidden_dim // head_dim
    if given not in (None, num_heads):
        raise InputError(
            f"By its relation tables the model has {num_heads} heads "
            f"({hidden_dim} / {head_dim}). Received: num_heads={given}; it "
            "need not be given."
        )
    return num_heads


def _count_layers(checkpoint: OpenNMTTFCheckpoint, side: str) -> int:
    """Returns the number of layers of `"encoder"` or `"decoder"`."""
    pattern = re.compile(rf"model/{side}/layers/(\d+)/.*")
    matches = map(pattern.fullmatch, checkpoint.shapes)
    return len({match[1] for match in matches if match})
