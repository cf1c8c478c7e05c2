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
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.layers.positions import find_names
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import assign_arrays
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import weight_name
from relative_attention.recipes.recipe import Recipe
from relative_attention.runs.checkpoint import RunCheckpoints
from relative_attention.runs.report import Report
from relative_attention.saving.model_directory import check_weights
from relative_attention.saving.model_directory import find_weights
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_vocabularies
from relative_attention.zoo import find_model

# Fields in which a model may differ from the one it starts from.
_MAY_DIFFER = (
    "vocabulary_size",
    "source_vocabulary_size",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "implementation",
)


@dataclasses.dataclass(frozen=True)
class InitialWeights:
    """A trained model to start from, checked against a recipe.

    Attributes:
        directory: The path of the model directory.
        config: Its `TransformerConfig`.
        vocabularies: A pair of source and target vocabulary, the same object
            if joint.
        keeps_vocabularies: A boolean to indicate whether the new model has
            the same vocabularies.
    """

    directory: pathlib.Path
    config: TransformerConfig
    vocabularies: tuple[AnyVocabulary, AnyVocabulary]
    keeps_vocabularies: bool

    def assign_to(
        self,
        model: Transformer,
        source_vocabulary: AnyVocabulary,
        target_vocabulary: AnyVocabulary,
        report: Report,
    ) -> None:
        """Copies the weights of the old model to a new one.

        This includes the rows of pieces that are in both vocabularies, in
        embeddings and in the bias of the logits. See `_parts_of_pieces` for
        the others.
        """
        path = self.directory / "model.safetensors"
        arrays = load_arrays(path)
        report(
            f"weights: {model.count_params():,}, started from {self.directory}"
        )
        if self.keeps_vocabularies:
            report("vocabulary: that of the model started from")
        else:
            self._transfer_rows(
                arrays, model, (source_vocabulary, target_vocabulary), report
            )
        assign_arrays(model.weights, arrays, path)

    def _transfer_rows(
        self,
        arrays: dict[str, np.ndarray],
        model: Transformer,
        new: tuple[AnyVocabulary, AnyVocabulary],
        report: Report,
    ) -> None:
        """Replaces arrays that have a row per old piece."""
        names = {0: "source vocabulary", 1: "target vocabulary"}
        if new[0] is new[1]:
            names = {1: "vocabulary"}
        parts = {}
        for side, name in names.items():
            # The start of a sentence is the same token in both.
            start = model.config.start_token_id if side == 1 else 0
            parts[side] = _parts_of_pieces(
                self.vocabularies[side], new[side], start
            )
            report(f"{name}: {_counts(parts[side], len(new[side]))}")
        sides = {
            weight_name(embedding.embeddings): (embedding.embeddings, side)
            for embedding, side in (
                (model.source_embedding, 0),
                (model.target_embedding, 1),
                (model.output_embedding, 1),
            )
        }
        if model.output_bias is not None:
            sides[weight_name(model.output_bias)] = (model.output_bias, 1)
        for name, (variable, side) in sides.items():
            old = arrays.get(name)
            if old is not None and len(old) == len(self.vocabularies[side]):
                # The new initial values, of which some rows stay.
                rows = np.array(variable)
                for token_id, ids in parts.get(side, parts[1]).items():
                    rows[token_id] = old[ids].mean(axis=0, dtype=np.float64)
                arrays[name] = rows


def _counts(parts: Mapping[int, list[int]], size: int) -> str:
    """Describes how many pieces of a new vocabulary get which rows."""
    num_spelt = sum(len(ids) > 1 for ids in parts.values())
    copied, spelt, rest = (
        f"{count:,} ({count / size:.1%})"
        for count in (len(parts) - num_spelt, num_spelt, size - len(parts))
    )
    return (
        f"of {size:,} pieces, {copied} keep their rows, {spelt} get the mean "
        f"of the pieces that spell them, {rest} start untrained"
    )


