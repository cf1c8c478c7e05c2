"""Exports a translator as one TensorFlow graph, from strings to strings."""

import contextlib
import hashlib
import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING
from typing import Any

import keras

from relative_attention.data import Vocabulary
from relative_attention.data.vocabulary import load_processor
from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translator
from relative_attention.decoding.beam_steps import beam_search_loop
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import make_constraints
from relative_attention.decoding.forbidden_tokens import as_tensors
from relative_attention.decoding.model_steps import named_weights
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.errors import InputError
from relative_attention.errors import check_packages
from relative_attention.files import AnyPath
from relative_attention.files import atomic_directory
from relative_attention.files import check_is_free
from relative_attention.models import Transformer
from relative_attention.models.config import END_ID
from relative_attention.models.weights import check_finite
from relative_attention.tensor_type import Tensor
from relative_attention.text.form import clean_text_in_graph

if TYPE_CHECKING:
    import tensorflow as tf

_DTYPES = ("float32", "float16")
# SentencePiece writes a blank as this character.
_BLANK_OF_PIECES = "\u2581"


def export_saved_model(
    translator: Translator,
    directory: AnyPath,
    dtype: str = "float32",
    num_results: int | None = None,
    token_ids_only: bool = False,
    warmup: Sequence[str] = (),
) -> None:
    """Writes a SavedModel that translates, for TensorFlow Serving and others.

    The graph holds tokenizer, model, beam search and detokenizer. A process
    that has imported `tensorflow` and `tensorflow_text` can load it. It
    translates like `translator.translate`, with its beams, penalty and limits,
    in batches of any size, but each string as it is: it never splits it into
    sentences, and treats capitals and strings without a letter like others.
    Signatures:

    - `serving_default(sentences)`, strings `(B,)`: `translations`, strings
      `(B,)`, and `scores`, float32 `(B,)`;
    - `n_best(sentences)`: `translations` and `scores`, `(B, num_results)`,
      best first; missing results are empty strings with the score -1e7;
    - `token_ids(source_token_ids)`, int32 `(B, S)`, rows that end with id 1
      and are padded with id 0: `token_ids` `(B, num_results, T)` and
      `scores`.

    Strings are UTF-8; invalid bytes are read as U+FFFD. The graph cleans them
    as `clean_text` does. A sentence over the translator's limit is cut.

    Args:
        translator: `Translator`, also of an `Ensemble`.
        directory: path of the folder to make, whole or not at all.
        dtype: `"float32"` or `"float16"`, the dtype of the stored weights. The
            graph always computes in float32. Defaults to `"float32"`.
        num_results: int. The number of translations of `n_best`. Defaults to
            `None`, the number of beams.
        token_ids_only: bool. Whether to omit the signatures on strings, for a
            vocabulary that does not run in a graph. Defaults to `False`.
        warmup: list of strings. Sentences that TensorFlow Serving translates
            before it accepts requests; needs the package
            `tensorflow-serving-api`. Defaults to no sentences.

    Raises:
        ValueError: if a number or the dtype is out of range.
        TypeError: if `warmup` is a single string.
        InputError: if the vocabulary does not run in a graph, Keras does not
            run on TensorFlow, the model computes in half precision, the folder
            is not empty, `tensorflow-serving-api` or `tensorflow-text` is
            missing, or a weight is not finite or too large for float16.
    """
    check_has_steps(translator.model)
    num_results = translator.num_beams if num_results is None else num_results
    check_is_free(directory)
    _check_arguments(translator, dtype, num_results, token_ids_only, warmup)
    check_finite(dict(named_weights(translator.model)), dtype)
    import tensorflow as tf

    module, signatures = _serving_module(
        translator, dtype, num_results, token_ids_only
    )
    with atomic_directory(directory) as folder:
        tf.saved_model.save(module, str(folder), signatures=signatures)
        if warmup:
            _write_warmup_requests(warmup, folder)


