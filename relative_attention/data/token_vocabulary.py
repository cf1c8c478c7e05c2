"""Encodes text as token ids and back, with a list of tokens."""

import collections
import json
import pathlib
from collections.abc import Iterable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.data.lines import read_lines
from relative_attention.data.vocabulary import ids_of_text
from relative_attention.data.vocabulary import load_processor
from relative_attention.data.vocabulary import read_bytes
from relative_attention.errors import InputError
from relative_attention.files import atomic_file
from relative_attention.files import read_json_object

_PADDING, _START, _END, _UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"
# The suffix of the file of the tokenizer, after the name of the vocabulary.
_TOKENIZER_SUFFIX = ".sentencepiece"


class TokenVocabulary:
    """Encodes text as the words or pieces of a list, as OpenNMT-tf does.

    A line is split at its blanks (ASCII white space, as in OpenNMT-tf), so it
    must be pre-tokenized. Alternatively, a SentencePiece model splits it, and
    joins the tokens of a translation. A token that the vocabulary does not have
    is unknown. Text is not cleaned (`clean_text`), as in OpenNMT-tf.

    Ids: padding 0, end of sentence 1, start 2; the last id is unknown. The word
    `<blank>` in a text is unknown too.

    Args:
        tokens: list of strings by id: `"<blank>"`, `"</s>"`, `"<s>"`, the
            others, and `"<unk>"`. The second and third may be other tokens if
            neither `start` nor `end` is set.
        tokenizer: bytes. A serialized SentencePiece model. Defaults to
            `None`, which splits at blanks.
        start: A boolean to indicate whether `encode` puts the start token
            before each line, which some models expect in their source.
            Defaults to `False`.
        end: A boolean to indicate whether a model reads an end of sentence
            after each line. Without it, `end_id` is the id of padding.
            Defaults to `True`.
        name: string. The name of the vocabulary in an error. Defaults to
            `"The vocabulary"`.

    Raises:
        InputError: if the special tokens are not at their ids, or `tokenizer`
            is not a SentencePiece model.
    """

    padding_id = 0
    start_id = 2

    def __init__(
        self,
        tokens: Iterable[str],
        tokenizer: bytes | None = None,
        start: bool = False,
        end: bool = True,
        name: str = "The vocabulary",
    ) -> None:
        self.tokens = list(tokens)
        self.tokenizer = None if tokenizer is None else bytes(tokenizer)
        self.start = start
        self.end = end
        self.end_id = 1 if end else self.padding_id
        self._check_special(name)
        self._unknown_id = len(self.tokens) - 1
        self._ids: dict[str, int] = {}
        for token_id, token in enumerate(self.tokens):
            # The first of equal tokens counts, as in OpenNMT-tf.
            self._ids.setdefault(token, token_id)
        del self._ids[_PADDING]
        self._processor = None
        if self.tokenizer is not None:
            self._processor = load_processor(self.tokenizer, "tokenizer")

    @classmethod
    def train(cls, lines: Iterable[str], size: int) -> "TokenVocabulary":
        """Takes the most frequent tokens of a pre-tokenized text.

        Args:
            lines: iterable of strings, with blanks between the tokens.
            size: int. Number of tokens, including four special ones. There are
                fewer if the text has fewer.

        Returns:
            `TokenVocabulary`.

        Raises:
            InputError: if there is no text, or the size is below 5.
        """
        counts = collections.Counter(
            token for line in lines for token in _split(line)
        )
        special = [_PADDING, _END, _START, _UNKNOWN]
        for token in special:
            counts.pop(token, None)
        if not counts or size <= len(special):
            raise InputError(
                f"No vocabulary of {size} tokens can be made of this text, "
                f"which has {len(counts):,}. `vocabulary.size` must be over "
                f"{len(special)}, and the text must hold tokens."
            )
        # Equally frequent tokens are in the order of their code points.
        order = sorted(counts, key=lambda token: (-counts[token], token))
        tokens = order[: size - len(special)]
        return cls([_PADDING, _END, _START, *tokens, _UNKNOWN])

    @classmethod
    def from_opennmt_tf(
        cls,
        path: pathlib.Path | str,
        tokenizer: pathlib.Path | str | None = None,
        start: bool = False,
        end: bool = True,
    ) -> "TokenVocabulary":
        """Reads a vocabulary file of OpenNMT-tf.

        The file has one token per line: `<blank>`, `<s>`, `</s>` and the
        others, without `<unk>`. A `.vocab` file of SentencePiece, with pieces
        and scores, is read like by `onmt-build-vocab --from_format
        sentencepiece`. The ids are those of `load_opennmt_tf`.

        Args:
            path: path of the file.
            tokenizer: path of a SentencePiece model. Defaults to `None`.
            start, end: see `TokenVocabulary`. They are the
                `source_sequence_controls` of OpenNMT-tf's data configuration,
                which has neither by default.

        Raises:
            InputError: if a file is missing or is not of this form.
        """
        lines = list(read_lines(path))
        pieces = _sentencepiece_pieces(lines)
        if pieces is not None:
            lines = [_PADDING, _START, _END, *pieces]
        # The first of equal lines counts, as in OpenNMT-tf.
        tokens = [*dict.fromkeys(lines), _UNKNOWN]
        if tokens[0] != _PADDING or len(tokens) < 4:
            raise InputError(
                f"{path}: the first line of a vocabulary of OpenNMT-tf must "
                f"be '{_PADDING}', and at least two must follow. Received: "
                f"{', '.join(map(repr, lines[:3])) or 'an empty file'}. Give "
                "the file that the model was trained with."
            )
        # In OpenNMT-tf the start comes first, here the end of sentence.
        tokens[1:3] = tokens[2:0:-1]
        model = None
        if tokenizer is not None:
            model = read_bytes(tokenizer, "SentencePiece model")
        return cls(tokens, model, start=start, end=end, name=str(path))

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "TokenVocabulary":
        """Reads a vocabulary that `save` wrote.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file or its tokenizer's is missing or damaged.
        """
        path = pathlib.Path(path)
        try:
            content = read_json_object(path)
            _check_content(content)
            if content["tokenizer"] is not None:
                # Not the file that it names: a model from elsewhere could name
                # any file.
                tokenizer = path.with_name(path.name + _TOKENIZER_SUFFIX)
                content["tokenizer"] = tokenizer.read_bytes()
        except OSError as error:
            raise InputError(f"No vocabulary at {path}: {error}.") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        return cls(**content, name=str(path))

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the vocabulary, and its tokenizer to a file next to it.

        Args:
            path: path of the file.
        """
        path = pathlib.Path(path)
        tokenizer = None
        if self.tokenizer is not None:
            tokenizer = path.name + _TOKENIZER_SUFFIX
            with atomic_file(path.with_name(tokenizer)) as file:
                file.write(self.tokenizer)
        with atomic_file(path, "w") as file:
            json.dump(
                {
                    "tokenizer": tokenizer,
                    "start": self.start,
                    "end": self.end,
                    "tokens": self.tokens,
                },
                file,
                ensure_ascii=False,
                indent=0,
            )

    def __len__(self) -> int:
        """Returns the number of ids."""
        return len(self.tokens)

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Returns the token ids of each line, without the end of sentence.

        Args:
            lines: iterable of strings.

        Returns:
            List of lists of int.
        """
        first = [self.start_id] if self.start else []
        return [
            first + [self._ids.get(token, self._unknown_id) for token in tokens]
            for tokens in self._tokenize(list(lines))
        ]

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int, whose padding is left out.

        Returns:
            List of strings.
        """
        rows = [
            self.pieces(ids_of_text(row, self.end_id, self.padding_id))
            for row in token_ids
        ]
        if self._processor is None:
            return [" ".join(tokens) for tokens in rows]
        return [self._processor.decode_pieces(tokens) for tokens in rows]

    def pieces(self, token_ids: Iterable[int]) -> list[str]:
        """Returns the tokens of one row of ids, for pictures.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        return [self.tokens[int(i)] for i in token_ids]

    def _tokenize(self, lines: list[str]) -> list[list[str]]:
        """Splits each line into tokens."""
        if self._processor is not None:
            return self._processor.encode(lines, out_type=str)
        return [_split(line) for line in lines]

    def _check_special(self, name: str) -> None:
        """Raises `InputError` unless the special tokens have their ids."""
        wanted = [_PADDING]
        if self.start or self.end:
            wanted += [_END, _START]
        received = self.tokens[: len(wanted)]
        if received != wanted or self.tokens[-1] != _UNKNOWN:
            raise InputError(
                f"{name} must have the tokens {', '.join(wanted)} at the ids "
                f"0 to {len(wanted) - 1}, and {_UNKNOWN} at the last. "
                f"Received: {', '.join(map(repr, received))} and "
                f"{self.tokens[-1:]}. (In OpenNMT-tf {_START} comes before "
                f"{_END}; `from_opennmt_tf` reads its files.)"
            )


