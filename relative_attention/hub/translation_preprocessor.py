"""Turns pairs of strings into what a translation task is trained on."""

import contextlib
from typing import Any
from typing import Self

import keras
import keras_hub
import numpy as np

from relative_attention.data import Vocabulary
from relative_attention.errors import InputError
from relative_attention.hub.preset_source import load_from_preset
from relative_attention.hub.token_rows import array_of
from relative_attention.hub.token_rows import behind_start
from relative_attention.hub.token_rows import ended_rows
from relative_attention.hub.token_rows import is_of_tensorflow
from relative_attention.hub.token_rows import token_weights
from relative_attention.hub.translation_backbone import TranslationBackbone
from relative_attention.hub.translation_tokenizer import SOURCE_TOKENIZER_FILE
from relative_attention.hub.translation_tokenizer import TranslationTokenizer


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationPreprocessor(keras_hub.models.Seq2SeqLMPreprocessor):
    """Strings to ids and back, as `TranslationLM` needs them.

        encoder_token_ids  [12, 7, 31,  1]
        decoder_token_ids  [ 0,  9, 22, 14]      what the decoder is given
        labels             [ 9, 22, 14,  1]      what it should answer

    Args:
        tokenizer: `TranslationTokenizer` of the target, and of the source
            unless it has one of its own.
        source_tokenizer: `TranslationTokenizer` of the source. Defaults to
            `None`, the vocabulary is joint.
        encoder_sequence_length: int. Length of the rows of ids of all
            sources; longer ones are cut. Defaults to `None`: as long as the
            longest of a batch, of which nothing is cut, and up to 7 more.
        decoder_sequence_length: int. The same of targets.
        start_token_id: int. What the decoder's inputs start with, see
            `TransformerConfig`. Defaults to `0`.
        **kwargs: arguments of `keras_hub.models.Preprocessor`.

    Call arguments:
        x: strings of sources; or a dict of strings, `"encoder_text"` and,
            but for a prediction, `"decoder_text"`.
        y: strings of targets, where `x` is those of sources. Defaults to
            `None`: targets are empty.
        sample_weight: float `(B,)`, weights of the pairs.
        encoder_sequence_length, decoder_sequence_length: int. In place of
            those of the preprocessor.
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
        for name, value in (
            ("tokenizer", tokenizer),
            ("source_tokenizer", source_tokenizer),
        ):
            is_joint = name == "source_tokenizer" and value is None
            if not is_joint and not isinstance(value, TranslationTokenizer):
                raise InputError(
                    f"`{name}` must be a TranslationTokenizer. Received: "
                    f"{name}={value!r}."
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
    def from_preset(cls, preset: str, **kwargs: Any) -> Self:
        """Loads a preprocessor.

        Args:
            preset: as of `TranslationLM.from_preset`.
            **kwargs: arguments of the preprocessor.

        Returns:
            `TranslationPreprocessor`.

        Raises:
            InputError: as `TranslationLM.from_preset`.
        """
        return load_from_preset(
            preset,
            lambda translator: cls.from_translator(translator, **kwargs),
            lambda: super(TranslationPreprocessor, cls).from_preset(
                str(preset), **kwargs
            ),
        )

    @classmethod
    def from_translator(cls, translator: Any, **kwargs: Any) -> Self:
        """Makes a preprocessor of the vocabularies of a `Translator`.

        Args:
            translator: `Translator`.
            **kwargs: arguments of the preprocessor.

        Raises:
            InputError: as `TranslationTokenizer.from_vocabulary`.
        """
        source, target = translator.source_vocabulary, translator.vocabulary
        of = cls.tokenizer_cls.from_vocabulary
        arguments = {
            "tokenizer": of(target),
            "source_tokenizer": None
            if source is target
            else of(source, config_file=SOURCE_TOKENIZER_FILE),
            "start_token_id": translator.model.start_token_id,
        }
        return cls(**{**arguments, **kwargs})

    @classmethod
    def _add_missing_kwargs(
        cls, loader: Any, kwargs: dict[str, Any]
    ) -> dict[str, Any]:
        # KerasHub asks for these where a preset has no preprocessor.
        fields = loader.config["config"]
        kwargs = super()._add_missing_kwargs(loader, kwargs)
        if (
            fields.get("source_vocabulary_size")
            and "source_tokenizer" not in kwargs
        ):
            with contextlib.suppress(FileNotFoundError):
                kwargs["source_tokenizer"] = loader.load_tokenizer(
                    cls.tokenizer_cls, SOURCE_TOKENIZER_FILE
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
        source_tokenizer = self.source_tokenizer or self.tokenizer
        source_ids = ended_rows(
            source_tokenizer(sources),
            Vocabulary.end_id,
            encoder_sequence_length or self.encoder_sequence_length,
        )
        labels = ended_rows(
            self.tokenizer(targets),
            Vocabulary.end_id,
            decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length,
        )
        mask = labels != Vocabulary.padding_id
        inputs = {
            "encoder_token_ids": source_ids,
            "encoder_padding_mask": source_ids != Vocabulary.padding_id,
            "decoder_token_ids": behind_start(labels, self.start_token_id),
            "decoder_padding_mask": mask,
        }
        weights = token_weights(mask, sample_weight)
        return keras.utils.pack_x_y_sample_weight(inputs, labels, weights)

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
                `"encoder_text"`, and of what the translations begin with,
                `"decoder_text"`.
            encoder_sequence_length, decoder_sequence_length: as of a call.
                Rows of the decoder have as many ids as the longest
                translation may have, and one for the start. They default to
                twice the length of the sources.
            sequence_length: int. The same as `decoder_sequence_length`.

        Returns:
            Dict of the inputs of `TranslationBackbone`.
        """
        sources, prefixes = _texts(x, None)
        source_ids = ended_rows(
            self.source_rows(sources),
            Vocabulary.end_id,
            encoder_sequence_length or self.encoder_sequence_length,
        )
        starts = [
            [self.start_token_id, *row] for row in self.tokenizer.rows(prefixes)
        ]
        longest = max(map(len, starts), default=0)
        length = (
            decoder_sequence_length
            or sequence_length
            or self.decoder_sequence_length
            or longest + 2 * source_ids.shape[1]
        )
        target_ids = array_of(starts, max(length, longest))
        lengths = np.array([[len(row)] for row in starts], "int32")
        return {
            "encoder_token_ids": source_ids,
            "encoder_padding_mask": source_ids != Vocabulary.padding_id,
            "decoder_token_ids": target_ids,
            "decoder_padding_mask": np.arange(target_ids.shape[1]) < lengths,
        }

    def source_rows(self, sources: Any) -> list[list[int]]:
        """Returns the ids of sources, without an end of sentence.

        Args:
            sources: list or array of strings.
        """
        return (self.source_tokenizer or self.tokenizer).rows(sources)

    def generate_postprocess(self, x: dict[str, Any]) -> list[str]:
        """Returns the texts of what was generated, up to their ends.

        Args:
            x: dict of `"decoder_token_ids"` `(B, T)`, which start with the
                start token, and `"decoder_padding_mask"`.
        """
        ids, mask = (
            keras.ops.convert_to_numpy(x[f"decoder_{name}"])
            for name in ("token_ids", "padding_mask")
        )
        texts = self.tokenizer.vocabulary.decode((ids * mask)[:, 1:])
        # A translation is a line, as of `Translator`.
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
        """Makes a preprocessor of what `get_config` returned.

        Args:
            config: dict.
        """
        if isinstance(config.get("source_tokenizer"), dict):
            config = {
                **config,
                "source_tokenizer": keras.layers.deserialize(
                    config["source_tokenizer"]
                ),
            }
        return super().from_config(dict(config))


def _texts(x: Any, y: Any) -> tuple[Any, Any]:
    """Returns the texts of sources and of targets, which may be empty."""
    if not isinstance(x, dict):
        return x, _empty_like(x) if y is None else y
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
    sources = x["encoder_text"]
    targets = x.get("decoder_text")
    return sources, _empty_like(sources) if targets is None else targets


def _empty_like(texts: Any) -> Any:
    """Returns as many empty texts."""
    if isinstance(texts, str | bytes):
        return ""
    if is_of_tensorflow(texts):
        import tensorflow as tf

        return tf.fill(tf.shape(texts), "")
    return [""] * len(texts)
