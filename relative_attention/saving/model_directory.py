"""Loads and saves a trained model: one folder with all it needs.

`config.json`         architecture, and how to translate
`model.safetensors`   weights
`vocabulary.*`        or `source_vocabulary.*` and `target_vocabulary.*`
`results.json`        scores, where a run was finished
"""

import copy
import dataclasses
import hashlib
import importlib
import json
import pathlib
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from safetensors import SafetensorError
from safetensors import safe_open

from relative_attention.data.vocabulary_kinds import VOCABULARY_KINDS
from relative_attention.data.vocabulary_kinds import AnyVocabulary
from relative_attention.data.vocabulary_kinds import check_vocabulary_fits
from relative_attention.data.vocabulary_kinds import is_same_vocabulary
from relative_attention.data.vocabulary_kinds import vocabulary_suffix
from relative_attention.decoding import Translator
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.errors import missing_package
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.files import file_sha256
from relative_attention.files import read_json_object
from relative_attention.files import write_json
from relative_attention.layers.positions import import_modules
from relative_attention.models import TransformerConfig
from relative_attention.models.config import saved_fields
from relative_attention.models.weight_shapes import check_shapes
from relative_attention.models.weights import load_weights
from relative_attention.models.weights import save_arrays
from relative_attention.models.weights import stored_weights
from relative_attention.schema import check_mapping
from relative_attention.schema import read_section
from relative_attention.schema import unknown
from relative_attention.zoo import find_model

if TYPE_CHECKING:
    from relative_attention.models import Transformer

_FORMAT = 2
_DTYPES = ("float32", "float16")
# safetensors' names of the dtypes that weights may have.
_STORED_DTYPES = ("F16", "F32", "F64")
# The modules whose `load_model` loads a model in another engine than Keras.
_ENGINES = {"ctranslate2": "relative_attention.export.ctranslate2_engine"}


# === Translators ===