def _check_arguments(
    translator: Translator,
    dtype: str,
    num_results: int,
    token_ids_only: bool,
    warmup: Sequence[str],
) -> None:
    """Refuses wrong arguments, and those whose packages are missing."""
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
    if dtype not in _DTYPES:
        raise ValueError(
            f"`dtype` must be one of {_DTYPES}. Received: dtype={dtype!r}."
        )
    models = getattr(translator.model, "models", [translator.model])
    for model in models:
        if model.compute_dtype != "float32":
            raise InputError(
                "A SavedModel computes in float32. Received: a model that "
                f"computes in {model.compute_dtype}. Load it with "
                '`dtype="float32"`.'
            )
    if isinstance(warmup, str):
        raise TypeError(
            "`warmup` must be a list of strings. Received a string; pass "
            f"[{warmup!r}]."
        )
    if token_ids_only:
        if warmup:
            raise ValueError(
                "`warmup` must be empty with `token_ids_only`: its sentences "
                "are strings."
            )
        return
    if warmup:
        check_packages(
            "Warm-up requests need the package tensorflow-serving-api",
            "serving",
            "tensorflow_serving",
        )
    for vocabulary in (translator.source_vocabulary, translator.vocabulary):
        if not isinstance(vocabulary, Vocabulary):
            raise InputError(
                f"A {type(vocabulary).__name__} does not run in a TensorFlow "
                "graph; only SentencePiece (`Vocabulary`) does. Export the "
                "signature on ids alone (`token_ids_only`), and tokenize "
                "before it."
            )
    try:
        import tensorflow_text  # noqa: F401
    except ImportError as error:
        raise InputError(
            "A SavedModel of strings needs the package tensorflow-text, which "
            "exists only for Linux and macOS: `pip install tensorflow-text` "
            "there, or export token ids alone (`--token-ids-only`, "
            "`token_ids_only=True`)."
        ) from error


def _serving_module(
    translator: Translator, dtype: str, num_results: int, token_ids_only: bool
) -> tuple["tf.Module", dict[str, Callable]]:
    """Returns the arguments of `tf.saved_model.save`: module and signatures."""
    import tensorflow as tf

    module = tf.Module()
    module.weights, weights_in_use = _stored_weights(translator.model, dtype)

    def decode(source_token_ids: Tensor, num_results: int) -> dict[str, Tensor]:
        with weights_in_use():
            return _search(translator, source_token_ids, num_results)

    def token_ids(source_token_ids: Tensor) -> dict[str, Tensor]:
        return decode(source_token_ids, num_results)

    def graph(function: Callable, *spec: Any) -> Callable:
        return tf.function(
            function, input_signature=[tf.TensorSpec(*spec)], autograph=False
        )

    ids = (None, None), tf.int32, "source_token_ids"
    signatures = {"token_ids": graph(token_ids, *ids)}
    if not token_ids_only:
        text = _Text(translator)
        # TensorFlow only saves objects that attributes of the module refer to.
        module.tokenizers = [text.source, text.target]

        def n_best(
            sentences: Tensor, num_results: int = num_results
        ) -> dict[str, Tensor]:
            sentences = clean_text_in_graph(sentences)
            results = decode(text.token_ids(sentences), num_results)
            return text.translations(sentences, results)

        def serving_default(sentences: Tensor) -> dict[str, Tensor]:
            results = n_best(sentences, num_results=1)
            return {name: value[:, 0] for name, value in results.items()}

        strings = (None,), tf.string, "sentences"
        signatures["serving_default"] = graph(serving_default, *strings)
        signatures["n_best"] = graph(
            lambda sentences: n_best(sentences), *strings
        )
    module.functions = signatures
    return module, signatures


def _stored_weights(
    model: Transformer | Ensemble, dtype: str
) -> tuple[list[Any], Callable[[], AbstractContextManager]]:
    """Returns variables to save, and a context that computes with them.

    In float32 they are the model's own. In float16 they are copies, which the
    graph casts to float32: half the file size, the same arithmetic. Quantized
    weights stay int8.
    """
    import tensorflow as tf

    if dtype == "float32":
        variables = [weight.value for weight in model.weights]
        return variables, contextlib.nullcontext
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
        mapping = [
            (weight, tf.cast(tf.convert_to_tensor(variable), weight.dtype))
            for variable, weight in zip(stored, model.weights)
        ]
        return keras.StatelessScope(state_mapping=mapping)

    return stored, in_use


def _search(
    translator: Translator, source_token_ids: Tensor, num_results: int
) -> dict[str, Tensor]:
    """Runs the beam search of a `Translator` on tensors."""
    constraints = make_constraints(
        source_token_ids,
        max_extra_length=translator.max_extra_length,
        max_length=translator.max_length,
        min_length=translator.min_length,
    )
    constraints = as_tensors(constraints)
    length_penalty = keras.ops.convert_to_tensor(
        translator.length_penalty, "float32"
    )
    return beam_search_loop(
        translator.model,
        (constraints, length_penalty),
        num_beams=translator.num_beams,
        num_results=num_results,
        no_repeat_ngram=translator.no_repeat_ngram,
    )


