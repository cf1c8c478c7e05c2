"""Starts training from the weights of another model."""

import dataclasses
import pathlib
from collections.abc import Mapping

import numpy as np

from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import weight_name
from relative_attention.runs.initial_weights_checks import check_architecture
from relative_attention.runs.initial_weights_checks import check_vocabulary
from relative_attention.runs.piece_rows import PieceRows
from relative_attention.runs.recipe import Recipe
from relative_attention.saving.model_directory import load_config
from relative_attention.saving.model_directory import load_vocabularies
from relative_attention.saving.model_directory import save_vocabularies
from relative_attention.training import RunCheckpoints
from relative_attention.zoo import find_model


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
        """Writes the vocabularies to a run, if it is to have the same.

        Args:
            directory: The path of the run.
        """
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

        Args:
            model: A `Transformer`, with random initial weights.
            source_vocabulary: The vocabulary of the new model's source.
            target_vocabulary: That of its target, the same object where it is
                joint.

        Returns:
            A list of strings, lines for the log.

        Raises:
            InputError: if the file of the weights is damaged or does not fit;
                nothing of the model is changed then.
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

    Args:
        recipe: A `Recipe`.
        output: The path of the run.
        resume: A boolean to indicate whether to go on with the run in
            `output`. One that has checkpoints has started already.
        known: A dict of strings, names of models and the paths that they
            stood for when the run was begun. Defaults to `None`.

    Returns:
        `InitialWeights`, or `None` where the recipe names no model, or the
        run has started already.

    Raises:
        InputError: if there is no such model, it is the run itself, it has
            another architecture, or its vocabulary cannot be used.
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
        check_vocabulary(directory, vocabulary, keeps, recipe.data.tokenized)
    check_architecture(recipe, directory, config, vocabularies)
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