def load_translator(
    directory: pathlib.Path | str | Sequence[pathlib.Path | str],
    dtype: str = "float32",
    engine: str | None = None,
    threads: int | None = None,
    module: str | Sequence[str] | None = None,
    checkpoint: int | None = None,
    **decoding: Any,
) -> Translator:
    """Loads a trained model, or several as one, ready to translate.

    With `engine="ctranslate2"`, CTranslate2 translates in the place of Keras,
    on the CPU, which is faster, most of all one sentence at a time. The first
    time the model is converted, into the folder that the variable
    `RELATIVE_ATTENTION_CACHE` names (default: `relative_attention` in
    `XDG_CACHE_HOME` or `~/.cache`); when it has changed, it is converted again.
    The search is `beam_search` with these differences:

     - With a length penalty, a search ends when more hypotheses have ended
       than there are beams. `beam_search` continues while a beam may still
       score higher. Greedy search finds the same.
     - With `min_length` and `no_repeat_ngram`, beams are compared as if what
       may not follow had no probability. The scores of what is found are the
       same.
     - The model only searches: `sample`, `score_translations`, attention and
       exports are refused. So are several models, and what
       `export_ctranslate2` cannot express.

    Args:
        directory: The path of a folder written by training or a conversion,
            with `config.json`, `model.safetensors` and `vocabulary.model`,
            `vocabulary.subwords` or `vocabulary.tokens` (or two,
            `source_vocabulary` and `target_vocabulary`); or the name of a
            bundled model. Or a list of these: models with the same vocabulary,
            which translate as an `Ensemble`, with the number of beams and other
            settings of the first.
        dtype: The dtype policy of the model. Defaults to `"float32"`, whatever
            it was trained in. With an engine one of `"float32"`, `"int8"` and,
            on processors that multiply it, `"bfloat16"`.
        engine: `"ctranslate2"`, which needs the extra `ctranslate2`, or
            `None`, Keras. Defaults to `None`.
        threads: How many threads the engine computes with. Defaults to
            `None`, its own choice.
        module: The name of a module to import first, or a list of them, which
            has a position encoding of your own that the model uses. A module
            that only the folder names is not imported. Defaults to `None`.
        checkpoint: The number of updates at which a run saved a checkpoint
            that it has kept, whose weights are loaded, and not their averages
            if it has `ema_momentum`. Defaults to `None`, the model of the
            folder.
        **decoding: Arguments of `Translator` that override the recipe's.

    Returns:
        A `Translator`. Its `model` is a `Transformer`; of several models, an
        `Ensemble`; with an engine, what searches with the engine.

    Raises:
        InputError: if a file is missing, damaged or does not fit the others,
            there is no such checkpoint or an engine is to use it, models do
            not have the same vocabulary, or the list is empty. With
            an engine also if it is unknown, not installed, or cannot compute
            the model or models or `dtype`, or there is no folder for what is
            converted. Or if `threads` or `dtype="int8"` is given without one.
        ValueError: if a number in `decoding` is out of range.
        TypeError: if `Translator` has no such argument.

    Example:
    >>> translator = ra.load_translator("tatoeba_en_de")
    >>> translator.translate(["I like tea."])
    ['Ich mag Tee.']
    """
    # Only what the caller names is imported: a folder may come from anywhere.
    if module is not None:
        import_modules(module)
    names = directory
    if isinstance(names, pathlib.Path | str):
        names = [names]
    if not names:
        raise InputError(
            "`directory` must name at least one trained model. Received: "
            f"{directory!r}."
        )
    # Before a model is loaded for a minute.
    _check_engine(len(names), dtype, engine, threads)
    if engine and checkpoint is not None:
        raise InputError(
            "`checkpoint` (`--checkpoint`) is for Keras: leave out `engine`."
        )
    first, *others = (
        _load_one(name, dtype, engine, threads, checkpoint, decoding)
        for name in names
    )
    if not others:
        return first
    for name, other in zip(names[1:], others):
        _check_same_ids(first, other, (names[0], name))
    from relative_attention.decoding import Ensemble

    # With the vocabularies and settings of the first.
    joined = copy.copy(first)
    joined.model = Ensemble([first.model, *(other.model for other in others)])
    return joined


def _check_engine(
    num_models: int, dtype: str, engine: str | None, threads: int | None
) -> None:
    """Refuses what only an engine can do, and what no engine can."""
    if engine is None:
        # Ignored, they would be believed to work.
        if threads is not None or dtype == "int8":
            name = "threads" if threads is not None else 'dtype="int8"'
            raise InputError(
                f"`{name}` is for `engine` (`--engine`): give it too."
            )
        return
    if engine not in _ENGINES:
        raise InputError(unknown("engine", engine, list(_ENGINES)))
    if num_models > 1:
        raise InputError(
            f"The engine {engine} translates with one model. Received: "
            f"{num_models}. Give one, or leave out `engine` (`--engine`)."
        )


def _load_one(
    directory: pathlib.Path | str,
    dtype: str,
    engine: str | None,
    threads: int | None,
    checkpoint: int | None,
    decoding: dict[str, Any],
) -> Translator:
    directory = find_model(directory)
    config, section = load_config(directory)
    # What the caller gives replaces what the folder says.
    settings = {**dataclasses.asdict(section), **decoding}
    source_vocabulary, target_vocabulary = load_vocabularies(directory)
    # An id without a row of the embeddings would fail in a translation.
    where = f" in {directory}"
    check_vocabulary_fits("source", len(source_vocabulary), config, where)
    check_vocabulary_fits("target", len(target_vocabulary), config, where)
    if checkpoint is None:
        weights = find_weights(directory)
    else:
        weights = _checkpoint_weights(directory, checkpoint)
    # Before memory is allocated for what the config asks for.
    check_weights(config, weights)
    model: Any
    if engine is None:
        model = _built_transformer(directory, config, dtype)
        load_weights(model.weights, weights)
    else:
        # Imported only now: an engine needs packages of an extra.
        model = importlib.import_module(_ENGINES[engine]).load_model(
            directory,
            config,
            (source_vocabulary, target_vocabulary),
            # For the longest texts.
            settings["max_source_length"] + settings["max_extra_length"],
            dtype,
            threads,
        )
    return Translator(
        model,
        target_vocabulary,
        source_vocabulary=source_vocabulary,
        **settings,
    )