class _Text:
    """Converts strings to ids and back in the graph, like `Translator`."""

    def __init__(self, translator: Translator) -> None:
        import tensorflow_text

        # Each is a `Vocabulary`, as the export has checked.
        source: Any = translator.source_vocabulary
        target: Any = translator.vocabulary
        self.limit = translator.max_source_length - 1
        self.end_id = source.end_id
        # If loaded tokenizers have the same name, even in several
        # SavedModels, all of them are the first one loaded.
        self.source, self.target = (
            tensorflow_text.SentencepieceTokenizer(
                model=vocabulary.model,
                name="sentencepiece_"
                + hashlib.sha256(vocabulary.model).hexdigest(),
            )
            for vocabulary in (source, target)
        )
        self._read_spec(target.model)

    def _read_spec(self, model: bytes) -> None:
        """Reads what SentencePiece strips from the beginning of a text."""
        from sentencepiece import sentencepiece_model_pb2

        proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
        proto.ParseFromString(model)
        spec = proto.normalizer_spec
        self.removes_all_blanks = spec.remove_extra_whitespaces
        self.begins_with_blank = [
            spec.add_dummy_prefix and piece.piece.startswith(_BLANK_OF_PIECES)
            for piece in proto.pieces
        ]
        self.unknown_id = load_processor(model, "vocabulary").unk_id()

    def token_ids(self, sentences: Tensor) -> Tensor:
        """Splits clean strings `(B,)` into token ids, int32 `(B, S)`."""
        import tensorflow as tf

        rows = self.source.tokenize(sentences)[:, : self.limit]
        ends = tf.fill((tf.shape(sentences)[0], 1), self.end_id)
        return tf.concat([rows, ends], axis=1).to_tensor()

    def translations(
        self, sentences: Tensor, results: dict[str, Tensor]
    ) -> dict[str, Tensor]:
        """Returns strings and scores `(B, num_results)` of the results.

        A translation has the tokens before the first end of sentence, where
        `cumsum(token_id == END_ID)` is 0.
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
        # Bytes that are not UTF-8 become U+FFFD.
        texts = tf.strings.unicode_transcode(
            self._detokenize(rows), "UTF-8", "UTF-8"
        )
        # A translation is one line, as readers count lines.
        texts = tf.strings.regex_replace(texts, r"\n", " ")
        texts = tf.reshape(texts, (batch_size, num_results))
        # A blank sentence has one translation, itself, with the score 0.
        is_blank = tf.equal(sentences, "")[:, None]
        blank_scores = tf.where(tf.range(num_results) == 0, 0.0, IMPOSSIBLE)
        return {
            "translations": tf.where(is_blank, "", texts),
            "scores": tf.where(is_blank, blank_scores, results["scores"]),
        }

    def _detokenize(self, rows: "tf.RaggedTensor") -> Tensor:
        """Returns the text of rows of ids, like SentencePiece in Python.

        TensorFlow Text removes all blanks at the beginning of a text. Python's
        SentencePiece, by default, only removes the one that it added before the
        first word. So the text is decoded after an unknown token, whose text is
        then cut off.
        """
        import tensorflow as tf

        if self.removes_all_blanks:
            return self.target.detokenize(rows)
        marker = tf.fill((rows.nrows(), 1), self.unknown_id)
        marker_text = self.target.detokenize(marker)
        texts = self.target.detokenize(tf.concat([marker, rows], axis=1))
        texts = tf.strings.substr(
            texts, tf.strings.length(marker_text), tf.strings.length(texts)
        )
        # Rows without a token begin with padding, which is not a blank.
        first = rows[:, :1].to_tensor(shape=(None, 1))[:, 0]
        return tf.where(
            tf.gather(self.begins_with_blank, first),
            tf.strings.regex_replace(texts, "^ ", ""),
            texts,
        )


def _write_warmup_requests(
    sentences: Sequence[str], directory: pathlib.Path
) -> None:
    """Writes a request per sentence, where TensorFlow Serving expects it.

    It reads `assets.extra/tf_serving_warmup_requests` of a SavedModel, a
    TFRecord file of protocol buffers `PredictionLog`.
    """
    import tensorflow as tf
    from tensorflow_serving.apis import predict_pb2
    from tensorflow_serving.apis import prediction_log_pb2

    folder = directory / "assets.extra"
    folder.mkdir()
    path = folder / "tf_serving_warmup_requests"
    with tf.io.TFRecordWriter(str(path)) as writer:
        for sentence in sentences:
            request = predict_pb2.PredictRequest()
            request.model_spec.signature_name = "serving_default"
            request.inputs["sentences"].CopyFrom(
                tf.make_tensor_proto([sentence])
            )
            log = prediction_log_pb2.PredictionLog(
                predict_log=prediction_log_pb2.PredictLog(request=request)
            )
            writer.write(log.SerializeToString())
