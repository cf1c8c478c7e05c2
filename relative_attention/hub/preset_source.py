"""Finds what a preset names, and says in one line what is wrong with it.

KerasHub knows folders that `save_to_preset` filled, and handles of hubs. Here
names of the zoo and folders of trained models are presets, too.
"""

import pathlib
from collections.abc import Callable
from typing import TypeVar

from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.files import read_json_object
from relative_attention.saving import find_model
from relative_attention.saving import load_translator
from relative_attention.zoo import is_model
from relative_attention.zoo import zoo_models

Loaded = TypeVar("Loaded")

_BACKBONE = "relative_attention>TranslationBackbone"


def load_from_preset(
    preset: str,
    convert: Callable[[Translator], Loaded],
    load: Callable[[], Loaded],
) -> Loaded:
    """Loads what a preset names.

    Args:
        preset: string or path. See `TranslationLM.from_preset`.
        convert: makes of a `Translator`, of the zoo or of a folder that
            `save_translator` filled, what is to be loaded.
        load: loads a preset of KerasHub.

    Raises:
        InputError: if there is no such preset, it holds another class, or a
            file is missing, damaged or does not fit the others.
    """
    preset = str(preset)
    path = pathlib.Path(preset)
    if path.is_dir():
        if is_model(path):
            return convert(load_translator(path))
        _check_backbone(path)
    elif preset in zoo_models():
        return convert(load_translator(preset))
    elif "://" not in preset:
        raise InputError(
            f"No preset at {preset}.{did_you_mean(preset, zoo_models())} A "
            "preset is a folder that `save_to_preset` filled, a handle such "
            "as hf://user/name, or a model of the zoo: "
            f"{', '.join(zoo_models())}."
        )
    try:
        return load()
    except InputError:
        raise
    except (
        AttributeError,
        IndexError,
        KeyError,
        OSError,
        TypeError,
        ValueError,
    ) as error:
        what = (
            "could not be loaded"
            if "://" in preset
            else "is damaged, or its files do not fit one another"
        )
        raise InputError(f"{preset} {what}: {reason(error)}") from error


def model_folder(preset: str) -> pathlib.Path | None:
    """Returns the folder of a trained model that a preset names, if it does.

    Args:
        preset: as of `load_from_preset`.
    """
    path = pathlib.Path(preset)
    if path.is_dir():
        return path.absolute() if is_model(path) else None
    return find_model(preset) if str(preset) in zoo_models() else None


def _check_backbone(path: pathlib.Path) -> None:
    """Refuses folders that hold no backbone of this package."""
    try:
        config = read_json_object(path / "config.json")
    except OSError as error:
        raise InputError(
            f"{path} is no preset: {error}. Fill it with `save_to_preset`."
        ) from error
    except ValueError as error:
        raise InputError(
            f"{path / 'config.json'} is damaged: {error}."
        ) from error
    found = config.get("registered_name")
    if found != _BACKBONE:
        raise InputError(
            f"{path} must be a preset of the class {_BACKBONE}. Received: one "
            f"of the class {found}. For a class of your own, import its "
            "module and call `from_preset` of KerasHub's class, as "
            "`keras_hub.models.Seq2SeqLM`."
        )


def reason(error: BaseException) -> str:
    """Returns the first line of what an error began with.

    Keras says of every class around it that it could not be made.

    Args:
        error: the error that was caught.
    """
    while (cause := error.__cause__ or error.__context__) is not None:
        error = cause
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
