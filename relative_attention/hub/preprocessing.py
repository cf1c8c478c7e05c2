"""Tokenizer and preprocessor: strings to rows of ids, and back.

KerasHub's `StartEndPacker` pads all batches to one length. As sentences differ
in length, a batch here is as long as its longest row.
"""

import contextlib
import pathlib
from typing import Any
from typing import Self

import keras
import keras_hub
import numpy as np

from relative_attention.data import Vocabulary
from relative_attention.errors import InputError
from relative_attention.hub.backbone import TranslationBackbone
from relative_attention.hub.presets import FromPreset
from relative_attention.hub.presets import check_class
from relative_attention.text.form import clean_text
from relative_attention.text.form import clean_text_in_graph

# The file of the source vocabulary if it differs from the target's.
SOURCE_TOKENIZER_FILE = "source_tokenizer.json"
TOKENIZER_FILE = "tokenizer.json"
# Row lengths are multiples of this, so that fewer lengths are compiled.
_LENGTH_STEP = 8


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationTokenizer(
    FromPreset, keras_hub.tokenizers.SentencePieceTokenizer
):
    """Turns text into the ids of a SentencePiece model, and back.

    Ids: padding 0, end of sentence 1. Neither is added to a text here.

    Args:
        proto: bytes, a serialized SentencePiece model, or the path of its
            file. Defaults to `None`: it is set later, by `set_proto`.
        **kwargs: arguments of `keras_hub.tokenizers.SentencePieceTokenizer`.

    Call arguments:
        inputs: string, or list, array or tensor of strings.

    Raises:
        InputError: if `proto` is not a SentencePiece model, or has other ids
            for padding and end of sentence.

    Example:
    >>> name = "tatoeba_en_de"
    >>> tokenizer = ra.hub.TranslationTokenizer.from_preset(name)
    >>> tokenizer.detokenize(tokenizer(["Ein Hund."]))
    ['Ein Hund.']
    """

    backbone_cls = TranslationBackbone

    def __init__(self, proto: bytes | str | None = None, **kwargs: Any) -> None:
        # Of the same model: outside of graphs it encodes as `Translator` does.
        self.vocabulary: Any = None
        self._special_token_attrs = ["end_token", "pad_token"]
        self.end_token = self.pad_token = None
        self.end_token_id = Vocabulary.end_id
        self.pad_token_id = Vocabulary.padding_id
        super().__init__(proto=proto, **kwargs)

    @classmethod
    def from_translator(
        cls, translator: Any, config_file: str = TOKENIZER_FILE, **kwargs: Any
    ) -> Self:
        """Makes a tokenizer from a vocabulary of a `Translator`.

        Args:
            translator: `Translator`.
            config_file: string. `"source_tokenizer.json"` for a separate
                vocabulary of the source. Defaults to `"tokenizer.json"`, the
                vocabulary of the target.
            **kwargs: arguments of the tokenizer.

        Raises:
            InputError: as `from_vocabulary`.
        """
        vocabulary = translator.vocabulary
        if config_file == SOURCE_TOKENIZER_FILE:
            vocabulary = translator.source_vocabulary
        return cls.from_vocabulary(
            vocabulary, config_file=config_file, **kwargs
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a tokenizer from what `get_config` returned.

        Args:
            config: dict.

        Raises:
            InputError: if it names a file, as a preset could then read any
                file. KerasHub refuses it since 0.32.
        """
        proto = config.get("proto")
        # KerasHub takes a string for a path or for base64.
        if isinstance(proto, str) and pathlib.Path(proto).exists():
            raise InputError(
                f"`proto` is {proto}, a file outside of the model archive."
            )
        return super().from_config(config)

    @classmethod
    def from_vocabulary(cls, vocabulary: Any, **kwargs: Any) -> Self:
        """Makes a tokenizer from a `Vocabulary`.

        Args:
            vocabulary: `Vocabulary`.
            **kwargs: arguments of the tokenizer.

        Raises:
            InputError: if it is another kind of vocabulary, which KerasHub's
                SentencePiece tokenizer cannot read.
        """
        if not isinstance(vocabulary, Vocabulary):
            raise InputError(
                "A tokenizer of KerasHub is made from a SentencePiece "
                "vocabulary (vocabulary.model). Received: "
                f"{type(vocabulary).__name__}. `relative_attention.Translator` "
                "takes every kind."
            )
        return cls(proto=vocabulary.model, **kwargs)

    def set_proto(self, proto: bytes | str | None) -> None:
        """Sets the SentencePiece model.

        Args:
            proto: as for the class.

        Raises:
            InputError: as for the class.
        """
        # Checked first: KerasHub's error would be about a graph that cannot
        # be made. Only KerasHub distinguishes a path from base64.
        self.vocabulary = (
            Vocabulary(proto) if isinstance(proto, bytes) else None
        )
        super().set_proto(proto)
        if self.vocabulary is None and self.proto is not None:
            self.vocabulary = Vocabulary(self.proto)

    def rows(self, texts: Any) -> Any:
        """Returns the ids of texts.

        Args:
            texts: list or array of strings, or a tensor of TensorFlow.

        Returns:
            List of lists of int; in a TensorFlow graph a ragged tensor.
        """
        self._check_vocabulary()
        # In a data set the tokenizer of TensorFlow Text encodes.
        if _is_in_graph(texts):
            import tensorflow as tf

            return tf.cast(self(tf.reshape(texts, [-1])), tf.int32)
        # Elsewhere ids are exactly those of `Translator`.
        return self.vocabulary.encode(
            map(_text, np.asarray(texts, object).ravel())
        )

    def tokenize(self, inputs: Any) -> Any:
        """Returns the ids of texts, which are cleaned, see `clean_text`.

        Args:
            inputs: as for a call.
        """
        self._check_vocabulary()
        return super().tokenize(_cleaned(inputs))

    def _update_special_token_ids(self) -> None:
        # Set by their ids, whatever the names of their pieces.
        pieces = self.get_vocabulary()
        self.pad_token = pieces[self.pad_token_id]
        self.end_token = pieces[self.end_token_id]

    def load_assets(self, dir_path: str) -> None:
        """Reads the vocabulary of a preset or a `.keras` file.

        Args:
            dir_path: string. The folder of the file.
        """
        # As bytes: Keras' safe mode refuses paths, even of the preset's own
        # files.
        (file,) = self.file_assets
        self.set_proto(pathlib.Path(dir_path, file).read_bytes())


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationPreprocessor(
    FromPreset, keras_hub.models.Seq2SeqLMPreprocessor
):
    """Strings to ids and back, as `TranslationLM` needs them.

        encoder_token_ids  [12, 7, 31,  1]
        decoder_token_ids  [ 0,  9, 22, 14]      the decoder's inputs
        labels             [ 9, 22, 14,  1]      what it should predict

    Args:
        tokenizer: `TranslationTokenizer` of the target, and of the source
            unless `source_tokenizer` is given.
        source_tokenizer: `TranslationTokenizer` of the source. Defaults to
            `None`, a joint vocabulary.
        encoder_sequence_length: int. Length of the rows of ids of all
            sources; longer ones are cut. Defaults to `None`: the length of
            the longest in a batch and up to 7 more, without a cut.
        decoder_sequence_length: int. The same for targets.
        start_token_id: int. First id of the decoder's inputs, see
            `TransformerConfig`. Defaults to `0`.
        **kwargs: arguments of `keras_hub.models.Preprocessor`.

    Call arguments:
        x: strings of sources; or a dict of strings, `"encoder_text"` and,
            except for a prediction, `"decoder_text"`.
        y: strings of targets, if `x` is the sources. Defaults to `None`:
            targets are empty.
        sample_weight: float `(B,)`, weights of the pairs.
        encoder_sequence_length, decoder_sequence_length: int. Override those
            of the preprocessor.
        sequence_length: int. The same as `decoder_sequence_length`.

    Returns:
        Triple of the inputs of `TranslationBackbone`, int labels `(B, T)`,
        and float weights `(B, T)`, 0 where there is no label.
    """

    backbone_cls = TranslationBackbone
    tokenizer_cls = TranslationTokenizer

    def __init__(
        self,
        tokenizer: TranslationTokenizer,
        source_tokenizer: TranslationTokenizer | None = None,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        start_token_id: int = 0,
        **kwargs: Any,
    ) -> None:
        check_class("tokenizer", tokenizer, TranslationTokenizer)
        if source_tokenizer is not None:
            check_class(
                "source_tokenizer", source_tokenizer, TranslationTokenizer
            )
        super().__init__(
            tokenizer,
            encoder_sequence_length=encoder_sequence_length,
            decoder_sequence_length=decoder_sequence_length,
            **kwargs,
        )
        self.source_tokenizer = source_tokenizer
        self.start_token_id = start_token_id

    @classmethod
    def from_translator(cls, translator: Any, **kwargs: Any) -> Self:
        """Makes a preprocessor from the vocabularies of a `Translator`.

        Args:
            translator: `Translator`.
            **kwargs: arguments of the preprocessor.

        Raises:
            InputError: as `TranslationTokenizer.from_vocabulary`.
        """
        tokenizer_of = cls.tokenizer_cls.from_translator
        # A joint vocabulary is stored once.
        is_joint = translator.source_vocabulary is translator.vocabulary
        arguments = {
            "tokenizer": tokenizer_of(translator),
            "source_tokenizer": None
            if is_joint
            else tokenizer_of(translator, SOURCE_TOKENIZER_FILE),
            "start_token_id": translator.model.start_token_id,
        }
        return cls(**{**arguments, **kwargs})

    @classmethod
    def _add_missing_kwargs(
        cls, loader: Any, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        # KerasHub uses these if a preset has no preprocessor.
        fields = loader.config["config"]
        kwargs = super()._add_missing_kwargs(loader, kwargs)
        if fields.get("source_vocabulary_size"):
            with contextlib.suppress(FileNotFoundError):
                kwargs.setdefault(
                    "source_tokenizer",
                    loader.load_tokenizer(
                        cls.tokenizer_cls, SOURCE_TOKENIZER_FILE
                    ),
                )
        return {"start_token_id": fields.get("start_token_id", 0), **kwargs}

    # === Training ===

    def build(self, input_shape: Any) -> None:
        # KerasHub's packers are not used.
        self.built = True

    def call(
        self,
        x: Any,
        y: Any = None,
        sample_weight: Any = None,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> Any:
        sources, targets = _texts(x, y)
        target_length = (
            decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length
        )
        rows = self.tokenizer.rows(targets)
        labels = _padded(rows, target_length, after=Vocabulary.end_id)
        mask = labels != Vocabulary.padding_id
        inputs = {
            **self._source_inputs(sources, encoder_sequence_length),
            "decoder_token_ids": _padded(
                rows, target_length, before=self.start_token_id
            ),
            "decoder_padding_mask": mask,
        }
        data = (inputs, labels, _token_weights(mask, sample_weight))
        # A single pair has no axis of sentences, as in KerasHub.
        if np.ndim(sources) == 0:
            data = keras.tree.map_structure(lambda array: array[0], data)
        return data

    def _source_inputs(
        self, sources: Any, length: int | None
    ) -> dict[str, Any]:
        """Returns ids and mask of sources, with an end of sentence."""
        length = length or self.encoder_sequence_length
        rows = self.source_rows(sources)
        ids = _padded(rows, length, after=Vocabulary.end_id)
        return {
            "encoder_token_ids": ids,
            "encoder_padding_mask": ids != Vocabulary.padding_id,
        }

    # === Generation ===

    def generate_preprocess(
        self,
        x: Any,
        *,
        encoder_sequence_length: int | None = None,
        decoder_sequence_length: int | None = None,
        sequence_length: int | None = None,
    ) -> dict[str, np.ndarray]:
        """Makes the inputs of a generation, outside of graphs.

        Args:
            x: list or array of strings, the sources; or a dict of them,
                `"encoder_text"`, and of the beginnings of the translations,
                `"decoder_text"`.
            encoder_sequence_length, decoder_sequence_length: as for a call.
                Rows of the decoder have one id for the start, and as many as
                the longest translation may have. That defaults to the
                preprocessor's `decoder_sequence_length`, and without one to
                twice the length of the sources beyond the beginnings.
            sequence_length: int. The same as `decoder_sequence_length`.

        Returns:
            Dict of the inputs of `TranslationBackbone`.
        """
        # As in KerasHub, rows have room for what is to be generated.
        sources, prefixes = _texts(x, None)
        inputs = self._source_inputs(sources, encoder_sequence_length)
        rows = self.tokenizer.rows(prefixes)
        lengths = np.array([len(row) + 1 for row in rows])
        longest = max(lengths, default=0)
        length = (
            decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length
            or longest + 2 * inputs["encoder_token_ids"].shape[1]
        )
        ids = _padded(rows, max(length, longest), before=self.start_token_id)
        return {
            **inputs,
            "decoder_token_ids": ids,
            "decoder_padding_mask": np.arange(ids.shape[1]) < lengths[:, None],
        }

    def source_rows(self, sources: Any) -> Any:
        """Returns the ids of sources, without an end of sentence.

        Args:
            sources: as for `TranslationTokenizer.rows`.
        """
        return (self.source_tokenizer or self.tokenizer).rows(sources)

    def generate_postprocess(self, x: dict[str, Any]) -> list[str]:
        """Returns the generated texts, up to their ends.

        Args:
            x: dict of `"decoder_token_ids"` `(B, T)`, which start with the
                start token, and `"decoder_padding_mask"`.
        """
        ids, mask = (
            keras.ops.convert_to_numpy(x[f"decoder_{name}"])
            for name in ("token_ids", "padding_mask")
        )
        # Without the start, whose id may be that of a piece.
        texts = self.tokenizer.vocabulary.decode((ids * mask)[:, 1:])
        # A translation is one line, as for `Translator`.
        return [text.replace("\n", " ") for text in texts]

    # === Config ===

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the preprocessor, for JSON."""
        return {
            **super().get_config(),
            "source_tokenizer": self.source_tokenizer
            and keras.layers.serialize(self.source_tokenizer),
            "encoder_sequence_length": self.encoder_sequence_length,
            "decoder_sequence_length": self.decoder_sequence_length,
            "start_token_id": self.start_token_id,
        }

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a preprocessor from what `get_config` returned.

        Args:
            config: dict.
        """
        source = config.get("source_tokenizer")
        if isinstance(source, dict):
            source = keras.layers.deserialize(source)
        return super().from_config({**config, "source_tokenizer": source})


def padded_length(length: int) -> int:
    """Returns the length of rows of ids, given the longest."""
    return -(-length // _LENGTH_STEP) * _LENGTH_STEP


def _texts(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns the texts of sources and of targets, which may be empty."""
    sources, targets = x, y
    if isinstance(x, dict):
        if "encoder_text" not in x:
            raise InputError(
                'A dict of texts must have the key "encoder_text", and for '
                f'training "decoder_text". Received the keys: {sorted(x)}.'
            )
        if y is not None:
            raise InputError(
                'Targets must be given once: as "decoder_text" beside '
                '"encoder_text", or beside the strings of sources.'
            )
        sources, targets = x["encoder_text"], x.get("decoder_text")
    # `predict` gives no targets; then all are empty.
    if targets is None:
        if _is_in_graph(sources):
            import tensorflow as tf

            targets = tf.fill(tf.shape(sources), "")
        else:
            targets = [""] * np.size(sources)
    return sources, targets


def _cleaned(texts: Any) -> Any:
    """Cleans texts: a string, or a list, array or tensor of strings."""
    if _is_in_graph(texts):
        return clean_text_in_graph(texts)
    if isinstance(texts, list | tuple):
        return [clean_text(_text(text)) for text in texts]
    texts = np.asarray(texts, object)
    cleaned = [clean_text(_text(text)) for text in texts.ravel()]
    return np.array(cleaned, object).reshape(texts.shape)


def _text(text: Any) -> str:
    return text.decode() if isinstance(text, bytes) else str(text)


def _is_in_graph(texts: Any) -> bool:
    """Tells whether it is a tensor in a graph, without importing TensorFlow."""
    is_tensor = type(texts).__module__.startswith("tensorflow.")
    return is_tensor and not hasattr(texts, "numpy")


# === Rows of ids: lists, or a ragged tensor in a TensorFlow graph ===


def _padded(
    rows: Any,
    length: int | None,
    before: int | None = None,
    after: int | None = None,
) -> Any:
    """Puts an id before or after those of each row, and pads with 0.

    Rows are cut to `length`, with room for the id. Without a length they are as
    long as the longest, and up to 7 more.
    """
    end = None if length is None else length - 1
    if isinstance(rows, list):
        first, last = ([] if i is None else [i] for i in (before, after))
        if length is None:
            length = padded_length(max(map(len, rows), default=0) + 1)
        rows = [[*first, *row[:end], *last] for row in rows]
        return keras.utils.pad_sequences(rows, length, padding="post")
    import tensorflow as tf

    rows = rows[:, :end]
    ids = tf.fill([rows.nrows(), 1], after if before is None else before)
    parts = [rows, ids] if before is None else [ids, rows]
    padded = tf.concat(parts, axis=1).to_tensor(0, shape=(None, length))
    if length is None:
        missing = -tf.shape(padded)[1] % _LENGTH_STEP
        padded = tf.pad(padded, [[0, 0], [0, missing]])
    return padded


def _token_weights(mask: Any, sample_weight: Any) -> Any:
    """Returns the weights of tokens `(B, T)` from those of sentences `(B,)`."""
    if isinstance(mask, np.ndarray):
        cast = np.asarray
    else:
        import tensorflow as tf

        cast = tf.cast
    weights = cast(mask, "float32")
    if sample_weight is None:
        return weights
    return weights * cast(sample_weight, "float32")[..., None]