def _parts_of_pieces(
    old: AnyVocabulary, new: AnyVocabulary, start_token_id: int
) -> dict[int, list[int]]:
    """Returns, for each new piece, the old ids whose rows are averaged.

    A piece in both vocabularies keeps its row. Others are split into the
    longest old pieces; those that cannot be split have no entry, and keep the
    initial values of the new model.
    """
    # With the old pieces `the`, `cat` and `s`, `the` is copied, `cats` gets the
    # mean of the rows of `cat` and `s`, and `dog` keeps its initial values.
    old_ids: dict[str, int] = {}
    for token_id, piece in enumerate(old.pieces(range(len(old)))):
        # If a piece occurs twice, the first is used.
        old_ids.setdefault(piece, token_id)
    # No longer part can be found.
    longest = max(map(len, old_ids))
    parts = {
        token_id: _spell(piece, old_ids, longest)
        for token_id, piece in enumerate(new.pieces(range(len(new))))
    }
    # Padding, end of sentence and start are matched by their ids.
    for token_id in (old.padding_id, new.end_id, start_token_id):
        parts[token_id] = [token_id]
    return {token_id: ids for token_id, ids in parts.items() if ids}


def _spell(piece: str, ids: Mapping[str, int], longest: int) -> list[int]:
    """Splits a piece into the longest old pieces; `[]` if impossible."""
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


# === What a recipe may start from ===


def find_initial_weights(
    recipe: Recipe,
    output: pathlib.Path,
    resume: bool = False,
    known: Mapping[str, str] | None = None,
) -> InitialWeights | None:
    """Returns the model that `training.start_from` names, checked.

    `None` if it names none, or if the resumed run has checkpoints. `known` are
    the names of models, and their paths when the run was started.
    """
    name = recipe.training.start_from
    has_started = resume and RunCheckpoints(output).all()
    if name is None or has_started:
        return None
    directory = pathlib.Path((known or {}).get(name) or name)
    if directory.resolve() == output.resolve():
        raise InputError(
            f"`training.start_from` is {directory}, the folder of this run. "
            "Choose another `--output`; to resume the run, pass "
            "`--resume`."
        )
    try:
        directory = find_model(directory)
    except InputError as error:
        raise InputError(
            f"No model to start from (`training.start_from`): {error}"
        ) from error
    config, _ = load_config(directory)
    # Before hours of preparing: a file that does not fit fails now.
    check_weights(config, find_weights(directory))
    vocabularies = load_vocabularies(directory)
    keeps = recipe.vocabulary.from_start
    for vocabulary in vocabularies:
        _check_vocabulary(directory, vocabulary, keeps, recipe.data.tokenized)
    return InitialWeights(directory, config, vocabularies, keeps)


def _check_vocabulary(
    directory: pathlib.Path,
    vocabulary: AnyVocabulary,
    keeps: bool,
    tokenized: bool,
) -> None:
    """Raises `InputError` unless the vocabulary or its rows can be kept."""
    if keeps and tokenized:
        if (
            not isinstance(vocabulary, TokenVocabulary)
            or vocabulary.tokenizer is not None
            or vocabulary.start
            or not vocabulary.end
        ):
            raise InputError(
                "The texts are pre-tokenized (`data.tokenized`), but the "
                f"vocabulary of {directory} is no list of tokens with an end "
                "of sentence. Give texts that are not tokenized, or train "
                "without `training.start_from`."
            )
    elif keeps and isinstance(vocabulary, TokenVocabulary):
        raise InputError(
            f"The vocabulary of {directory} is a list of tokens, which "
            "training reads only where texts are pre-tokenized "
            "(`data.tokenized`). Set `vocabulary.from_start: false` to learn "
            "a new one; the rows of the pieces that both have are kept."
        )
    elif isinstance(vocabulary, TokenVocabulary):
        if vocabulary.tokenizer is None:
            raise InputError(
                f"The vocabulary of {directory} is a list of words without a "
                "SentencePiece model: its words are no pieces, and no rows "
                "could be kept. Convert the model with `--tokenizer`, or "
                "start from another."
            )
    elif isinstance(vocabulary, SubwordVocabulary) and not keeps:
        raise InputError(
            f"The vocabulary of {directory} has the subwords of tensor2tensor, "
            "which mark where words end; the pieces of a new one mark where "
            "they begin, so no rows could be kept. Set "
            "`vocabulary.from_start: true` to train with the subwords."
        )