def _built_transformer(
    directory: pathlib.Path, config: TransformerConfig, dtype: str
) -> "Transformer":
    """Builds the model of a folder, whose weights are to be loaded."""
    # An engine needs no Keras.
    try:
        import keras
    except ModuleNotFoundError as error:
        raise missing_package("A model without `engine`", error) from None
    from relative_attention.models import Transformer

    try:
        keras.dtype_policies.get(dtype)
    except ValueError as error:
        raise InputError(
            "`dtype` must be a dtype policy of Keras, such as "
            f"'float32' or 'bfloat16'. Received: {dtype!r}."
        ) from error
    try:
        return Transformer(config, dtype=dtype)
    except (ValueError, OverflowError) as error:
        raise InputError(
            f"{directory / 'config.json'} is wrong: {error}"
        ) from error


def find_weights(directory: pathlib.Path) -> pathlib.Path:
    """Returns the path of a model's weights.

    Raises:
        InputError: if there are none; the error says why.
    """
    path = directory / "model.safetensors"
    if not path.is_file():
        raise InputError(f"No weights at {path}.{stopped_run_hint(directory)}")
    return path


def _checkpoint_weights(directory: pathlib.Path, step: int) -> pathlib.Path:
    """Returns the path of a run's weights after so many updates."""
    name = f"{step:08}/model.safetensors"
    # A step may have two, of its own and of a stop, with the same weights.
    found = sorted(directory.glob(f"checkpoints/st[eo]p-{name}"))
    if found:
        return found[0]
    kept = sorted(path.name for path in directory.glob("checkpoints/st[eo]p-*"))
    raise InputError(
        "`checkpoint` (`--checkpoint`) must be a number of updates after which "
        f"{directory} kept its weights: {', '.join(kept) or 'it kept none'}. "
        f"Received: {step}. `training.keep_checkpoints` says how many a run "
        "keeps."
    )


def model_sha256(
    directory: pathlib.Path,
    config: TransformerConfig,
    checkpoint: int | None = None,
) -> str:
    """Returns a checksum of all that a model is loaded from."""
    weights = directory / "model.safetensors"
    if checkpoint is not None:
        weights = _checkpoint_weights(directory, checkpoint)
    # Not of `decoding`, which changes no weight.
    files = [weights, *directory.glob("*vocabulary.*")]
    described = [
        dataclasses.asdict(config),
        *sorted((path.name, file_sha256(path)) for path in files),
    ]
    # Sorted, as it must not depend on the order of fields or of a folder.
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def stopped_run_hint(directory: pathlib.Path) -> str:
    """Describes a run without a model, and how to resume it."""
    # A run writes the model at its first validation.
    has_model = (directory / "model.safetensors").is_file()
    if has_model or not (directory / "run.json").is_file():
        return ""
    saved = sorted(directory.glob("checkpoints/st[eo]p-*"))
    what = saved[-1].relative_to(directory) if saved else "nothing"
    return (
        " The run there has not come to its first validation, and saved "
        f"{what} so far. Resume it: `relative-attention train --resume "
        f"{directory}`."
    )


