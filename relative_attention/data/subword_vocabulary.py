"""Encodes text as token ids and back, with tensor2tensor's subwords."""

import io
import pathlib
import re
from collections.abc import Iterable

from relative_attention.data.lines import decode_lines
from relative_attention.data.vocabulary import ids_of_text
from relative_attention.data.vocabulary import read_bytes
from relative_attention.errors import InputError
from relative_attention.files import atomic_file

# The characters of escapes, which every alphabet contains.
_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")
# Replaces an escape whose number is not a code point.
_UNDEFINED = "\u3013"
# Runs of letters and numbers, or of anything else. For `re` and `str.isalnum`,
# these are the Unicode categories L and N. `\w` also has the underscore, which
# is neither.
_RUNS = re.compile(r"[^\W_]+|[\W_]+")
# A blank between two words. The pattern begins with the blank and looks back at
# the word before it, as `re` searches for a character twice as fast.
_IMPLIED_BLANK = re.compile(r" (?<=[^\W_] )(?=[^\W_])")
# The frequent words of a language fit; rare ones are quickly split again.
_MAX_CACHED_SEGMENTS = 100_000
# No word is longer. Longer ones may be an attempt to fill the memory.
_LONGEST_CACHED = 100


class SubwordVocabulary:
    r"""Encodes text as the subwords of a tensor2tensor file, with its ids.

    A line is cut into runs of letters and numbers and runs of anything else.
    A single blank between two words is implied. In every run, `\` is escaped as
    `\\`, `_` as `\u` and a character outside the vocabulary's alphabet as its
    code point, `\8364;`; a final `_` ends it. The run is then split into the
    longest subwords, from left to right. Text is not cleaned (`clean_text`), as
    in tensor2tensor, and any string can be restored:
    `decode(encode([line])) == [line]`.

    Ids: padding 0, end of sentence 1. There is no unknown id. Whether a
    character is a letter depends on the version of Unicode, and so of Python,
    as in tensor2tensor.

    It runs in Python: it cannot be part of a TensorFlow graph or an exported
    model.

    A file has one subword per line, whose id is the number of the line, from 0.
    The first two are `<pad>_` and `<EOS>_`. As in tensor2tensor, carriage
    returns, white space at the end, and single or double quotes around a line
    are not part of the subword. An empty line has an id but is never used, and
    of equal lines the last is used. The alphabet has the characters of all
    lines, and those of escapes.

    Args:
        model: bytes. The content of such a file.
        name: string. The name of the vocabulary in an error. Defaults to
            `"The subword vocabulary"`.

    Raises:
        InputError: if `model` is not UTF-8, is empty, or has other ids for
            padding and end of sentence.

    Reference:
     - tensor2tensor, `SubwordTextEncoder` in
       [text_encoder.py](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/data_generators/text_encoder.py)
       and
       [tokenizer.py](https://github.com/tensorflow/tensor2tensor/blob/master/tensor2tensor/data_generators/tokenizer.py)
    """

    padding_id = 0
    end_id = 1

    def __init__(
        self, model: bytes, name: str = "The subword vocabulary"
    ) -> None:
        self.model = bytes(model)
        self._name = name
        self._subwords = [
            _read_subword(line)
            # A byte order mark is part of the first line in tensor2tensor.
            for line in decode_lines(
                io.BytesIO(self.model), name, keep_mark=True
            )
        ]
        self._check_special_ids()
        self._ids = {
            subword: token_id
            for token_id, subword in enumerate(self._subwords)
            if subword
        }
        self._alphabet = _ESCAPE_CHARACTERS.union(*self._subwords)
        # Length of the longest subword that begins with each character. Few
        # are as long as the longest of all, so fewer lengths are tried.
        self._longest: dict[str, int] = {}
        for subword in sorted(self._ids, key=len):
            self._longest[subword[0]] = len(subword)
        # Ids of text between two implied blanks.
        self._cache: dict[str, list[int]] = {}

    @classmethod
    def load(cls, path: pathlib.Path | str) -> "SubwordVocabulary":
        """Reads a `*.subwords` file, of tensor2tensor or of `save`.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is not such a vocabulary.
        """
        return cls(read_bytes(path, "subword vocabulary"), name=str(path))

    def save(self, path: pathlib.Path | str) -> None:
        """Writes the vocabulary, byte for byte as it was read.

        Args:
            path: path of the file.
        """
        with atomic_file(path) as file:
            file.write(self.model)

    def __len__(self) -> int:
        """Returns the number of ids."""
        return len(self._subwords)

    def encode(self, lines: Iterable[str]) -> list[list[int]]:
        """Returns the token ids of each line, without the end of sentence.

        Args:
            lines: iterable of strings.

        Returns:
            List of lists of int.

        Raises:
            InputError: if a line needs a character that the vocabulary only
                has in longer subwords, such as the blank of a file without
                quotes. tensor2tensor reads such files too, so reading one is
                not an error.
        """
        rows: list[list[int]] = []
        for line in lines:
            row: list[int] = []
            for segment in _IMPLIED_BLANK.split(line):
                ids = self._cache.get(segment)
                row += self._remember(segment) if ids is None else ids
            rows.append(row)
        return rows

    def decode(self, token_ids: Iterable[Iterable[int]]) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int. Padding and ids that the
                vocabulary does not have are ignored.

        Returns:
            List of strings.
        """
        texts = []
        for row in token_ids:
            ids = ids_of_text(row, self.end_id, self.padding_id)
            escaped = "".join(self.pieces(ids))
            tokens = [token for token in escaped.split("_") if token]
            if "\\" in escaped:
                tokens = [_ESCAPE.sub(_unescape, token) for token in tokens]
            texts.append(_join(tokens))
        return texts

    def pieces(self, token_ids: Iterable[int]) -> list[str]:
        """Returns the subwords of one row of ids, for pictures.

        They are written as in the file, with escapes and final `_`. An id that
        the vocabulary does not have gives an empty string.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        size = len(self)
        return [self._subwords[i] if 0 <= i < size else "" for i in token_ids]

    def _check_special_ids(self) -> None:
        """Raises `InputError` unless padding is id 0 and the end is id 1."""
        special = tuple(self._subwords[:2])
        if special not in (("<pad>_", "<EOS>_"), ("<pad>", "<EOS>")):
            raise InputError(
                f"{self._name}: the first two lines of a subword vocabulary "
                "must be '<pad>_' and '<EOS>_', padding id 0 and end of "
                "sentence id 1. Received: "
                f"{', '.join(map(repr, special)) or 'an empty file'}. "
                "Give a `*.subwords` file written by tensor2tensor."
            )

    def _remember(self, segment: str) -> list[int]:
        """Returns the ids of a segment, and caches them if it is short."""
        ids = [
            token_id
            for token in _RUNS.findall(segment)
            for token_id in self._spell(token)
        ]
        if len(segment) > _LONGEST_CACHED:
            return ids
        if len(self._cache) >= _MAX_CACHED_SEGMENTS:
            self._cache.clear()
        self._cache[segment] = ids
        return ids

    def _spell(self, token: str) -> list[int]:
        """Returns the ids that spell one token: greedily, the longest first."""
        escaped = _escape(token, self._alphabet)
        ids = []
        start = 0
        while start < len(escaped):
            longest = self._longest.get(escaped[start], 0)
            for end in range(min(start + longest, len(escaped)), start, -1):
                token_id = self._ids.get(escaped[start:end])
                if token_id is not None:
                    break
            else:
                raise InputError(
                    f"{self._name} has no subword that spells "
                    f"{escaped[start]!r}, in {token[:40]!r}. Every character "
                    "of its lines, and each of "
                    f"{''.join(sorted(_ESCAPE_CHARACTERS))}, must be a line "
                    "of its own, in quotes if it is white space. Add this one "
                    "at the end of the file before a model is trained."
                )
            ids.append(token_id)
            start = end
        return ids


