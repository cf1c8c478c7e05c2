"""Builds the functions of a SavedModel that translates."""

import contextlib
import hashlib
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from typing import Any

import keras

from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translator
from relative_attention.decoding.beam_search import beam_search_loop
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import make_constraints
from relative_attention.decoding.model_steps import END_ID
from relative_attention.errors import InputError
from relative_attention.models import Transformer
from relative_attention.quiet_tensorflow import without_info_lines
from relative_attention.tensor_type import Tensor

if TYPE_CHECKING:
    import tensorflow as tf

SERVING_DTYPES = ("float32", "float16")
# These characters are the ones that Python's `str.strip` takes away.
_BLANK = r"[\t-\r\x1c-\x20\x{85}\p{Z}]*"


def serving_module(
    translator: Translator, dtype: str, num_results: int, token_ids_only: bool
) -> tuple["tf.Module", dict[str, Callable]]:
    """Builds what `tf.saved_model.save` takes.

    Args:
        translator, dtype, num_results, token_ids_only: see
            `export_saved_model`.

    Returns:
        Pair of a `tf.Module` and a dict of its signatures.
    """
    import tensorflow as tf

    module = tf.Module()
    module.weights, weights_in_use = _stored_weights(translator.model, dtype)

    def decode(source_token_ids: Tensor, num_results: int) -> dict[str, Tensor]:
        with weights_in_use():
            return _search(translator, source_token_ids, num_results)

    def token_ids(source_token_ids: Tensor) -> dict[str, Tensor]:
        return decode(source_token_ids, num_results)

    signatures = {
        "token_ids": tf.function(
            token_ids,
            input_signature=[
                tf.TensorSpec((None, None), tf.int32, "source_token_ids")
            ],
            autograph=False,
        )
    }
    if not token_ids_only:
        text = _Text(translator)
        # What a graph uses is saved only if an attribute of the module leads
        # to it.
        module.tokenizers = [text.source, text.target]

        def n_best(
            sentences: Tensor, num_results: int = num_results
        ) -> dict[str, Tensor]:
            results = decode(text.token_ids(sentences), num_results)
            return text.translations(sentences, results)

        def serving_default(sentences: Tensor) -> dict[str, Tensor]:
            results = n_best(sentences, num_results=1)
            return {name: value[:, 0] for name, value in results.items()}

        strings = [tf.TensorSpec((None,), tf.string, "sentences")]
        signatures["serving_default"] = tf.function(
            serving_default, input_signature=strings, autograph=False
        )
        signatures["n_best"] = tf.function(
            lambda sentences: n_best(sentences),
            input_signature=strings,
            autograph=False,
        )
    module.functions = signatures
    return module, signatures


def _stored_weights(
    model: Transformer | Ensemble, dtype: str
) -> tuple[list[Any], Callable[[], AbstractContextManager]]:
    """Returns variables to save, and a context that computes with them.

    In float32 they are the model's own. In float16 they are copies, which the
    graph casts to float32 each time: half the file, the same arithmetic. What
    is quantized stays int8.
    """
    import tensorflow as tf

    if dtype == "float32":
        return [
            weight.value for weight in model.weights
        ], contextlib.nullcontext
    stored = [
        tf.Variable(
            tf.cast(weight.value, dtype)
            if weight.value.dtype.is_floating
            else weight.value,
            trainable=False,
        )
        for weight in model.weights
    ]

    def in_use() -> AbstractContextManager:
        values = [
            tf.cast(tf.convert_to_tensor(variable), weight.dtype)
            for variable, weight in zip(stored, model.weights)
        ]
        return keras.StatelessScope(
            state_mapping=list(zip(model.weights, values))
        )

    return stored, in_use


