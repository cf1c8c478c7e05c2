"""Starts training from the weights of another model."""

import dataclasses
import pathlib
from collections.abc import Mapping
from typing import Any

import numpy as np

from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import weight_name
from relative_attention.positions import POSITION_ENCODINGS
from relative_attention.runs.recipe import Recipe
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_vocabularies
from relative_attention.saving.model_directory import save_vocabularies
from relative_attention.tensor_type import Tensor
from relative_attention.training import RunCheckpoints
from relative_attention.zoo import find_model


class PieceRows:
    """Tells where the rows of a new vocabulary's pieces come from.

    A piece that both vocabularies have keeps its row. Another one that the
    longest pieces of the old vocabulary spell, from left to right and without
    single bytes, gets the mean of their rows. The rest keep the initial values
    of the new model.

    With the old pieces `the`, `cat` and `s`, `the` is copied, `cats` gets the
    mean of the rows of `cat` and `s`, and `dog` keeps its initial values.

    Attributes:
        copied: A dict, the old id of each new id whose row is copied.
        spelt: A dict, the old ids of the parts of each new id that gets
            their mean.
    """

    def __init__(
        self, old: AnyVocabulary, new: AnyVocabulary, start_token_id: int = 0
    ) -> None:
        old_ids: dict[str, int] = {}
        for token_id, piece in enumerate(old.pieces(range(len(old)))):
            # Of a piece that stands twice the first is the one in use.
            old_ids.setdefault(piece, token_id)
        pieces = new.pieces(range(len(new)))
        self.size = len(new)
        self.copied = {
            token_id: old_ids[piece]
            for token_id, piece in enumerate(pieces)
            if piece in old_ids
        }
        # Padding, end of sentence and start are known by their ids.
        for token_id in (old.padding_id, new.end_id, start_token_id):
            self.copied[token_id] = token_id
        longest = max(map(len, old_ids))
        self.spelt: dict[int, list[int]] = {}
        for token_id, piece in enumerate(pieces):
            if token_id not in self.copied:
                parts = _spell(piece, old_ids, longest)
                if parts:
                    self.spelt[token_id] = parts

    def transfer(self, old_rows: Tensor, new_rows: Tensor) -> np.ndarray:
        """Returns the rows of the new vocabulary."""
        rows = np.array(new_rows)
        rows[list(self.copied)] = old_rows[list(self.copied.values())]
        for token_id, parts in self.spelt.items():
            rows[token_id] = old_rows[parts].mean(axis=0, dtype=np.float64)
        return rows

    def __str__(self) -> str:
        counts = [len(self.copied), len(self.spelt)]
        counts.append(self.size - sum(counts))
        copied, spelt, rest = (
            f"{count:,} ({count / self.size:.1%})" for count in counts
        )
        return (
            f"of {self.size:,} pieces, {copied} keep their rows, {spelt} get "
            f"the mean of the pieces that spell them, {rest} start untrained"
        )


