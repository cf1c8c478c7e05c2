"""Finds the embedding matrices of a tensor2tensor checkpoint.

tensor2tensor keeps each matrix as horizontal shards (16 of them by default),
variables named `weights_0`, `weights_1` and so on, under a scope that tells the
size of the vocabulary, the width and what the matrix is for:

    transformer/symbol_modality_32768_512/shared/weights_3
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import TypeAlias

from relative_attention.errors import InputError

_SHARD = re.compile(
    r"(?P<scope>(?P<model>.+)/symbol_modality_(?P<rows>\d+)_(?P<dim>\d+)"
    r"/(?P<use>shared|input_emb|target_emb|softmax))/weights_(?P<index>\d+)"
)

# What a shard's name says, and the shape of the shard.
_Shard: TypeAlias = tuple[re.Match[str], tuple[int, ...]]

# Which matrices there are decides what is shared.
_SHARING = {
    ("shared",): "all",
    ("shared", "softmax"): "source_target",
    ("input_emb", "softmax", "target_emb"): "none",
}


@dataclasses.dataclass(frozen=True)
class EmbeddingShards:
    """Describes a matrix that lies in the checkpoint in horizontal shards.

    Attributes:
        scope: The name of the variables, without `/weights_INDEX`.
        num_rows: The rows of all, which is the size of the vocabulary.
        num_columns: The columns of each.
        names: The names of the variables, in the order of the rows.
    """

    scope: str
    num_rows: int
    num_columns: int
    names: tuple[str, ...]


@dataclasses.dataclass(frozen=True)
class Embeddings:
    """Describes the embeddings of a checkpoint, and what they share.

    Attributes:
        model_scope: The scope of the whole model, `"transformer"` as a rule.
        sharing: A value of `TransformerConfig.share_embeddings`.
        source, target, output: `EmbeddingShards`, which are one object where
            the matrix is shared.
    """

    model_scope: str
    sharing: str
    source: EmbeddingShards
    target: EmbeddingShards
    output: EmbeddingShards


def find_embeddings(shapes: Mapping[str, tuple[int, ...]]) -> Embeddings:
    """Finds the embeddings among the variables of a checkpoint.

    Args:
        shapes: dict of variable name -> shape.

    Returns:
        `Embeddings`.

    Raises:
        InputError: if there are none, a shard is missing or has the wrong
            shape, or they make up no model of this package.
    """
    shards: dict[str, dict[int, _Shard]] = {}
    for name, shape in shapes.items():
        # The slots of the optimizer have the names of their variables.
        match = _SHARD.fullmatch(name)
        if match and not name.startswith("training/"):
            index = int(match["index"])
            shards.setdefault(match["use"], {})[index] = (match, shape)
    by_use = {use: _join(parts) for use, parts in shards.items()}
    uses = tuple(sorted(by_use))
    if uses not in _SHARING:
        known = "; ".join(" + ".join(known) for known in _SHARING)
        raise InputError(
            "The checkpoint must hold the symbol embeddings of tensor2tensor's "
            f"Transformer under .../symbol_modality_VOCABULARY_HIDDEN/: {known}"
            f". Received: {' + '.join(uses) or 'none'}."
        )
    first_match, _ = next(iter(next(iter(shards.values())).values()))
    return Embeddings(
        model_scope=first_match["model"],
        sharing=_SHARING[uses],
        source=by_use["shared" if "shared" in uses else "input_emb"],
        target=by_use["shared" if "shared" in uses else "target_emb"],
        output=by_use["softmax" if "softmax" in uses else "shared"],
    )


def _join(parts: Mapping[int, _Shard]) -> EmbeddingShards:
    """Joins the shards of one matrix, given by their index, in order.

    Raises:
        InputError: if one is missing, or they do not make up one matrix.
    """
    match, _ = next(iter(parts.values()))
    scope, num_rows, dim = match["scope"], int(match["rows"]), int(match["dim"])
    for index in range(max(parts) + 1):
        if index not in parts:
            raise InputError(
                f"The checkpoint lacks the variable {scope}/weights_{index}."
            )
    for match, shape in parts.values():
        if match["scope"] != scope:
            raise InputError(
                f"The checkpoint holds embeddings of two sizes, {scope} and "
                f"{match['scope']}; one model has one."
            )
        if len(shape) != 2 or shape[1] != dim:
            raise InputError(
                f"The variable {match[0]} must have {dim} columns, as its name "
                f"says. Received shape: {shape}."
            )
    found = sum(shape[0] for _, shape in parts.values())
    if found != num_rows:
        raise InputError(
            f"The shards {scope}/weights_0 to weights_{max(parts)} have "
            f"{found} rows, not the {num_rows} of the name: shards are missing."
        )
    names = tuple(parts[index][0][0] for index in sorted(parts))
    return EmbeddingShards(scope, num_rows, dim, names)
