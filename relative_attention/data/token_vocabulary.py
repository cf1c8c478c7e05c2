"""Text to token ids and back, by a list of tokens."""

import collections
import json
import pathlib

import sentencepiece

from relative_attention.atomic_files import atomic_file
from relative_attention.data.lines import read_lines
from relative_attention.data.token_rows import ids_of_text
from relative_attention.errors import InputError
from relative_attention.json_file import read_json_object
from relative_attention.json_file import read_regular_file

_PADDING, _START, _END, _UNKNOWN = "<blank>", "<s>", "</s>", "<unk>"
_TOKENIZER = ".sentencepiece"


class TokenVocabulary:
    """The words or pieces of a tokenised text, an id each, as in OpenNMT-tf.

    A line is cut at its blanks (ASCII white space, as in OpenNMT-tf), so it
    must be tokenised already; or a SentencePiece model cuts it, and joins the
    tokens of a translation. What is no token of the vocabulary is unknown.

    Ids: padding 0, end of sentence 1, start 2, unknown the last. `<blank>` as
    a word of a text is unknown too.

    Args:
        tokens: list of strings by id: `"<blank>"`, `"</s>"`, `"<s>"`, the
            others, and `"<unk>"`. The second and third may be others where
            neither `start` nor `end` is asked for.
        tokenizer: bytes. A serialised SentencePiece model. Defaults to
            `None`, blanks.
        start: bool. Whether `encode` puts the start before each line, as some
            models want of their source. Defaults to `False`.
        end: bool. Whether a model reads an end of sentence after each line.
            Without it, `end_id` is that of padding. Defaults to `True`.
        name: what to call it in an error. Defaults to `"The vocabulary"`.

    Raises:
        InputError: if the tokens are not these, or `tokenizer` is no
            SentencePiece model.
    """

    padding_id = 0
    start_id = 2

    def __init__(
        self,
        tokens,
        tokenizer=None,
        start=False,
        end=True,
        name="The vocabulary",
    ):
        self.tokens = list(tokens)
        self.tokenizer = None if tokenizer is None else bytes(tokenizer)
        self.start = start
        self.end = end
        self.end_id = 1 if end else self.padding_id
        self._check_special(name)
        self._unknown_id = len(self.tokens) - 1
        self._ids = {}
        for token_id, token in enumerate(self.tokens):
            self._ids.setdefault(token, token_id)
        del self._ids[_PADDING]
        self._processor = None
        if self.tokenizer is not None:
            self._processor = _load_processor(self.tokenizer)

    @classmethod
    def train(cls, lines, size):
        """The most frequent tokens of a text that is tokenised already.

        Args:
            lines: iterable of strings, blanks between the tokens.
            size: int. Number of tokens, four of them special; fewer where the
                text has no more.

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
        # Of equally frequent tokens the first by code points.
        order = sorted(counts, key=lambda token: (-counts[token], token))
        tokens = order[: size - len(special)]
        return cls([_PADDING, _END, _START, *tokens, _UNKNOWN])

    @classmethod
    def from_opennmt_tf(cls, path, tokenizer=None, start=False, end=True):
        """Read a vocabulary file of OpenNMT-tf.

        It has a token a line: `<blank>`, `<s>`, `</s>` and the others;
        `<unk>` is not in it. The `.vocab` file of SentencePiece, pieces and
        scores, is taken as `onmt-build-vocab --from_format sentencepiece`
        takes it. The ids are those of `load_opennmt_tf`.

        Args:
            path: path of the file.
            tokenizer: path of a SentencePiece model. Defaults to `None`.
            start, end: see `TokenVocabulary`; `source_sequence_controls` of
                OpenNMT-tf's data configuration, which has neither by default.

        Raises:
            InputError: if a file is missing or is none of these.
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
        # Here the end of sentence comes before the start.
        tokens[1:3] = tokens[2:0:-1]
        model = None
        if tokenizer is not None:
            try:
                model = pathlib.Path(tokenizer).read_bytes()
            except OSError as error:
                raise InputError(
                    f"No SentencePiece model at {tokenizer}: {error}."
                ) from error
        return cls(tokens, model, start=start, end=end, name=str(path))

    @classmethod
    def load(cls, path):
        """Read a vocabulary that `save` wrote.

        Args:
            path: path of the file.

        Raises:
            InputError: if the file, or that of its tokeniser, is missing or
                damaged, or the tokeniser is not a file beside it.
        """
        path = pathlib.Path(path)
        try:
            content = read_json_object(path)
            _check_content(content)
            tokenizer = content.pop("tokenizer")
            if tokenizer is not None:
                content["tokenizer"] = read_regular_file(
                    path.parent / tokenizer
                )
        except OSError as error:
            raise InputError(f"No vocabulary at {path}: {error}.") from error
        except ValueError as error:
            raise InputError(f"{path} is damaged: {error}.") from error
        return cls(**content, name=str(path))

    def save(self, path):
        """Write the vocabulary, and its tokeniser beside it.

        Args:
            path: path of the file.
        """
        path = pathlib.Path(path)
        tokenizer = None
        if self.tokenizer is not None:
            tokenizer = path.name + _TOKENIZER
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

    def __len__(self):
        return len(self.tokens)

    def encode(self, lines):
        """Token ids of each line, without the end of sentence.

        Args:
            lines: list of strings.

        Returns:
            List of lists of int.
        """
        first = [self.start_id] if self.start else []
        return [
            first + [self._ids.get(token, self._unknown_id) for token in tokens]
            for tokens in self._tokenize(list(lines))
        ]

    def decode(self, token_ids):
        """Text of each row of ids, up to its end of sentence.

        Args:
            token_ids: iterable of rows of int; padding is left out.

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

    def pieces(self, token_ids):
        """The tokens of one row of ids, for pictures.

        Args:
            token_ids: iterable of int.

        Returns:
            List of strings.
        """
        return [self.tokens[int(i)] for i in token_ids]

    def _tokenize(self, lines):
        if self._processor is not None:
            return self._processor.encode(lines, out_type=str)
        return [_split(line) for line in lines]

    def _check_special(self, name):
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


def _split(line):
    # Bytes are split at ASCII white space alone: others, such as U+00A0, may
    # be part of a token.
    return [token.decode() for token in line.encode().split()]


def _check_content(content):
    """Raise `ValueError` unless it is what `save` writes."""
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
    tokenizer = content["tokenizer"]
    # Whoever made the model could otherwise have any file read.
    if tokenizer is not None and (
        tokenizer in ("", ".", "..") or set(tokenizer) & set("/\\:\0")
    ):
        raise ValueError(
            "tokenizer must be the name of a file beside it, without a "
            f"folder. Received: {tokenizer!r}"
        )


def _sentencepiece_pieces(lines):
    """The pieces of a `.vocab` file, or `None` if it is none."""
    if not lines or lines[0].split("\t")[0] == _PADDING:
        return None
    fields = [line.rsplit("\t", 1) for line in lines]
    if not all(len(f) == 2 and _is_number(f[1]) for f in fields):
        return None
    special = {_UNKNOWN, _START, _END}
    return [piece for piece, _ in fields if piece not in special]


def _is_number(text):
    try:
        float(text)
    except ValueError:
        return False
    return True


def _load_processor(model):
    processor = sentencepiece.SentencePieceProcessor()
    try:
        processor.load_from_serialized_proto(model)
    except RuntimeError as error:
        raise InputError(
            "The tokeniser is not a SentencePiece model, or is damaged."
        ) from error
    return processor
