"""Encodes text as token ids and back, with SentencePiece."""

import functools
import io
import pathlib
import random
import re
from collections.abc import Iterable
from typing import Any

import sentencepiece

from relative_attention.argument_checks import checked_int
from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.text.form import SIGNS
from relative_attention.text.form import clean_text

# The default names of special pieces.
_PADDING, _END = "<pad>", "</s>"
# Bounds memory and time of training a vocabulary. From larger texts, this many
# lines are drawn.
_MAX_TRAINING_LINES = 1_000_000
# SentencePiece's error if the text has fewer pieces than requested.
_TOO_MANY = "Vocabulary size too high"


class Vocabulary:
    """Encodes text as byte-pair pieces that restore every clean line exactly.

    Ids: padding 0, end of sentence 1, unknown 2. All text is cleaned first, see
    `clean_text`: the same words in another form, with a line end or decomposed
    accents, have the same ids. Characters that the training text lacked are
    encoded as bytes. So `decode(encode([line])) == [clean_text(line)]`, and
    nothing is ever unknown.

    Args:
        model: bytes. A serialized SentencePiece model with these ids.

    Raises:
        InputError: if `model` is not a SentencePiece model, or has other ids
            for padding and end of sentence.
    """

    padding_id = 0
    end_id = 1

    def __init__(self, model: bytes) -> None:
        self.model = bytes(model)
        self._processor = load_processor(self.model, "vocabulary")
        ids = (self._processor.pad_id(), self._processor.eos_id())
        if ids != (self.padding_id, self.end_id):
            raise InputError(
                "The SentencePiece model must have padding id 0 and end of "
                f"sentence id 1. Received: {ids[0]} and {ids[1]}. Train it "
                "with `Vocabulary.train`."
            )

    @classmethod
    def train(
        cls,
        lines: Iterable[str],
        size: int,
        or_fewer: bool = False,
        required_chars: str = "",
    ) -> "Vocabulary":
        """Learns a vocabulary from text, cleaned as for `encode`.

        The same text gives the same vocabulary. From more than a million
        lines, a million are drawn at random, always with the same seed.

        Args:
            lines: iterable of strings, the lines of both languages for a
                joint vocabulary.
            size: int. Number of pieces, 259 of them special or bytes.
            or_fewer: A boolean to indicate whether to learn fewer pieces if
                the text is too small for `size`. Defaults to `False`.
            required_chars: string. Characters that get a piece each although
                the text lacks them. Defaults to `""`.

        Returns:
            `Vocabulary`.

        Raises:
            TypeError: if `lines` is a single string.
            ValueError: if `size` is not a positive int.
            InputError: if there is no text, or too little or too varied for
                the size.

        Example:
        >>> lines = ["the cat sees the dog", "the dog sees the cat"] * 20
        >>> vocabulary = ra.Vocabulary.train(lines, 280)
        >>> vocabulary.decode(vocabulary.encode(["the cat"]))
        ['the cat']
        """
        size = checked_int("size", size, None, "a positive int")
        if isinstance(lines, str):
            raise TypeError(
                "`lines` must be an iterable of strings. Received a string; "
                f"pass [{lines[:40]!r}] or the lines of it."
            )
        sample = _sample(map(clean_text, lines), _MAX_TRAINING_LINES)
        learn = functools.partial(
            _learn, sample, size, required_chars=clean_text(required_chars)
        )
        try:
            return cls(learn())
        except RuntimeError as error:
            if or_fewer and _TOO_MANY in str(error):
                return cls(learn(hard_vocab_limit=False))
            raise InputError(
                f"No vocabulary of {size} pieces can be learned from this "
                f"text: {_reason(error)}"
            ) from error

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "Vocabulary":
        """Reads a vocabulary that `save` wrote.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is not a vocabulary.
        """
        content = read_bytes(path, "vocabulary")
        try:
            return cls(content)
        except InputError as error:
            raise InputError(f"{path}: {error}") from error

    @classmethod
    def from_sentencepiece(cls, path: pathlib.Path | str) -> "Vocabulary":
        """Reads a SentencePiece model that was trained elsewhere.

        The model may have been trained with any options. It splits text into
        the same pieces as before; only its ids change. Its normalization
        stays and follows `clean_text`, and it gains no byte fallback:
        characters that it lacks are unknown.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is not a SentencePiece
                model.
        """
        return cls(with_our_ids(read_bytes(path, "SentencePiece model"), path))

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
            lines: iterable of strings. They are cleaned, see `clean_text`.

        Returns:
            List of lists of int.
        """
        return self._encode([clean_text(line) for line in lines])

    def encode_with_signs(self, lines: Iterable[str]) -> list[list[int]]:
        """Returns the token ids of lines in which signs stand for something.

        Signs are U+0001 to U+0008, which `encode` takes out.

        Args:
            lines: iterable of strings, cleaned as for `encode` otherwise.

        Returns:
            List of lists of int.
        """
        return self._encode(
            [clean_text(line, keep_signs=True) for line in lines]
        )

    def _encode(self, lines: list[str]) -> list[list[int]]:
        if len(lines) == 1:
            # Of a list, SentencePiece starts a thread for each core.
            return [self._processor.encode(lines[0])]
        return self._processor.encode(lines)

    @property
    def sign_ids(self) -> tuple[int, ...]:
        """The ids of the signs, each one piece; none without bytes."""
        ids = self._processor.piece_to_id(
            [f"<0x{ord(sign):02X}>" for sign in SIGNS]
        )
        has_bytes = self._processor.unk_id() not in ids
        return tuple(ids) if has_bytes else ()

    def has_piece(self, character: str) -> bool:
        """Returns whether a character is a piece, and so was seen in training.

        Args:
            character: string.
        """
        unknown = self._processor.unk_id()
        return self._processor.piece_to_id(character) != unknown

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int. Padding is ignored.

        Returns:
            List of strings.
        """
        rows = [
            ids_of_text(row, self.end_id, self.padding_id) for row in token_ids
        ]
        if len(rows) == 1:
            return [self._processor.decode(rows[0])]
        # For no rows, SentencePiece returns a string instead of a list.
        return self._processor.decode(rows) if rows else []

    def pieces(self, token_ids: Iterable[int]) -> list[str]:
        """Returns the pieces of one row of ids, for pictures.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        return [self._processor.id_to_piece(int(i)) for i in token_ids]


def read_bytes(path: pathlib.Path | str, kind: str) -> bytes:
    """Reads a file, or raises `InputError` that names its kind."""
    try:
        return pathlib.Path(path).read_bytes()
    except OSError as error:
        raise InputError(f"No {kind} at {path}: {error}.") from error


def load_processor(
    model: bytes, kind: str
) -> sentencepiece.SentencePieceProcessor:
    """Loads a serialized SentencePiece model, or raises `InputError`."""
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except RuntimeError as error:
        raise InputError(
            f"The {kind} is not a SentencePiece model, or is damaged."
        ) from error
    return processor


def _learn(lines: Iterable[str], size: int, **options: Any) -> bytes:
    """Trains a SentencePiece model and returns it serialized."""
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
        # SentencePiece drops longer lines without a word, in bytes.
        max_sentence_length=2**30,
        **options,
    )
    return model.getvalue()


def _sample(lines: Iterable[str], size: int) -> list[str]:
    """Draws up to `size` lines, with equal probability.

    SentencePiece's own sampling has another seed in every process.
    """
    sample: list[str] = []
    draw = random.Random(0)
    for number, line in enumerate(lines):
        if number < size:
            sample.append(line)
        elif (place := draw.randrange(number + 1)) < size:
            sample[place] = line
    return sample


def _reason(error: RuntimeError) -> str:
    """Returns the cause of a SentencePiece error and the way out, if known.

    Other errors are returned unchanged.
    """
    text = str(error)
    if "sentences_.empty" in text:
        return "it is empty."
    if too_large := re.search(r"value <= (\d+)", text):
        return (
            f"it holds at most {too_large[1]}. Choose a smaller "
            "`vocabulary.size`, or give more text."
        )
    if too_small := re.search(r"required_chars\. \d+ vs (\d+)", text):
        return (
            f"its characters and the special pieces alone are {too_small[1]}. "
            f"`vocabulary.size` must be at least {too_small[1]}."
        )
    return text.strip().split("\n")[-1]


def with_our_ids(model: bytes, name: pathlib.Path | str) -> bytes:
    """Returns a SentencePiece model with padding 0, end 1 and unknown 2.

    Its pieces stay the same, and every text is split in the same way. Padding,
    which most models lack, is added. Other special pieces, such as a start of
    sentence, stay without text.
    """
    from google.protobuf.message import DecodeError
    from sentencepiece import sentencepiece_model_pb2

    # protobuf creates the classes of the module on import.
    proto = sentencepiece_model_pb2.ModelProto()  # type: ignore[attr-defined]
    try:
        proto.ParseFromString(bytes(model))
    except DecodeError as error:
        raise InputError(f"{name} is not a SentencePiece model.") from error
    kinds = type(proto).SentencePiece
    pieces = list(proto.pieces)
    unknown = [piece for piece in pieces if piece.type == kinds.UNKNOWN]
    if len(unknown) != 1:
        raise InputError(
            f"{name} is not a SentencePiece model: it must have one unknown "
            f"piece. Received: {len(unknown)}."
        )
    spec = proto.trainer_spec
    # The id of a piece is its index, so the special pieces go first.
    first = [
        _control(pieces, kinds, spec.pad_piece or _PADDING, name),
        _control(pieces, kinds, spec.eos_piece or _END, name),
        unknown[0],
    ]
    taken = {piece.piece for piece in first}
    rest = [piece for piece in pieces if piece.piece not in taken]
    names = [piece.piece for piece in rest]
    del proto.pieces[:]
    proto.pieces.extend([*first, *rest])
    spec.pad_piece, spec.eos_piece = first[0].piece, first[1].piece
    spec.pad_id, spec.eos_id, spec.unk_id = 0, 1, 2
    spec.bos_id = -1
    if spec.bos_piece in names:
        spec.bos_id = len(first) + names.index(spec.bos_piece)
    spec.vocab_size = len(proto.pieces)
    return proto.SerializeToString()


def _control(
    pieces: list[Any], kinds: Any, piece: str, name: pathlib.Path | str
) -> Any:
    """Finds or makes a control symbol, a piece without text."""
    for found in pieces:
        if found.piece == piece:
            if found.type != kinds.CONTROL:
                raise InputError(
                    f"{name} has {piece} as a piece of text; it must be a "
                    "control symbol. Train it with another `pad_piece` or "
                    "`eos_piece`."
                )
            return found
    return kinds(piece=piece, score=0.0, type=kinds.CONTROL)


def ids_of_text(row: Iterable[int], end_id: int, padding_id: int) -> list[int]:
    """Returns the ids before the end of sentence, without padding."""
    ids = [int(token_id) for token_id in row]
    if end_id in ids:
        ids = ids[: ids.index(end_id)]
    return [token_id for token_id in ids if token_id != padding_id]
