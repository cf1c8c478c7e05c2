"""What the translations of a text depend on, so that none are mixed."""

import dataclasses
import hashlib
import json
import pathlib
from collections.abc import Sequence
from typing import Any

from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translator
from relative_attention.runs.distilled_text import file_sha256
from relative_attention.zoo import find_model

# Attributes of a `Translator` that decide what it writes, and what a user
# calls them. `batch_tokens` is none: it may be lowered for want of memory.
_SETTINGS = {
    "num_beams": "--num-beams",
    "length_penalty": "--length-penalty",
    "min_length": "--min-length",
    "max_length": "--max-length",
    "max_extra_length": "`decoding.max_extra_length`",
    "max_source_length": "`decoding.max_source_length`",
}


def translation_origin(
    translator: Translator,
    models: Sequence[pathlib.Path | str],
    texts: dict[str, pathlib.Path | str | None],
    options: dict[str, Any],
) -> dict[str, Any]:
    """Returns what decides over translations, by the names that users know.

    By another path the same models and texts are the same.

    Args:
        translator: A `Translator`.
        models: A list of the folders or names that it was loaded from.
        texts: A dict of the path of each text by what it is called, or `None`
            if it is not given.
        options: A dict of what else was asked for.
    """
    model = translator.model
    parts = model.models if isinstance(model, Ensemble) else [model]
    return {
        "model": [
            _model_sha256(find_model(name), part.config)
            for name, part in zip(models, parts, strict=True)
        ],
        **{
            name: None if path is None else file_sha256(path)
            for name, path in texts.items()
        },
        **{word: getattr(translator, name) for name, word in _SETTINGS.items()},
        **options,
    }


def _model_sha256(folder: pathlib.Path, config: Any) -> str:
    """Returns a checksum of all that a model is loaded from."""
    files = [folder / "model.safetensors", *folder.glob("*vocabulary.*")]
    described = [
        dataclasses.asdict(config),
        *sorted((path.name, file_sha256(path)) for path in files),
    ]
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()