def _search(
    translator: Translator, source_token_ids: Tensor, num_results: int
) -> dict[str, Tensor]:
    """Searches as `Translator` calls `beam_search`, but on tensors."""
    constraints = make_constraints(
        source_token_ids,
        max_extra_length=translator.max_extra_length,
        max_length=translator.max_length,
        min_length=translator.min_length,
    )
    length_penalty = keras.ops.convert_to_tensor(
        translator.length_penalty, "float32"
    )
    return beam_search_loop(
        translator.model,
        (constraints, length_penalty),
        num_beams=translator.num_beams,
        num_results=num_results,
    )


def check_tensorflow_text() -> None:
    """Refuses to begin without the package that reads strings in a graph.

    Raises:
        InputError: if the package `tensorflow-text` is missing.
    """
    try:
        import tensorflow_text  # noqa: F401
    except ImportError as error:
        raise InputError(
            "A SavedModel of strings needs the package tensorflow-text, which "
            "there is for Linux and macOS alone: `pip install "
            "tensorflow-text` there, or export token ids alone "
            "(`--token-ids-only`, `token_ids_only=True`)."
        ) from error


class _Text:
    """Turns strings to ids and back in the graph, as `Translator` does."""

    def __init__(self, translator: Translator) -> None:
        import tensorflow_text

        # Each is a `Vocabulary`, as the export has checked.
        vocabularies: tuple[Any, Any] = (
            translator.source_vocabulary,
            translator.vocabulary,
        )
        self.limit = translator.max_source_length - 1
        self.end_id = translator.source_vocabulary.end_id
        with without_info_lines():
            self.source, self.target = (
                tensorflow_text.SentencepieceTokenizer(
                    model=vocabulary.model, name=_name(vocabulary.model)
                )
                for vocabulary in vocabularies
            )

    def token_ids(self, sentences: Tensor) -> Tensor:
        """Cuts strings `(B,)` into token ids, int32 `(B, S)`."""
        import tensorflow as tf

        rows = self.source.tokenize(_valid(sentences))[:, : self.limit]
        ends = tf.fill((tf.shape(sentences)[0], 1), self.end_id)
        return tf.concat([rows, ends], axis=1).to_tensor()

    def translations(
        self, sentences: Tensor, results: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """Returns strings and scores `(B, num_results)` of what was found.

        Tokens up to the first end of sentence make a translation:
        `cumsum(token_id == END_ID)` is 0 before it.
        """
        import tensorflow as tf

        token_ids = results["token_ids"]
        batch_size, num_results, length = tf.unstack(tf.shape(token_ids))
        token_ids = tf.reshape(token_ids, (batch_size * num_results, length))
        is_end = tf.cast(token_ids == END_ID, tf.int32)
        is_before_end = tf.equal(tf.cumsum(is_end, axis=1), 0)
        rows = tf.ragged.boolean_mask(
            token_ids, is_before_end & (token_ids != 0)
        )
        texts = _valid(self.target.detokenize(rows))
        # A translation is a line: whoever reads it counts lines.
        texts = tf.strings.regex_replace(texts, r"\n", " ")
        texts = tf.reshape(texts, (batch_size, num_results))
        # A blank sentence has one translation, itself, with the score 0.
        is_blank = tf.strings.regex_full_match(sentences, _BLANK)[:, None]
        blank_scores = tf.where(tf.range(num_results) == 0, 0.0, IMPOSSIBLE)
        return {
            "translations": tf.where(is_blank, "", texts),
            "scores": tf.where(is_blank, blank_scores, results["scores"]),
        }


def _name(model: bytes) -> str:
    """Returns a name for a SentencePiece model that no other has.

    Loaded tokenisers of one name, be they of several SavedModels, are all the
    one that was loaded first.
    """
    return f"sentencepiece_{hashlib.sha256(model).hexdigest()}"


def _valid(strings: Tensor) -> Tensor:
    """Replaces bytes that are not UTF-8 by U+FFFD."""
    import tensorflow as tf

    return tf.strings.unicode_transcode(strings, "UTF-8", "UTF-8")
