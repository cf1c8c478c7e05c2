"""Long texts to be translated: chunks, parts, what a job is."""

import itertools
import pathlib
from collections.abc import Iterator
from collections.abc import Sequence
from typing import Any

from relative_attention.data.lines import batched
from relative_attention.data.lines import read_lines
from relative_attention.decoding import Translator
from relative_attention.files import file_sha256
from relative_attention.saving.model_directory import model_sha256
from relative_attention.zoo import find_model

# Lines that are translated before any is written: enough to sort by length.
# They are in memory, and may be lost. A part of a long job has as many.
CHUNK_LINES = 2000


def read_chunks(path: pathlib.Path | str, lines: range) -> Iterator[list[str]]:
    """Yields some lines of a text in chunks for translation."""
    # A file is read as it is translated, and is never in memory as a whole.
    some = itertools.islice(read_lines(path), lines.start, lines.stop)
    yield from batched(some, CHUNK_LINES)


def lines_in_parts(num_parts: int, num_lines: int) -> int:
    """Returns how many of the lines of a text some of its parts have."""
    # The last part may have fewer lines.
    return min(num_parts * CHUNK_LINES, num_lines)


def shard_lines(num_lines: int, number: int, num_shards: int) -> range:
    """Returns the lines of one of several parts of a text.

    Parts begin with a chunk. So a line is translated together with the same
    lines as without parts, and its score is the same to the last digit.
    """
    # Rounded up: the last chunk may be short.
    num_chunks = -(-num_lines // CHUNK_LINES)
    first, end = (
        min(num_chunks * n // num_shards * CHUNK_LINES, num_lines)
        for n in (number - 1, number)
    )
    return range(first, end)


# Attributes of a `Translator` that affect its output, with names for users.
# `batch_tokens` is not among them: it may be lowered if memory runs out.
_SETTINGS = {
    "num_beams": "--num-beams",
    "length_penalty": "--length-penalty",
    "min_length": "--min-length",
    "max_length": "--max-length",
    "max_extra_length": "`decoding.max_extra_length`",
    "max_source_length": "`decoding.max_source_length`",
    "source_language": "`decoding.source_language`",
    "target_language": "`decoding.target_language`",
    "usual_case": "`decoding.usual_case`",
    "placeholders": "`decoding.placeholders`",
    "keep": "--keep",
    "glossary": "--glossary",
    "no_repeat_ngram": "--no-repeat-ngram",
}


def translation_origin(
    translator: Translator,
    models: Sequence[pathlib.Path | str],
    texts: dict[str, pathlib.Path | str | None],
    options: dict[str, Any],
    checkpoint: int | None = None,
) -> dict[str, Any]:
    """Returns the inputs of translations, by names for users.

    `models` are the folders or names that were loaded, `texts` the path of each
    text by its name. Models and texts are compared by content, not by path.
    `checkpoint` is the one that was loaded, `None` for the models themselves.
    """
    model = translator.model
    # Several are those of an `Ensemble`.
    parts = getattr(model, "models", [model])
    return {
        "model": [
            model_sha256(find_model(name), part.config, checkpoint)
            for name, part in zip(models, parts, strict=True)
        ],
        **{
            name: None if path is None else file_sha256(path)
            for name, path in texts.items()
        },
        **{word: getattr(translator, name) for name, word in _SETTINGS.items()},
        **options,
        # Parts of another size would not fit together.
        "number of lines in a part": CHUNK_LINES,
    }