def with_values_of_start(
    recipe: Recipe,
    start: InitialWeights | None,
    run: pathlib.Path | None,
    report: Report,
) -> Recipe:
    """Returns the recipe with the architecture of the model it starts from.

    A bundled model has sizes that only its own recipe has. Fields that decide
    no shape, such as dropout, keep the values of `recipe`.

    Args:
        recipe: A `Recipe`.
        start: The `InitialWeights`, or `None`.
        run: The path of the run to resume, whose architecture is kept, or
            `None`.
        report: A function to call with a line about what is replaced.

    Raises:
        InputError: if a value of the command line contradicts the model.
    """
    if start is None:
        if recipe.training.start_from is None or run is None:
            return recipe
        # The run has weights of its own, and the architecture in its recipe.
        before = Recipe.load(run / "recipe.yaml")
        values: dict[str, Any] = {
            f"model.{name}": value
            for name, value in before.model.items()
            if name not in ("preset", *_MAY_DIFFER)
        }
        values["vocabulary.joint"] = before.vocabulary.joint
        # What the user gives is compared with the run's by
        # `_check_same_recipe`.
        values = {k: v for k, v in values.items() if not recipe.is_given(k)}
        return recipe.replace(values)
    is_joint = start.vocabularies[0] is start.vocabularies[1]
    config = start.config
    size = config.vocabulary_size
    source_size = None if is_joint else config.source_vocabulary_size or size
    # The config of a recipe depends on it.
    sections = recipe.replace({"vocabulary.joint": is_joint})
    now = _architecture(sections.model_config(size, source_size))
    wanted = _architecture(config)
    values = {
        f"model.{name}": getattr(config, name)
        for name, value in wanted.items()
        if now[name] != value
    }
    if recipe.vocabulary.joint != is_joint:
        values["vocabulary.joint"] = is_joint
    shown = {
        **{f"model.{name}": (now[name], wanted[name]) for name in wanted},
        "vocabulary.joint": (recipe.vocabulary.joint, is_joint),
    }
    different = []
    # A preset's values may differ; only those that a user wrote count.
    for key in filter(recipe.is_given, values):
        own, there = shown[key]
        different.append(
            f"`{key}` is {own!r} in the recipe and {there!r} there"
        )
    if different:
        raise InputError(
            f"The model of the recipe is not that of {start.directory}, the "
            f"model to start from: {'; '.join(different)}. Leave these out, "
            "or train without `training.start_from`."
        )
    if values:
        told = ", ".join(
            f"{key} {value}"
            for key, value in values.items()
            # The others have no effect, or follow from these.
            if value is not None and shown[key][1] is not None
        )
        report(f"architecture: that of {start.directory}, with {told}")
    return recipe.replace(values)


def _architecture(config: TransformerConfig) -> dict[str, Any]:
    """Returns the fields of a config that its weights depend on."""
    fields = dataclasses.asdict(config)
    # Defaults that depend on other fields count as if they were given.
    fields["key_dim"] = config.head_dim
    fields["value_dim"] = config.value_dim or config.head_dim
    # A field without effect may have any value.
    unused = set().union(*map(_position_fields, POSITION_ENCODINGS))
    # Encodings may share a field.
    unused -= _position_fields(config.position_encoding)
    return {
        name: None if name in unused else value
        for name, value in fields.items()
        if name not in _MAY_DIFFER
    }


def _position_fields(name: str | None) -> set[str]:
    """Returns the fields of a config that a position encoding uses."""
    names = find_names(name)
    fields = set(names.attention_class().config_fields)
    on_embeddings = names.embedding_class()
    if on_embeddings is not None:
        fields |= {*on_embeddings.config_fields, "first_position"}
    return fields
