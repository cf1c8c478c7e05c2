"""Exports a translator as one TensorFlow graph, from strings to strings."""

from collections.abc import Sequence

import keras

from relative_attention.data import Vocabulary
from relative_attention.decoding import Translator
from relative_attention.decoding.ensemble import named_weights
from relative_attention.errors import InputError
from relative_attention.export.serving_graph import SERVING_DTYPES
from relative_attention.export.serving_graph import check_tensorflow_text
from relative_attention.export.serving_graph import serving_module
from relative_attention.export.warmup_requests import check_serving_api
from relative_attention.export.warmup_requests import write_warmup_requests
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.models.finite_weights import check_finite


def export_saved_model(
    translator: Translator,
    directory: AnyPath,
    dtype: str = "float32",
    num_results: int | None = None,
    token_ids_only: bool = False,
    warmup: Sequence[str] = (),
) -> None:
    """Writes a SavedModel that translates, for TensorFlow Serving and others.

    Tokeniser, model, beam search and detokeniser are in its graph; a process
    that imported `tensorflow` and `tensorflow_text` loads it. It translates
    as `translator.translate` does, with its beams, penalty and limits, in
    batches of any size. Signatures:

    - `serving_default(sentences)`, strings `(B,)`: `translations`, strings
      `(B,)`, and `scores`, float32 `(B,)`;
    - `n_best(sentences)`: `translations` and `scores`, `(B, num_results)`,
      best first; where fewer were found, empty strings with the score -1e7;
    - `token_ids(source_token_ids)`, int32 `(B, S)`, rows that end with id 1
      and are padded with id 0: `token_ids` `(B, num_results, T)` and
      `scores`.

    Strings are UTF-8; what is not is read as U+FFFD. A sentence over the
    translator's limit is cut there.

    Args:
        translator: `Translator`, also of an `Ensemble`.
        directory: path of the folder to make; it is whole or not there.
        dtype: `"float32"` or `"float16"`, what the weights are stored as.
            They are computed with in float32 either way. Defaults to
            `"float32"`.
        num_results: int. The number of translations of `n_best`. Defaults to
            `None`, as many as there are beams.
        token_ids_only: bool. Whether to leave out the signatures on strings,
            for a vocabulary that does not run in a graph. Defaults to `False`.
        warmup: list of strings. Sentences for TensorFlow Serving to
            translate before it takes requests; needs the package
            `tensorflow-serving-api`. Defaults to no sentences.

    Raises:
        ValueError: if a number or the dtype is out of range.
        TypeError: if `warmup` is a single string.
        InputError: if the vocabulary does not run in a graph, Keras does not
            run on TensorFlow, the folder holds something,
            `tensorflow-serving-api` or `tensorflow-text` is missing, or a
            weight is not finite or too large for float16.
    """
    num_results = translator.num_beams if num_results is None else num_results
    _check_arguments(translator, dtype, num_results, token_ids_only, warmup)
    check_is_free(directory)
    if warmup:
        check_serving_api()
    if not token_ids_only:
        check_tensorflow_text()
    check_finite(dict(named_weights(translator.model)), dtype)
    import tensorflow as tf

    module, signatures = serving_module(
        translator, dtype, num_results, token_ids_only
    )
    with atomic_directory(directory) as folder:
        tf.saved_model.save(module, str(folder), signatures=signatures)
        if warmup:
            write_warmup_requests(warmup, folder)


def _check_arguments(
    translator: Translator,
    dtype: str,
    num_results: int,
    token_ids_only: bool,
    warmup: Sequence[str],
) -> None:
    """Refuses arguments that are wrong or contradict one another."""
    if keras.backend.backend() != "tensorflow":
        raise InputError(
            "A SavedModel is made on TensorFlow; Keras runs on "
            f"{keras.backend.backend()}. Set KERAS_BACKEND=tensorflow."
        )
    if not 1 <= num_results <= translator.num_beams:
        raise ValueError(
            "`num_results` must be between 1 and the number of beams, "
            f"{translator.num_beams}. Received: num_results={num_results}."
        )
    if dtype not in SERVING_DTYPES:
        raise ValueError(
            f"`dtype` must be one of {SERVING_DTYPES}. Received: "
            f"dtype={dtype!r}."
        )
    if isinstance(warmup, str):
        raise TypeError(
            "`warmup` must be a list of strings. Received a string; pass "
            f"[{warmup!r}]."
        )
    if not token_ids_only:
        _check_vocabularies(translator)
    elif warmup:
        raise ValueError(
            "`warmup` must be empty with `token_ids_only`: its sentences are "
            "strings."
        )


def _check_vocabularies(translator: Translator) -> None:
    """Refuses vocabularies that cannot be part of a graph."""
    for vocabulary in (translator.source_vocabulary, translator.vocabulary):
        if not isinstance(vocabulary, Vocabulary):
            raise InputError(
                f"A {type(vocabulary).__name__} does not run in a TensorFlow "
                "graph; only SentencePiece (`Vocabulary`) does. Export the "
                "signature on ids alone (`token_ids_only`), and tokenise "
                "before it."
            )