def _split(line: str) -> list[str]:
    """Splits a line at ASCII white space."""
    # As bytes: strings are also split at other white space, such as U+00A0,
    # which may be part of a token.
    return [token.decode() for token in line.encode().split()]


def _check_content(content: Mapping[str, Any]) -> None:
    """Raises `ValueError` unless the content of a file is as `save` writes it.

    Args:
        content: the JSON object of the file.
    """
    kinds = {
        "tokenizer": str | None,
        "tokens": list,
        "start": bool,
        "end": bool,
    }
    if not {"tokenizer", "tokens"} <= content.keys() <= kinds.keys():
        raise ValueError(
            f"it must have {', '.join(kinds)}, and has "
            f"{', '.join(content) or 'nothing'}"
        )
    for name, value in content.items():
        if not isinstance(value, kinds[name]):
            raise ValueError(f"{name} is {value!r}")
    if not all(isinstance(token, str) for token in content["tokens"]):
        raise ValueError("not all of its tokens are strings")


def _sentencepiece_pieces(lines: Sequence[str]) -> list[str] | None:
    """Returns the pieces of a SentencePiece `.vocab` file.

    Returns:
        List of strings, or `None` if the lines are not of such a file.
    """
    if not lines or lines[0].split("\t")[0] == _PADDING:
        return None
    fields = [line.rsplit("\t", 1) for line in lines]
    if not all(len(f) == 2 and _is_number(f[1]) for f in fields):
        return None
    special = {_UNKNOWN, _START, _END}
    return [piece for piece, _ in fields if piece not in special]


def _is_number(text: str) -> bool:
    """Returns whether a text is a number."""
    try:
        float(text)
    except ValueError:
        return False
    return True