def check_weights(config: TransformerConfig, path: pathlib.Path) -> None:
    """Refuses weights that do not fit a config, before a model is built.

    The folder may come from anywhere: a config with a billion layers must not
    fill the memory. Only the head of the file is read.
    """
    # Slices give shape and dtype without reading numbers.
    try:
        with safe_open(path, "numpy") as file:
            slices = {name: file.get_slice(name) for name in file.keys()}
            shapes = {n: tuple(e.get_shape()) for n, e in slices.items()}
            dtypes = {n: entry.get_dtype() for n, entry in slices.items()}
    except (OSError, SafetensorError) as error:
        raise InputError(
            f"{path} cannot be read: it is cut short, damaged or not a "
            f".safetensors file ({error})."
        ) from error
    # Integers, for example, would be cast to floats without a word.
    for name, dtype in dtypes.items():
        if dtype not in _STORED_DTYPES:
            raise InputError(
                f"{path} holds {name} as {dtype}. Weights must be one of "
                f"{', '.join(_STORED_DTYPES)}."
            )
    check_shapes(config, shapes, path)


def _check_same_ids(
    first: Translator,
    other: Translator,
    names: tuple[pathlib.Path | str, pathlib.Path | str],
) -> None:
    """Refuses translators whose ids mean different pieces."""
    # By content: each folder has a file of its own.
    for side in ("source_vocabulary", "vocabulary"):
        pair = [getattr(translator, side) for translator in (first, other)]
        if not is_same_vocabulary(*pair):
            sizes = " and ".join(str(len(vocabulary)) for vocabulary in pair)
            raise InputError(
                "Models that translate together must have the same "
                f"vocabulary. Received: {names[0]} and "
                f"{names[1]}, whose vocabularies (of {sizes} pieces) differ. "
                "Train one with the vocabulary of the other, by "
                "`vocabulary.model`."
            )
    # One search feeds all models the same ids, the first one included.
    starts = [t.model.start_token_id for t in (first, other)]
    if starts[0] != starts[1]:
        raise InputError(
            "Models that translate together must start a translation with "
            f"the same id. Received: {names[0]} with {starts[0]}, {names[1]} "
            f"with {starts[1]}."
        )


def save_translator(
    translator: Translator,
    directory: pathlib.Path | str,
    dtype: str = "float32",
) -> None:
    """Writes a folder that `load_translator` reads, whole or not at all.

    The folder holds a plain model: adapters are merged into their kernels.

    Args:
        translator: A `Translator`. Its number of beams and other settings are
            written too, except `batch_tokens`, `min_length`, `max_length`,
            `keep` and `glossary`.
        directory: The path of the folder to make.
        dtype: `"float32"` or `"float16"`, the dtype of the stored weights. In
            float16 the folder has half the size, and the weights have 11 bits
            of precision. Defaults to `"float32"`.

    Raises:
        ValueError: if the dtype is neither, or a setting of the translator was
            changed to a value out of range.
        InputError: if `directory` exists, a weight is not finite or too large
            for float16, a layer is quantized, the model is an `Ensemble`, or a
            vocabulary is of a class of your own.

    Example:
    >>> translator = ra.load_translator("tatoeba_en_de")
    >>> ra.save_translator(translator, "my_model")
    """
    check_has_steps(translator.model)
    from relative_attention.decoding import Ensemble

    if isinstance(translator.model, Ensemble):
        raise InputError(
            "A folder holds one `Transformer`. Received: an `Ensemble` of "
            f"{len(translator.model.models)}. Save each, and give "
            "`load_translator` the list of folders."
        )
    if dtype not in _DTYPES:
        raise ValueError(
            f"`dtype` must be one of {_DTYPES}. Received: dtype={dtype!r}."
        )
    # All checks come before the folder is begun.
    check_is_free(directory)
    decoding = translator.decoding
    arrays = stored_weights(translator.model, dtype)
    # Written aside and renamed, so that there is never half a model.
    with atomic_directory(directory) as folder:
        save_config(translator.model.config, decoding, folder)
        # A translator accepts any vocabulary, but other classes have no suffix.
        source: Any = translator.source_vocabulary
        target: Any = translator.vocabulary
        save_vocabularies(source, target, folder)
        save_arrays(arrays, folder / "model.safetensors")


