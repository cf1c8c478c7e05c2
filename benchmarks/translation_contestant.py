"""Translates in turns with one engine; started by `translation_speed.py`."""

import json
import sys
import time

import turns


def package(folder):
    """This package's `Translator`."""
    import relative_attention as ra

    translator = ra.load_translator(folder, length_penalty=0.6)
    # A batch is what the order says it is.
    translator.batch_tokens = sys.maxsize

    def translate(lines, num_beams):
        translator.num_beams = num_beams
        return translator.translate(lines)

    return translate


def saved_model(folder):
    """What `export_saved_model` made, with the beams in its name."""
    import tensorflow as tf
    import tensorflow_text  # noqa: F401

    signatures = {}

    def translate(lines, num_beams):
        if num_beams not in signatures:
            loaded = tf.saved_model.load(f"{folder}_{num_beams}")
            signatures[num_beams] = loaded.signatures["serving_default"]
        results = signatures[num_beams](sentences=tf.constant(lines))
        return [text.decode() for text in results["translations"].numpy()]

    return translate


def ctranslate2(folder, num_threads):
    """What `export_ctranslate2` made."""
    import ctranslate2
    import sentencepiece

    engine = ctranslate2.Translator(folder, intra_threads=num_threads)
    pieces = sentencepiece.SentencePieceProcessor(f"{folder}/vocabulary.model")

    def translate(lines, num_beams):
        results = engine.translate_batch(
            pieces.encode(lines, out_type=str),
            beam_size=num_beams,
            # The nearest to a GNMT penalty of 0.6; see ctranslate2_quality.py.
            length_penalty=0.4,
            min_decoding_length=0,
        )
        return pieces.decode([result.hypotheses[0] for result in results])

    return translate


def main(engine, arguments, sentences):
    translate = {
        "package": package,
        "saved_model": saved_model,
        "ctranslate2": ctranslate2,
    }[engine](**arguments)
    with open(sentences) as file:
        lines = json.load(file)
    my_turns = turns.Turns()
    while order := my_turns.wait():
        order = json.loads(order)
        chosen = lines[: order["num_sentences"]]
        size = order["batch_size"]
        translations = []
        start = time.perf_counter()
        for first in range(0, len(chosen), size):
            translations += translate(
                chosen[first : first + size], order["num_beams"]
            )
        seconds = time.perf_counter() - start
        my_turns.report(seconds=seconds, translations=translations)


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
