"""Training that starts from the weights of another model."""

import dataclasses
import pathlib

from relative_attention.data import SubwordVocabulary
from relative_attention.data import TokenVocabulary
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.models.weights import load_arrays
from relative_attention.models.weights import weight_name
from relative_attention.runs.piece_rows import PieceRows
from relative_attention.saving.model_config import load_config
from relative_attention.saving.vocabulary_files import load_vocabularies
from relative_attention.saving.vocabulary_files import save_vocabularies
from relative_attention.saving.zoo import find_model
from relative_attention.training import RunCheckpoints

# What a model may have otherwise than the one that it starts from.
_MAY_DIFFER = (
    "vocabulary_size",
    "source_vocabulary_size",
    "dropout",
    "attention_dropout",
    "intermediate_dropout",
    "implementation",
)


@dataclasses.dataclass(frozen=True)
class Start:
    """A model to start from, checked against a recipe; see `load_start`.

    Attributes:
        directory: `pathlib.Path` of the model directory.
        config: `TransformerConfig` of the model.
        vocabularies: Pair of source and target vocabulary, the same object
            where it is joint.
        keeps_vocabularies: Whether the new model has the same vocabularies.
    """

    directory: pathlib.Path
    config: TransformerConfig
    vocabularies: tuple
    keeps_vocabularies: bool

    def copy_vocabularies(self, directory):
        """Write the vocabularies to a run, if it is to have the same."""
        if self.keeps_vocabularies:
            save_vocabularies(*self.vocabularies, directory)

    def put_weights(self, model, source_vocabulary, target_vocabulary):
        """Give a new model the weights of the old one.

        Everything but the rows of the vocabularies, embeddings and the bias
        of the logits, is copied. So are the rows of pieces that both models
        have; see `PieceRows` for the others.

        Args:
            model: `Transformer`, with initial weights.
            source_vocabulary, target_vocabulary: vocabularies of `model`, the
                same object where it is joint.

        Returns:
            List of strings, lines for the log.

        Raises:
            InputError: if the file of the weights is damaged or does not fit;
                nothing of the model is changed then.
        """
        path = self.directory / "model.safetensors"
        arrays = load_arrays(path)
        rows = self._rows(source_vocabulary, target_vocabulary)
        sides = _sides(model)
        values = []
        for variable in model.weights:
            name = weight_name(variable)
            array = arrays.pop(name, None)
            side = sides.get(name)
            shape = tuple(variable.shape)
            if array is not None and side is not None and rows is not None:
                if len(array) == len(self.vocabularies[side]):
                    array = rows[side].of(array, variable)
            if array is None or array.shape != shape:
                received = "none" if array is None else array.shape
                raise InputError(
                    f"{path} does not fit the model: {name} must have shape "
                    f"{shape}. Received: {received}."
                )
            values.append((variable, array))
        if arrays:
            raise InputError(
                f"{path} does not fit the model, which has no "
                f"{', '.join(sorted(arrays)[:3])}."
            )
        for variable, array in values:
            variable.assign(array)
        return self._report(model, rows)

    def _rows(self, source_vocabulary, target_vocabulary):
        """`PieceRows` of both sides, or `None` where no row changes."""
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

    def _report(self, model, rows):
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


def load_start(recipe, output, resume=False, known=None):
    """What `training.start_from` of a recipe names, checked before any work.

    Args:
        recipe: `Recipe`.
        output: path of the run.
        resume: bool. Whether to go on with the run in `output`. One that has
            checkpoints has started already.
        known: dict of strings, names of models and the paths that they stood
            for when the run was begun. Defaults to `None`, none.

    Returns:
        `Start`, or `None` where the recipe names nothing, or there is nothing
        to be started.

    Raises:
        InputError: if there is no such model, it is the run itself, it has
            another architecture, or its vocabulary cannot be used.
    """
    has_started = resume and RunCheckpoints(output).all()
    if recipe.training.start_from is None or has_started:
        return None
    name = recipe.training.start_from
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
    return Start(directory, config, vocabularies, keeps)


def _check_vocabulary(directory, vocabulary, keeps, tokenized):
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


def _check_tokens(directory, vocabulary):
    """Whether texts that are tokenised already can be read with it."""
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


def _check_architecture(recipe, directory, config, vocabularies):
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


def _architecture(config):
    """The fields of a config that decide what its weights mean."""
    fields = {
        name: value
        for name, value in dataclasses.asdict(config).items()
        if name not in _MAY_DIFFER
    }
    # What is left to follow from another field is as good as written down.
    fields["key_dim"] = config.head_dim
    fields["value_dim"] = config.value_dim or config.head_dim
    unused = []
    if not config.is_relative:
        unused += [
            "max_relative_position",
            "share_relations_across_heads",
            "use_key_relations",
            "use_value_relations",
        ]
    if config.position_encoding != "learned":
        unused.append("max_length")
    if config.position_encoding in ("relative", None):
        unused.append("first_position")
    return {
        name: None if name in unused else value
        for name, value in fields.items()
    }


def _sides(model):
    """Which vocabulary the rows of a weight are of: 0 source, 1 target."""
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