def _spell(piece: str, ids: Mapping[str, int], longest: int) -> list[int]:
    """Returns the ids of the longest pieces that spell a piece, or `[]`."""
    parts = []
    start = 0
    while start < len(piece):
        for end in range(min(start + longest, len(piece)), start, -1):
            if piece[start:end] in ids:
                break
        else:
            return []
        parts.append(ids[piece[start:end]])
        start = end
    return parts


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A trained model to start from, checked against a recipe.

    Attributes:
        directory: The path of the model directory.
        config: The `TransformerConfig` of the model.
        vocabularies: A pair of source and target vocabulary, the same object
            where it is joint.
        keeps_vocabularies: A boolean to indicate whether the new model has
            the same vocabularies.
    """

    directory: pathlib.Path
    config: TransformerConfig
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    keeps_vocabularies: bool

    def copy_vocabularies(self, directory: pathlib.Path) -> None:
        """Writes the vocabularies to a run, if it is to have the same."""
        if self.keeps_vocabularies:
            save_vocabularies(*self.vocabularies, directory)

    def assign_to(
        self,
        model: Transformer,
        source_vocabulary: AnyVocabulary,
        target_vocabulary: AnyVocabulary,
    ) -> list[str]:
        """Gives a new model the weights of the old one.

        Everything but the rows of the vocabularies, embeddings and the bias
        of the logits, is copied. So are the rows of pieces that both models
        have; see `PieceRows` for the others.
        """
        path = self.directory / "model.safetensors"
        rows = self._rows(source_vocabulary, target_vocabulary)
        values = self._fitting(path, load_arrays(path), model, rows)
        for variable, array in zip(model.weights, values):
            variable.assign(array)
        return self._report(model, rows)

    def _fitting(
        self,
        path: pathlib.Path,
        arrays: dict[str, np.ndarray],
        model: Transformer,
        rows: tuple[PieceRows, PieceRows] | None,
    ) -> list[np.ndarray]:
        """Returns an array for each weight of the model, or says what lacks."""
        sides = _sides(model)
        values = []
        for variable in model.weights:
            name = weight_name(variable)
            array = arrays.pop(name, None)
            side = sides.get(name)
            shape = tuple(variable.shape)
            if array is not None and side is not None and rows is not None:
                if len(array) == len(self.vocabularies[side]):
                    array = rows[side].transfer(array, variable)
            if array is None or array.shape != shape:
                received = "none" if array is None else array.shape
                raise InputError(
                    f"{path} does not fit the model: {name} must have shape "
                    f"{shape}. Received: {received}."
                )
            values.append(array)
        if arrays:
            raise InputError(
                f"{path} does not fit the model, which has no "
                f"{', '.join(sorted(arrays)[:3])}."
            )
        return values

    def _rows(
        self, source_vocabulary: AnyVocabulary, target_vocabulary: AnyVocabulary
    ) -> tuple[PieceRows, PieceRows] | None:
        """Returns the `PieceRows` of both sides, `None` if no row changes."""
        if self.keeps_vocabularies:
            return None
        old_source, old_target = self.vocabularies
        target = PieceRows(
            old_target,
            target_vocabulary,
            # The start of a sentence is the same, however it is spelt.
            self.config.start_token_id,
        )
        if source_vocabulary is target_vocabulary:
            return target, target
        return PieceRows(old_source, source_vocabulary), target

    def _report(
        self, model: Transformer, rows: tuple[PieceRows, PieceRows] | None
    ) -> list[str]:
        lines = [
            f"weights: {model.count_params():,}, started from {self.directory}"
        ]
        if rows is None:
            return [*lines, "vocabulary: that of the model started from"]
        if rows[0] is rows[1]:
            return [*lines, f"vocabulary: {rows[0]}"]
        return [
            *lines,
            f"source vocabulary: {rows[0]}",
            f"target vocabulary: {rows[1]}",
        ]


def find_initial_weights(
    recipe: Recipe,
    output: pathlib.Path | str,
    resume: bool = False,
    known: Mapping[str, str] | None = None,
) -> InitialWeights | None:
    """Returns the model that `training.start_from` names, checked.

    `None` where it names none, or the run that is resumed has checkpoints.
    `known` are the names of models, and their paths when the run was started.
    """
    name = recipe.training.start_from
    has_started = resume and RunCheckpoints(output).all()
    if name is None or has_started:
        return None
    directory = pathlib.Path((known or {}).get(name) or name)
    if directory.resolve() == pathlib.Path(output).resolve():
        raise InputError(
            f"`training.start_from` is {directory}, the folder of this run. "
            "Choose another `--output`; to go on with the run, pass "
            "`--resume`."
        )
    try:
        directory = find_model(directory)
    except InputError as error:
        raise InputError(
            f"No model to start from (`training.start_from`): {error}"
        ) from error
    config, _ = load_config(directory)
    if not (directory / "model.safetensors").is_file():
        raise InputError(f"No weights at {directory / 'model.safetensors'}.")
    vocabularies = load_vocabularies(directory)
    keeps = recipe.vocabulary.from_start
    for vocabulary in vocabularies:
        _check_vocabulary(directory, vocabulary, keeps, recipe.data.tokenized)
    _check_architecture(recipe, directory, config, vocabularies)
    return InitialWeights(directory, config, vocabularies, keeps)


def _sides(model: Transformer) -> dict[str, int]:
    """Returns whose rows a weight has: 0 for source, 1 for target."""
    sides = {
        weight_name(embedding.embeddings): side
        for embedding, side in (
            (model.source_embedding, 0),
            (model.target_embedding, 1),
            (model.output_embedding, 1),
        )
    }
    if model.output_bias is not None:
        sides[weight_name(model.output_bias)] = 1
    return sides


# What a model may have otherwise than the one that it starts from.
_MAY_DIFFER = (
    "vocabulary_size",
    "source_vocabulary_size",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "implementation",
)


def _check_vocabulary(
    directory: pathlib.Path,
    vocabulary: AnyVocabulary,
    keeps: bool,
    tokenized: bool,
) -> None:
    """Raises `InputError` unless a vocabulary can be kept, or its rows can."""
    if keeps and tokenized:
        _check_tokens(directory, vocabulary)
        return
    if isinstance(vocabulary, TokenVocabulary):
        if keeps:
            raise InputError(
                f"The vocabulary of {directory} is a list of tokens, which "
                "training reads only where texts are tokenised already "
                "(`data.tokenized`). Set `vocabulary.from_start: false` to "
                "learn a new one; the rows of the pieces that both have are "
                "kept."
            )
        if vocabulary.tokenizer is None:
            raise InputError(
                f"The vocabulary of {directory} is a list of words without a "
                "SentencePiece model: its words are no pieces, and no rows "
                "could be kept. Convert the model with `--tokenizer`, or "
                "start from another."
            )
    if isinstance(vocabulary, SubwordVocabulary) and not keeps:
        raise InputError(
            f"The vocabulary of {directory} has the subwords of tensor2tensor, "
            "which mark where words end; the pieces of a new one mark where "
            "they begin, so no rows could be kept. Set "
            "`vocabulary.from_start: true` to train with the subwords."
        )


def _check_architecture(
    recipe: Recipe,
    directory: pathlib.Path,
    config: TransformerConfig,
    vocabularies: tuple[AnyVocabulary, AnyVocabulary],
) -> None:
    """Raises `InputError` unless a model has the architecture of a recipe."""
    is_joint = vocabularies[0] is vocabularies[1]
    if recipe.vocabulary.joint != is_joint:
        raise InputError(
            f"`vocabulary.joint` is {recipe.vocabulary.joint} in the recipe "
            f"and {is_joint} in {directory}, the model to start from. Set "
            f"`vocabulary.joint={str(is_joint).lower()}`."
        )
    size = config.vocabulary_size
    source_size = None if is_joint else config.source_vocabulary_size or size
    now = _architecture(recipe.model_config(size, source_size))
    before = _architecture(config)
    different = [name for name in before if before[name] != now[name]]
    if different:
        raise InputError(
            f"The model of the recipe is not that of {directory}, the model "
            "to start from: "
            + "; ".join(
                f"`model.{name}` is {now[name]!r} in the recipe and "
                f"{before[name]!r} there"
                for name in different
            )
            + ". Give the recipe the same values, or train without "
            "`training.start_from`."
        )


def _check_tokens(directory: pathlib.Path, vocabulary: AnyVocabulary) -> None:
    """Raises unless the vocabulary can read pre-tokenized texts."""
    if (
        not isinstance(vocabulary, TokenVocabulary)
        or vocabulary.tokenizer is not None
        or vocabulary.start
        or not vocabulary.end
    ):
        raise InputError(
            f"The texts are tokenised already (`data.tokenized`), and the "
            f"vocabulary of {directory} is no list of tokens with an end of "
            "sentence. Give texts that are not tokenised, or train without "
            "`training.start_from`."
        )


def _architecture(config: TransformerConfig) -> dict[str, Any]:
    """Returns the fields of a config that decide what its weights mean."""
    fields = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if name not in _MAY_DIFFER
    }
    # What is left to follow from another field is as good as written down.
    fields["key_dim"] = config.head_dim
    fields["value_dim"] = config.value_dim or config.head_dim
    # A field without effect may have any value.
    unused = set().union(*map(_position_fields, POSITION_ENCODINGS))
    unused -= _position_fields(config.position_encoding)
    return {
        name: None if name in unused else value
        for name, value in fields.items()
    }


def _position_fields(name: str | None) -> set[str]:
    """Returns the fields of a config that a position encoding uses."""
    names = POSITION_ENCODINGS[name]
    fields = set(names.attention_class().config_fields)
    on_embeddings = names.embedding_class()
    if on_embeddings is not None:
        fields |= {*on_embeddings.config_fields, "first_position"}
    return fields
