"""A SentencePiece vocabulary as a tokenizer of KerasHub."""

import pathlib
from typing import Any
from typing import Self

import keras
import keras_hub
import numpy as np

from relative_attention.data import Vocabulary
from relative_attention.errors import InputError
from relative_attention.hub.preset_source import load_from_preset
from relative_attention.hub.translation_backbone import TranslationBackbone
from relative_attention.quiet_tensorflow import without_info_lines

# The file of the source's vocabulary where it is not that of the target.
SOURCE_TOKENIZER_FILE = "source_tokenizer.json"
TOKENIZER_FILE = "tokenizer.json"


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationTokenizer(keras_hub.tokenizers.SentencePieceTokenizer):
    """Turns text into the ids of a SentencePiece model, and back.

    Ids: padding 0, end of sentence 1. Neither is added to a text here.

    Args:
        proto: bytes, a serialised SentencePiece model, or the path of its
            file. Defaults to `None`: it comes later, by `set_proto`.
        **kwargs: arguments of `keras_hub.tokenizers.SentencePieceTokenizer`.

    Call arguments:
        inputs: string, or list, array or tensor of strings.

    Raises:
        InputError: if `proto` is no SentencePiece model, or has other ids
            for padding and end of sentence.

    Example:
    >>> tokenizer = TranslationTokenizer.from_preset(
    ...     "multi30k_en_de_tiny_relative"
    ... )
    >>> tokenizer.detokenize(tokenizer(["Ein Hund."]))
    ['Ein Hund.']
    """

    backbone_cls = TranslationBackbone

    def __init__(self, proto: bytes | str | None = None, **kwargs: Any) -> None:
        self.vocabulary: Any = None
        self._special_token_attrs = ["end_token", "pad_token"]
        self.end_token = self.pad_token = None
        self.end_token_id = Vocabulary.end_id
        self.pad_token_id = Vocabulary.padding_id
        super().__init__(proto=proto, **kwargs)

    @classmethod
    def from_preset(
        cls, preset: str, config_file: str = TOKENIZER_FILE, **kwargs: Any
    ) -> Self:
        """Loads the vocabulary of the target.

        Args:
            preset: as of `TranslationLM.from_preset`.
            config_file: string. `"source_tokenizer.json"` is the vocabulary
                of the source, where it has one of its own. Defaults to
                `"tokenizer.json"`.
            **kwargs: arguments of the tokenizer.

        Returns:
            `TranslationTokenizer`.

        Raises:
            InputError: as `TranslationLM.from_preset`.
        """
        return load_from_preset(
            preset,
            lambda translator: cls.from_vocabulary(
                translator.source_vocabulary
                if config_file == SOURCE_TOKENIZER_FILE
                else translator.vocabulary,
                config_file=config_file,
                **kwargs,
            ),
            lambda: super(TranslationTokenizer, cls).from_preset(
                str(preset), config_file=config_file, **kwargs
            ),
        )

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a tokenizer of what `get_config` returned.

        Args:
            config: dict.

        Raises:
            InputError: if it names a file: whoever wrote the config of a
                preset could have any file read. KerasHub refuses it since
                0.32.
        """
        proto = config.get("proto")
        if isinstance(proto, str) and pathlib.Path(proto).exists():
            raise InputError(
                f"`proto` is {proto}, a file outside of the model archive."
            )
        return super().from_config(config)

    @classmethod
    def from_vocabulary(cls, vocabulary: Any, **kwargs: Any) -> Self:
        """Makes a tokenizer of a `Vocabulary`.

        Args:
            vocabulary: `Vocabulary`.
            **kwargs: arguments of the tokenizer.

        Raises:
            InputError: if it is of another kind, which KerasHub's
                SentencePiece tokenizer cannot read.
        """
        if not isinstance(vocabulary, Vocabulary):
            raise InputError(
                "A tokenizer of KerasHub is made of a SentencePiece "
                "vocabulary (vocabulary.model). Received: "
                f"{type(vocabulary).__name__}. `relative_attention.Translator` "
                "and a SavedModel take every kind."
            )
        return cls(proto=vocabulary.model, **kwargs)

    def set_proto(self, proto: bytes | str | None) -> None:
        """Takes another SentencePiece model.

        Args:
            proto: as of the class.

        Raises:
            InputError: as of the class.
        """
        # KerasHub's own error would be that of a graph that cannot be made.
        # A text is a path, or base64, which it tells apart; in Keras' safe
        # mode it refuses paths.
        self.vocabulary = (
            Vocabulary(proto) if isinstance(proto, bytes) else None
        )
        with without_info_lines():
            super().set_proto(proto)
        if self.vocabulary is None and self.proto is not None:
            self.vocabulary = Vocabulary(self.proto)

    def rows(self, texts: Any) -> list[list[int]]:
        """Returns the ids of texts, outside of graphs.

        Args:
            texts: list or array of strings.
        """
        self._check_vocabulary()
        return self.vocabulary.encode(
            text.decode() if isinstance(text, bytes) else str(text)
            for text in np.asarray(texts, object).ravel()
        )

    def _update_special_token_ids(self) -> None:
        # They are told by their ids, whatever their pieces are called.
        pieces = self.get_vocabulary()
        self.pad_token = pieces[self.pad_token_id]
        self.end_token = pieces[self.end_token_id]

    def load_assets(self, dir_path: str) -> None:
        """Reads the vocabulary of a preset or a `.keras` file.

        Args:
            dir_path: string. The folder of the file.
        """
        # As bytes: of a path KerasHub cannot know, in Keras' safe mode, that
        # it is one of the preset's own.
        (file,) = self.file_assets
        self.set_proto(pathlib.Path(dir_path, file).read_bytes())
