"""Encodes text as token ids and back, by SentencePiece."""

import io
import itertools
import math
import pathlib
import random
import re
from collections.abc import Iterable
from typing import Any

import sentencepiece

from relative_attention.argument_checks import checked_int
from relative_attention.data.sentencepiece_ids import with_our_ids
from relative_attention.data.token_rows import ids_of_text
from relative_attention.errors import InputError
from relative_attention.files import atomic_file

# Bounds the memory and the time that training of a vocabulary takes. Of more
# text, so many lines are drawn.
_MAX_TRAINING_LINES = 1_000_000
# The error of SentencePiece if text has fewer pieces than asked for.
_TOO_MANY = "Vocabulary size too high"


class Vocabulary:
    """Encodes text as byte-pair pieces that restore every line exactly.

    Ids: padding 0, end of sentence 1, unknown 2. Text is taken as it is (no
    normalisation), and characters that the training text lacked are spelt in
    bytes, so that `decode(encode([line])) == [line]` and nothing is ever
    unknown. One character is lost: U+2581, SentencePiece's mark for a blank,
    comes back as a blank.

    Args:
        model: bytes. A serialised SentencePiece model with these ids.

    Raises:
        InputError: if `model` is not a SentencePiece model, or has other ids
            for padding and end of sentence.
    """

    padding_id = 0
    end_id = 1

    def __init__(self, model: bytes) -> None:
        self.model = bytes(model)
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.load_from_serialized_proto(self.model)
        except RuntimeError as error:
            raise InputError(
                "The vocabulary is not a SentencePiece model, or is damaged."
            ) from error
        ids = (self._processor.pad_id(), self._processor.eos_id())
        if ids != (self.padding_id, self.end_id):
            raise InputError(
                "The SentencePiece model must have padding id 0 and end of "
                f"sentence id 1. Received: {ids[0]} and {ids[1]}. Train it "
                "with `Vocabulary.train`."
            )

    @classmethod
    def train(
        cls, lines: Iterable[str], size: int, or_fewer: bool = False
    ) -> "Vocabulary":
        """Learns a vocabulary from text.

        The same text gives the same vocabulary. Of more than a million lines,
        a million are drawn at random, always with the same seed.

        Args:
            lines: iterable of strings, the lines of both languages for a
                joint vocabulary.
            size: int. Number of pieces, 259 of them special or bytes.
            or_fewer: A boolean to indicate whether to learn fewer pieces if
                the text does not carry as many. Defaults to `False`.

        Returns:
            `Vocabulary`.

        Raises:
            TypeError: if `lines` is a single string.
            ValueError: if `size` is no positive int.
            InputError: if there is no text, or too little or too varied for
                the size.
        """
        size = checked_int("size", size, None, "a positive int")
        if isinstance(lines, str):
            raise TypeError(
                "`lines` must be an iterable of strings. Received a string; "
                f"pass [{lines[:40]!r}] or the lines of it."
            )
        sample = _sample(lines, _MAX_TRAINING_LINES)
        try:
            return cls(_learn(sample, size))
        except RuntimeError as error:
            if or_fewer and _TOO_MANY in str(error):
                return cls(_learn(sample, size, hard_vocab_limit=False))
            raise InputError(
                f"No vocabulary of {size} pieces can be learnt from this text "
                f"({_reason(error)}). Choose another `vocabulary.size`, or "
                "give more text."
            ) from error

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Vocabulary":
        """Reads a vocabulary that `save` wrote.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is not a vocabulary.
        """
        try:
            return cls(pathlib.Path(path).read_bytes())
        except OSError as error:
            raise InputError(f"No vocabulary at {path}: {error}.") from error

    @classmethod
    def from_sentencepiece(cls, path: pathlib.Path | str) -> "Vocabulary":
        """Reads a SentencePiece model that was trained elsewhere.

        The model may have been trained with any options. It spells a text
        with the same pieces as before, and only its ids change. It gains no
        byte fallback: its normalisation stays, and what it cannot spell is
        unknown.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is not a SentencePiece
                model.
        """
        try:
            model = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"No SentencePiece model at {path}: {error}."
            ) from error
        return cls(with_our_ids(model, path))

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the SentencePiece model.

        Args:
            path: path of the file.
        """
        with atomic_file(path) as file:
            file.write(self.model)

    def __len__(self) -> int:
        """Returns the number of ids."""
        return self._processor.get_piece_size()

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Returns the token ids of each line, without the end of sentence.

        Args:
            lines: iterable of strings.

        Returns:
            List of lists of int.
        """
        return self._processor.encode(list(lines))

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int, whose padding is left out.

        Returns:
            List of strings.
        """
        rows = [
            ids_of_text(row, self.end_id, self.padding_id) for row in token_ids
        ]
        # Of no rows, SentencePiece makes a string in place of a list.
        return self._processor.decode(rows) if rows else []

    def pieces(self, token_ids: Iterable[int]) -> list[str]:
        """Returns the pieces of one row of ids, for pictures.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        return [self._processor.id_to_piece(int(i)) for i in token_ids]


def _learn(lines: Iterable[str], size: int, **options: Any) -> bytes:
    """Trains a SentencePiece model, and returns it serialised."""
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(lines),
        model_writer=model,
        model_type="bpe",
        vocab_size=size,
        # These four make it lossless.
        normalization_rule_name="identity",
        remove_extra_whitespaces=False,
        character_coverage=1.0,
        byte_fallback=True,
        pad_id=Vocabulary.padding_id,
        eos_id=Vocabulary.end_id,
        unk_id=2,
        bos_id=-1,
        minloglevel=2,
        **options,
    )
    return model.getvalue()


def _sample(lines: Iterable[str], size: int) -> list[str]:
    """Returns up to `size` of the lines, drawn at random in one pass.

    This is algorithm L, which skips most lines without a draw for each.
    SentencePiece's own sampling has another seed in every process.

    Reference:
     - [Li, 1994](https://doi.org/10.1145/198429.198435)
    """
    lines = iter(lines)
    sample = list(itertools.islice(lines, size))
    if len(sample) < size:
        return sample
    draw = random.Random(0)
    # As if each line had drawn a number in (0, 1], and the sample were those
    # with the least: the greatest number in the sample.
    weight = 1.0
    while True:
        # `random()` may be 0, whose logarithm is infinite; `1 - random()` is
        # never 0.
        weight *= math.exp(math.log(1 - draw.random()) / size)
        # The number of lines until one draws less follows a geometric law.
        skip = math.floor(math.log(1 - draw.random()) / math.log1p(-weight))
        following = list(itertools.islice(lines, skip, skip + 1))
        if not following:
            return sample
        sample[draw.randrange(size)] = following[0]


def _reason(error: RuntimeError) -> str:
    """Returns what SentencePiece complains of, in words where they are known.

    Other errors are returned as SentencePiece words them.
    """
    text = str(error)
    if "sentences_.empty" in text:
        return "there is no text"
    if too_large := re.search(r"value <= (\d+)", text):
        return f"it carries at most {too_large[1]}"
    if too_small := re.search(r"required_chars\. \d+ vs (\d+)", text):
        return f"its characters and the special pieces are {too_small[1]}"
    return text.strip().split("\n")[-1]
