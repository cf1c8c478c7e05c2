"""Text to token ids and back, by the subwords of tensor2tensor."""

import io
import pathlib
import re

from relative_attention.atomic_files import atomic_file
from relative_attention.data.lines import decode_lines
from relative_attention.data.token_rows import ids_of_text
from relative_attention.errors import InputError

# What escapes are spelt with; in the alphabet even of a file without them.
_ESCAPE_CHARACTERS = frozenset("\\_u;0123456789")
_ESCAPE = re.compile(r"\\u|\\\\|\\([0-9]+);")
# What stands for a number in an escape that is no code point.
_UNDEFINED = "\u3013"
# Letters and numbers, or anything else. To `re` as to `str.isalnum`, these
# are the Unicode categories L and N; the underscore is neither.
_RUNS = re.compile(r"[^\W_]+|[\W_]+")
# A blank between two words. It looks back over itself so that `re` begins
# with a character to search for, at twice the speed.
_IMPLIED_BLANK = re.compile(r" (?<=[^\W_] )(?=[^\W_])")
# The words of a language fit; what is rarer is soon spelt again.
_MAX_CACHED_SEGMENTS = 100_000


class SubwordVocabulary:
    r"""Subwords of a `*.subwords` file of tensor2tensor, id for id.

    A line is cut into runs of letters and numbers and runs of anything else.
    One blank between two words is left out, and comes back between them. In
    every run, `\` is escaped as `\\`, `_` as `\u` and a character outside the
    vocabulary's alphabet as its code point, `\8364;`; a final `_` ends it. The
    run is then spelt by the longest subwords, from left to right. So any
    string comes back, as `decode(encode([line])) == [line]`.

    Ids: padding 0, end of sentence 1. There is no unknown id. Whether a
    character is a letter is a matter of the version of Unicode, and so of
    Python, as it is for tensor2tensor.

    It runs in Python: it cannot be part of a TensorFlow graph or an exported
    model.

    A file has one subword a line, the number of the line being its id; the
    first two are `<pad>_` and `<EOS>_`. Read is what tensor2tensor reads: no
    carriage return, no white space at the end, no quotes, single or double,
    that a line begins and ends with. An empty line takes an id and spells
    nothing, and of equal lines the last is used. The characters of all lines
    are the alphabet, with those that escapes need.

    Args:
        model: bytes. What such a file holds.
        name: what to call it in an error. Defaults to
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

    def __init__(self, model, name="The subword vocabulary"):
        self.model = bytes(model)
        self._name = name
        self._subwords = [
            _read_subword(line)
            # tensor2tensor reads every byte of the file.
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
        # Length of the longest subword that begins with a character: few are
        # as long as the longest of all.
        self._longest = {}
        for subword in self._ids:
            first = subword[0]
            self._longest[first] = max(
                len(subword), self._longest.get(first, 0)
            )
        self._cache = {}

    @classmethod
    def load(cls, path):
        """Read a `*.subwords` file, of tensor2tensor or of `save`.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file is missing or is no such vocabulary.
        """
        try:
            model = pathlib.Path(path).read_bytes()
        except OSError as error:
            raise InputError(
                f"No subword vocabulary at {path}: {error}."
            ) from error
        return cls(model, name=str(path))

    def save(self, path):
        """Write the vocabulary, byte for byte as it was read.

        Args:
            path: path of the file.
        """
        with atomic_file(path) as file:
            file.write(self.model)

    def __len__(self):
        return len(self._subwords)

    def encode(self, lines):
        """Token ids of each line, without the end of sentence.

        Args:
            lines: list of strings.

        Returns:
            List of lists of int.

        Raises:
            InputError: if a line needs a character that the vocabulary has in
                longer subwords only, as where a file without quotes has lost
                its blank. tensor2tensor reads such files too, so it is no
                error before it matters.
        """
        rows = []
        for line in lines:
            row = []
            for segment in _IMPLIED_BLANK.split(line):
                ids = self._cache.get(segment)
                row += self._remember(segment) if ids is None else ids
            rows.append(row)
        return rows

    def decode(self, token_ids):
        """Text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int; padding is left out, and so is
                what is no id of the vocabulary.

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

    def pieces(self, token_ids):
        """The subwords of one row of ids, as strings, for pictures.

        They are as the file has them, escapes and final `_` included; what is
        no id of the vocabulary is the empty string.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        size = len(self)
        return [self._subwords[i] if 0 <= i < size else "" for i in token_ids]

    def _check_special_ids(self):
        if not self._subwords:
            raise InputError(
                f"{self._name} is empty. A subword vocabulary has one subword "
                "a line; give a `*.subwords` file of tensor2tensor."
            )
        special = tuple(self._subwords[:2])
        if special not in (("<pad>_", "<EOS>_"), ("<pad>", "<EOS>")):
            raise InputError(
                f"{self._name}: the first two lines of a subword vocabulary "
                "must be '<pad>_' and '<EOS>_', padding id 0 and end of "
                f"sentence id 1. Received: {', '.join(map(repr, special))}. "
                "Give a `*.subwords` file as tensor2tensor wrote it."
            )

    def _remember(self, segment):
        """Ids of a segment, kept for the next time that it comes."""
        ids = [
            token_id
            for token in _RUNS.findall(segment)
            for token_id in self._spell(token)
        ]
        if len(self._cache) >= _MAX_CACHED_SEGMENTS:
            self._cache.clear()
        self._cache[segment] = ids
        return ids

    def _spell(self, token):
        """Ids of the longest subwords that spell one token, escaped."""
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


def _read_subword(line):
    """The subword of one line of a file."""
    # TensorFlow's reader knows no carriage return, wherever it stands.
    subword = line.replace("\r", "").rstrip()
    # A lone quote is both ends of a line at once.
    if subword[:1] in ("'", '"') and subword[0] == subword[-1]:
        return subword[1:-1]
    return subword


def _join(tokens):
    """Text of tokens, with the blanks that are understood between words."""
    text = []
    after_word = False
    for token in tokens:
        is_word = token[0].isalnum()
        if is_word and after_word:
            text.append(" ")
        text.append(token)
        after_word = is_word
    return "".join(text)


def _escape(token, alphabet):
    token = token.replace("\\", "\\\\").replace("_", "\\u")
    # No alphabet has the line feed: it ends the lines of the file.
    if not alphabet.issuperset(token):
        token = "".join(
            character if character in alphabet else f"\\{ord(character)};"
            for character in token
        )
    return token + "_"


def _unescape(match):
    if match[1] is None:
        return "_" if match[0] == "\\u" else "\\"
    try:
        return chr(int(match[1]))
    except (ValueError, OverflowError):
        return _UNDEFINED