def _read_subword(line: str) -> str:
    """Returns the subword of one line of a file."""
    # TensorFlow's reader drops all carriage returns.
    subword = line.replace("\r", "").rstrip()
    # A lone quote counts as both ends of a line, as in tensor2tensor.
    if subword[:1] in ("'", '"') and subword[0] == subword[-1]:
        return subword[1:-1]
    return subword


def _join(tokens: Iterable[str]) -> str:
    """Joins tokens, with the implied blanks between words."""
    text = []
    after_word = False
    for token in tokens:
        is_word = token[0].isalnum()
        if is_word and after_word:
            text.append(" ")
        text.append(token)
        after_word = is_word
    return "".join(text)


def _escape(token: str, alphabet: frozenset[str]) -> str:
    r"""Escapes a token: with an alphabet without `€`, `a_€` is `a\u\8364;_`."""
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    # The alphabet lacks the line feed, which ends the lines of the file.
    if not alphabet.issuperset(token):
        token = "".join(
            character if character in alphabet else f"\\{ord(character)};"
            for character in token
        )
    return token + "_"


def _unescape(match: re.Match[str]) -> str:
    """Returns the character of an escape."""
    if match[1] is None:
        return "_" if match[0] == "\\u" else "\\"
    try:
        return chr(int(match[1]))
    except (ValueError, OverflowError):
        return _UNDEFINED
