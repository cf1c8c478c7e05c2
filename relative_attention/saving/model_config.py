"""Reads and writes `config.json`: architecture, and how to translate."""

import dataclasses
import json
import pathlib

from relative_attention.atomic_files import atomic_file
from relative_attention.decoding.decoding_section import DecodingSection
from relative_attention.errors import InputError
from relative_attention.json_file import read_json_object
from relative_attention.models import TransformerConfig
from relative_attention.settings import check_mapping
from relative_attention.settings import read_section

_FORMAT = 2


def save_config(
    config: TransformerConfig,
    decoding: DecodingSection,
    directory: pathlib.Path | str,
) -> None:
    """Writes the architecture and how to translate with it, `config.json`.

    Args:
        config: A `TransformerConfig`.
        decoding: A `DecodingSection`.
        directory: The path of the folder.
    """
    with atomic_file(pathlib.Path(directory) / "config.json", "w") as file:
        json.dump(
            {
                "format": _FORMAT,
                "model": dataclasses.asdict(config),
                "decoding": dataclasses.asdict(decoding),
            },
            file,
            indent=1,
        )


def load_config(
    directory: pathlib.Path | str,
) -> tuple[TransformerConfig, DecodingSection]:
    """Returns what `save_config` wrote.

    Args:
        directory: The path of the folder.

    Returns:
        A pair of `TransformerConfig` and `DecodingSection`.

    Raises:
        InputError: if `config.json` is missing, damaged or of another format.
    """
    path = pathlib.Path(directory) / "config.json"
    try:
        content = read_json_object(path)
    except FileNotFoundError as error:
        raise InputError(
            f"{directory} is no model directory: it has no config.json. Give "
            "the folder that `relative-attention train` filled."
        ) from error
    except OSError as error:
        raise InputError(
            f"{directory} is no model directory: {error}."
        ) from error
    except ValueError as error:
        raise InputError(f"{path} is damaged: {error}.") from error
    if content.get("format") != _FORMAT:
        raise InputError(
            f"{path} has format {content.get('format')!r}; this version "
            f"reads format {_FORMAT}."
        )
    try:
        return (
            TransformerConfig(**content["model"]),
            read_section(
                DecodingSection,
                "decoding",
                check_mapping(content["decoding"], "decoding"),
            ),
        )
    except KeyError as error:
        raise InputError(f"{path} is wrong: it lacks {error}.") from error
    except (TypeError, ValueError) as error:
        raise InputError(f"{path} is wrong: {error}") from error