# === config.json ===


def save_config(
    config: TransformerConfig, decoding: DecodingSection, directory: AnyPath
) -> None:
    """Writes the architecture and the decoding settings."""
    content = {
        "format": _FORMAT,
        "model": dataclasses.asdict(config),
        "decoding": dataclasses.asdict(decoding),
    }
    write_json(pathlib.Path(directory) / "config.json", content)


def load_config(
    directory: AnyPath,
) -> tuple[TransformerConfig, DecodingSection]:
    """Returns what `save_config` wrote.

    Raises:
        InputError: if `config.json` is missing, damaged or of another format.
    """
    path = pathlib.Path(directory) / "config.json"
    try:
        content = read_json_object(path)
    # A folder without it is most likely another folder than was meant.
    except FileNotFoundError as error:
        raise InputError(
            f"{directory} is no model directory: it has no config.json. Give "
            "a folder written by `relative-attention train`."
        ) from error
    except OSError as error:
        raise InputError(
            f"{directory} is no model directory: {error}."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    # The first key that is read: other formats may have none of the others.
    if content.get("format") != _FORMAT:
        raise InputError(
            f"{path} has format {content.get('format')!r}; this version "
            f"reads format {_FORMAT}."
        )
    try:
        model = check_mapping(content["model"], "model")
        decoding = check_mapping(content["decoding"], "decoding")
        return (
            TransformerConfig(**saved_fields(model)),
            read_section(DecodingSection, "decoding", decoding),
        )
    except KeyError as error:
        raise InputError(f"{path} is wrong: it lacks {error}.") from error
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"{path} is wrong: {error}") from error


# === Vocabularies and results ===


def load_vocabularies(
    directory: AnyPath,
) -> tuple[AnyVocabulary, AnyVocabulary]:
    """Returns source and target vocabulary, the same object if joint.

    Raises:
        InputError: if there is no vocabulary.
    """
    # The same object twice: callers compare by `is` to find a joint one.
    joint = find_vocabulary(directory, "vocabulary")
    if joint is not None:
        return joint, joint
    source = find_vocabulary(directory, "source_vocabulary")
    target = find_vocabulary(directory, "target_vocabulary")
    if source is None or target is None:
        raise InputError(
            f"{directory} holds no vocabulary (vocabulary.model, "
            "vocabulary.subwords, vocabulary.tokens, or one of each side): it "
            "cannot translate strings. Train it here, or convert it with its "
            "vocabulary."
        )
    return source, target


def save_vocabularies(
    source_vocabulary: AnyVocabulary,
    target_vocabulary: AnyVocabulary,
    directory: AnyPath,
) -> None:
    """Writes both vocabularies, or one if they are the same object."""
    # Two equal vocabularies stay two files: only one object is a joint one.
    names = {"vocabulary": target_vocabulary}
    if source_vocabulary is not target_vocabulary:
        names = {
            "source_vocabulary": source_vocabulary,
            "target_vocabulary": target_vocabulary,
        }
    for name, vocabulary in names.items():
        suffix = vocabulary_suffix(vocabulary)
        vocabulary.save(pathlib.Path(directory, name).with_suffix(suffix))


def find_vocabulary(directory: AnyPath, name: str) -> AnyVocabulary | None:
    """Returns the vocabulary of this name in a folder, or `None`."""
    for suffix, kind in VOCABULARY_KINDS.items():
        path = pathlib.Path(directory, name).with_suffix(suffix)
        if path.is_file():
            return kind.load(path)
    return None


def load_results(directory: AnyPath) -> dict[str, Any]:
    """Returns the `results.json` of a run.

    Raises:
        InputError: if there is no `results.json`, or it is damaged.
    """
    path = pathlib.Path(directory) / "results.json"
    try:
        return read_json_object(path)
    except OSError as error:
        raise InputError(
            f"No results of a finished run at {path}: {error}."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
