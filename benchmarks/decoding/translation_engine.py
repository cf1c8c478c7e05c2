"""An engine that translates a text for `translation_speed` or `load`."""

import json
import pathlib
import sys
import time
from collections.abc import Callable
from typing import Any

from benchmarks.harness.engine import Turns
from benchmarks.harness.engine import engine_command

# As of `Translator`: how much longer than the source a translation may get.
_MAX_EXTRA_LENGTH = 50
# Lines and the number of beams to their translations.
Translate = Callable[[list[str], Any], list[str]]


def make_package(folder: str, **loading: Any) -> Translate:
    """Returns what translates with this package's `Translator`.

    Args:
        folder: A model folder, or the name of a bundled model.
        **loading: Arguments of `load_translator`, such as `engine`.
    """
    import relative_attention as ra

    translator = ra.load_translator(folder, **loading)

    def translate(lines: list[str], num_beams: int | None) -> list[str]:
        if num_beams is None:  # As `Translator` does by default.
            return translator.translate(lines)
        translator.num_beams = num_beams
        return [one.text for one in translator.search(lines)]

    return translate


def make_saved_model(folder: str) -> Translate:
    """Returns what translates with what `export_saved_model` made.

    Args:
        folder: A path that the number of beams is added to.
    """
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    signatures: dict[int, Any] = {}

    def translate(lines: list[str], num_beams: int) -> list[str]:
        if num_beams not in signatures:
            loaded = tf.saved_model.load(f"{folder}_{num_beams}")
            signatures[num_beams] = loaded.signatures["serving_default"]
        results = signatures[num_beams](sentences=tf.constant(lines))
        return [text.decode() for text in results["translations"].numpy()]

    return translate


def make_ctranslate2(folder: str, num_threads: int) -> Translate:
    """Returns what translates with what `export_ctranslate2` made."""
    import ctranslate2
    import sentencepiece

    engine = ctranslate2.Translator(folder, intra_threads=num_threads)
    pieces = sentencepiece.SentencePieceProcessor(f"{folder}/vocabulary.model")

    def translate(lines: list[str], num_beams: int) -> list[str]:
        encoded = pieces.encode(lines, out_type=str)
        results = engine.translate_batch(
            encoded,
            beam_size=num_beams,
            # The others' limit, without which a translation that does not end
            # takes this engine longer.
            max_decoding_length=max(map(len, encoded)) + _MAX_EXTRA_LENGTH,
            # Nearest to a GNMT penalty of 0.6 for 10 to 15 tokens.
            length_penalty=0.4,
            min_decoding_length=0,
        )
        return pieces.decode([result.hypotheses[0] for result in results])

    return translate


_ENGINES: dict[str, Callable[..., Translate]] = {
    "package": make_package,
    "saved_model": make_saved_model,
    "ctranslate2": make_ctranslate2,
}


def main(maker: str, arguments: dict[str, Any], sentences: str) -> None:
    """Translates the text whenever it is the turn of this process.

    Args:
        maker: A string, a key of `_ENGINES`.
        arguments: A dict of its function's arguments.
        sentences: The path of a JSON list of lines.
    """
    translate = _ENGINES[maker](**arguments)
    with open(sentences) as file:
        lines = json.load(file)
    turns = Turns()
    while line := turns.wait():
        order = json.loads(line)
        chosen = lines[: order["num_sentences"]]
        size = order["batch_size"]
        translations: list[str] = []
        seconds: list[float] = []
        for first in range(0, len(chosen), size):
            start = time.perf_counter()
            translations += translate(
                chosen[first : first + size], order.get("num_beams")
            )
            seconds.append(time.perf_counter() - start)
        turns.report(seconds=seconds, translations=translations)


def command(maker: str, sentences: pathlib.Path, **arguments: Any) -> list[str]:
    """Returns the command of this engine, see `main`."""
    content = {
        "maker": maker,
        "arguments": arguments,
        "sentences": str(sentences),
    }
    return engine_command("benchmarks.decoding.translation_engine", content)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
