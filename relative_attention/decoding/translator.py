"""The translator: sentences in, sentences out."""

import dataclasses
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import Protocol

import keras
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_sentences
from relative_attention.decoding.alignment import word_alignment
from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import check_length_penalty
from relative_attention.decoding.constraints import check_num_beams
from relative_attention.decoding.constraints import known_ends
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import StepModel
from relative_attention.decoding.sampling import sample
from relative_attention.schema import key
from relative_attention.tensor_type import Tensor

# Called after each batch with the number of sentences translated so far.
ReportCount = Callable[[int], Any]


@dataclasses.dataclass(frozen=True)
class DecodingSection:
    """How the finished model translates; see `Translator`.

    This is the section `decoding` of a recipe and of a model's config.json.
    """

    num_beams: int = key(4, at_least=1, at_most=100, may_change=True)
    """Number of beams per sentence."""
    length_penalty: float = key(0.6, at_least=0, at_most=10, may_change=True)
    """GNMT's exponent alpha."""
    max_extra_length: int = key(
        50, at_least=0, at_most=100_000, may_change=True
    )
    """How many tokens a translation may be longer than its source."""
    max_source_length: int = key(512, at_least=2, may_change=True)
    """Longer sentences are cut to this many tokens."""
    trained_source_length: int | None = key(None, at_least=1, may_change=True)
    """`translate` reports lines of more tokens, as the model has hardly seen
    any. `null`: training sets it to the length that 999 of 1,000 source rows do
    not exceed, joined lines included."""


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and its score.

    Attributes:
        text: The translation, detokenized.
        score: Its score in the beam search (see `beam_search`), or its
            log-probability if it was drawn (see `sample`); `0.0` for an empty
            sentence, for which there is no search.
        was_cut: Whether the source was longer than the limit and was cut.
        source_token_ids: Ids of the source, including its end.
        token_ids: Ids of the translation, including its end.
        attention: `None`, or the cross-attention scores, float32
            `(L, N, T, S)`: by decoder block and head, from each of
            `token_ids` to each of `source_token_ids`. Not printed.
        alignment: `None`, or pairs of the numbers of a source word and of the
            word of the translation that comes from it, from 0. Words are parts
            of a text between blanks.
    """

    text: str
    score: float
    was_cut: bool
    source_token_ids: tuple[int, ...] = ()
    token_ids: tuple[int, ...] = ()
    attention: np.ndarray | None = dataclasses.field(
        default=None, compare=False, repr=False
    )
    alignment: tuple[tuple[int, int], ...] | None = None


class TextVocabulary(Protocol):
    """A vocabulary that converts lines of text to token ids and back.

    A translator takes `Vocabulary` or any other one.
    """

    end_id: int

    def encode(self, lines: list[str], /) -> Sequence[Sequence[int]]:
        """Returns the ids of each line, without an end of sentence."""

    def decode(self, token_ids: Any, /) -> list[str]:
        """Returns the text of each row of ids, up to its end of sentence.

        Args:
            token_ids: int array `(B, T)`, padded with id 0.
        """


class Translator:
    """A model with its vocabulary, which translates strings.

    Sentences are sorted by length and translated in batches of about the same
    number of tokens. Translations are returned in the order of the sentences.
    An empty or blank sentence gives an empty line.

    Args:
        model: `Transformer` or `Ensemble`.
        vocabulary: `Vocabulary` of the target, and of the source unless
            `source_vocabulary` is given; or any object with its `encode`,
            `decode` and `end_id`.
        source_vocabulary: `Vocabulary` of the source. Defaults to
            `vocabulary`.
        num_beams: int. Defaults to `4`; `1` is greedy search.
        length_penalty: float. See `beam_search`. Defaults to `0.6`.
        max_extra_length: int. How many tokens longer than its source a
            translation may be. Defaults to `50`.
        max_length: int. The longest translation, in tokens. Defaults to
            `None`, only limited by `max_extra_length`.
        min_length: int. The shortest translation, including the end of
            sentence. Defaults to `0`.
        max_source_length: int. Longer sentences are cut to this many tokens,
            including the end of sentence. Defaults to `512`.
        batch_tokens: int. Most source tokens of a batch, over all beams.
            Defaults to `8192`.
        trained_source_length: int. Longer sentences were rare in training; see
            `decoding.trained_source_length` of a recipe. They are translated
            all the same. Defaults to `None`, unknown.

    Raises:
        ValueError: if a number is too small, or `num_beams` too large for
            the memory of one step.

    Example:
    >>> translator = Translator(model, vocabulary)
    >>> translator.translate(["A man rides a bike."])
    ["Ein Mann fährt Fahrrad."]
    """

    def __init__(
        self,
        model: StepModel,
        vocabulary: TextVocabulary,
        source_vocabulary: TextVocabulary | None = None,
        num_beams: int = 4,
        length_penalty: float = 0.6,
        max_extra_length: int = 50,
        max_source_length: int = 512,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        min_length: int = 0,
        trained_source_length: int | None = None,
    ) -> None:
        # Scoring and pictures need more of a model than a search does.
        self.model: Any = model
        self.vocabulary = vocabulary
        self.source_vocabulary = source_vocabulary or vocabulary
        self.num_beams = checked_at_least("num_beams", num_beams, 1)
        check_num_beams(model, self.num_beams)
        self.length_penalty = check_length_penalty(length_penalty)
        self.max_extra_length = checked_at_least(
            "max_extra_length", max_extra_length, 0
        )
        self.max_source_length = checked_at_least(
            "max_source_length", max_source_length, 2
        )
        self.batch_tokens = checked_at_least("batch_tokens", batch_tokens, 1)
        self.max_length = max_length
        if max_length is not None:
            self.max_length = checked_at_least("max_length", max_length, 0)
        self.min_length = checked_at_least("min_length", min_length, 0)
        self.trained_source_length = trained_source_length
        if trained_source_length is not None:
            self.trained_source_length = checked_at_least(
                "trained_source_length", trained_source_length, 1
            )

    # What these methods return depends on `num_results`: `Any` is one result or
    # a list of them.

    def translate(
        self,
        sentences: Sequence[str],
        num_results: int | None = None,
        target_prefixes: Sequence[str] | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
    ) -> list[Any]:
        """Translates each sentence.

        Args:
            sentences, num_results, target_prefixes: see `search`.
            num_beams, length_penalty: see `search`.

        Returns:
            List of strings; with `num_results` a list of lists of them, best
            first.
        """
        found = self.search(
            sentences,
            num_results,
            target_prefixes,
            num_beams=num_beams,
            length_penalty=length_penalty,
        )
        if num_results is None:
            return [translation.text for translation in found]
        return [[result.text for result in results] for results in found]

    def search(
        self,
        sentences: Sequence[str],
        num_results: int | None = None,
        target_prefixes: Sequence[str] | None = None,
        return_attention: bool = False,
        report: ReportCount | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        return_alignment: bool = False,
    ) -> list[Any]:
        """Translates by beam search, with scores, ids and what was cut.

        Args:
            sentences: list of strings, each a line of text.
            num_results: int. The best translations of a sentence to return,
                at most `num_beams`. Defaults to `None`, the best one.
            target_prefixes: list of strings, the beginning of each
                translation. Defaults to `None`, no beginnings.
            return_attention: bool. Also return the attention scores of each
                translation. Defaults to `False`.
            report: called after each batch with the number of sentences
                translated so far.
            num_beams: int. Beams of this search. Defaults to `None`, the
                translator's.
            length_penalty: float. Length penalty of this search. Defaults to
                `None`, the translator's.
            return_alignment: bool. Also return which source word each word
                comes from, by attention. Defaults to `False`.

        Returns:
            List of `Translation`, one per sentence, in their order; with
            `num_results` a list of lists of them, best first. There may be
            fewer results: a text in other pieces is the same. For an empty
            sentence there is one, its prefix.

        Raises:
            TypeError: if `sentences` is not a list of strings.
            ValueError: if a number is out of range, a sentence is not valid
                text, or there is not a prefix for each sentence.
            InputError: if the model gives logits that are not finite, or
                `return_attention` or `return_alignment` is given with an
                `Ensemble`.
        """
        if num_beams is None:
            num_beams = self.num_beams
        num_beams = checked_at_least("num_beams", num_beams, 1)
        if length_penalty is None:
            length_penalty = self.length_penalty
        found = self._decode(
            beam_search,
            sentences,
            num_results,
            num_beams,
            target_prefixes,
            report,
            return_attention,
            return_alignment,
            num_beams=num_beams,
            length_penalty=length_penalty,
        )
        if num_results is None:
            return found
        return [_distinct(results) for results in found]

    def sample(
        self,
        sentences: Sequence[str],
        num_results: int | None = None,
        temperature: float = 1.0,
        top_k: int | None = None,
        top_p: float | None = None,
        seed: int | None = None,
        target_prefixes: Sequence[str] | None = None,
        return_attention: bool = False,
        report: ReportCount | None = None,
        return_alignment: bool = False,
    ) -> list[Any]:
        """Draws translations at random, see `relative_attention.sample`.

        Args:
            temperature, top_k, top_p, seed: see `relative_attention.sample`.
            sentences, num_results, target_prefixes: see `search`; here
                `num_results` has no limit.
            return_attention, report, return_alignment: see `search`.

        Returns, Raises: see `search`.
        """
        return self._decode(
            sample,
            sentences,
            num_results,
            num_results or 1,
            target_prefixes,
            report,
            return_attention,
            return_alignment,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
        )

    def _decode(
        self,
        decode: Callable[..., dict[str, Tensor]],
        sentences: Sequence[str],
        num_results: int | None,
        num_hypotheses: int,
        target_prefixes: Sequence[str] | None,
        report: ReportCount | None,
        return_attention: bool,
        return_alignment: bool,
        **settings: Any,
    ) -> list[Any]:
        """Decodes sentences in batches, and restores their order.

        Args:
            sentences, num_results, target_prefixes, report: see `search`.
            return_attention, return_alignment: see `search`.
            decode: `beam_search` or `sample`.
            num_hypotheses: int. Hypotheses per sentence, which need memory.
            **settings: other arguments of `decode`.
        """
        if num_results is not None:
            num_results = checked_at_least("num_results", num_results, 1)
        sentences = checked_sentences("sentences", sentences)
        prefixes = self._encoded_prefixes(target_prefixes, len(sentences))
        rows = self.source_vocabulary.encode(sentences)
        limit = self.max_source_length - 1
        was_cut = [len(row) > limit for row in rows]
        # The result for a blank line, without a search: its prefix.
        no_words = () if return_alignment else None
        found = [
            [Translation(text, 0.0, cut, (), tuple(prefix), alignment=no_words)]
            for text, cut, prefix in zip(
                self._texts(prefixes), was_cut, prefixes
            )
        ]
        lengths = {}
        for index, sentence in enumerate(sentences):
            if sentence.strip():
                length = min(len(rows[index]) + 1, self.max_source_length)
                lengths[index] = (length * num_hypotheses, len(rows[index]))
        num_done = len(sentences) - len(lengths)
        for batch in longest_first_batches(lengths, self.batch_tokens):
            source_rows = [
                (*rows[index][:limit], self.source_vocabulary.end_id)
                for index in batch
            ]
            begun = [prefixes[index] for index in batch]
            with known_ends():
                results = decode(
                    self.model,
                    padded_rows(source_rows),
                    num_results=num_results or 1,
                    max_extra_length=self.max_extra_length,
                    max_length=self.max_length,
                    min_length=self.min_length,
                    target_prefix=padded_rows(begun) if any(begun) else None,
                    return_attention=return_attention or return_alignment,
                    **settings,
                )
            translations = read_translations(
                results,
                source_rows,
                [was_cut[index] for index in batch],
                self.vocabulary,
            )
            for index, results_of_one in zip(batch, translations):
                if return_alignment:
                    results_of_one = [
                        self._aligned(one, return_attention)
                        for one in results_of_one
                    ]
                found[index] = results_of_one
            num_done += len(batch)
            if report is not None:
                report(num_done)
        return found if num_results else [best for best, *_ in found]

    def _encoded_prefixes(
        self, target_prefixes: Sequence[str] | None, num_sentences: int
    ) -> Sequence[Sequence[int]]:
        """Checks and encodes the prefixes."""
        if target_prefixes is None:
            return [()] * num_sentences
        target_prefixes = checked_sentences("target_prefixes", target_prefixes)
        if len(target_prefixes) != num_sentences:
            raise ValueError(
                "`target_prefixes` must have a string, if an empty one, for "
                f"each sentence. Received: {len(target_prefixes)} for "
                f"{num_sentences} sentences."
            )
        rows = self.vocabulary.encode(target_prefixes)
        for number, row in enumerate(rows):
            if not {0, END_ID}.isdisjoint(row):
                raise ValueError(
                    "`target_prefixes` must hold no padding and no end of "
                    f"sentence. Received: {target_prefixes[number]!r}."
                )
        return rows

    def _texts(self, rows: Sequence[Sequence[int]]) -> list[str]:
        """Returns the text of each row of ids."""
        if not any(map(len, rows)):
            return [""] * len(rows)
        return list(map(_line, self.vocabulary.decode(padded_rows(rows))))

    def _aligned(
        self, translation: Translation, keeps_attention: bool
    ) -> Translation:
        """Adds the alignment of words, which needs the attention scores."""
        attention: Any = translation.attention
        alignment = word_alignment(
            attention,
            translation.source_token_ids,
            translation.token_ids,
            (self.source_vocabulary, self.vocabulary),
        )
        return dataclasses.replace(
            translation,
            # The scores of a large text would fill the memory.
            attention=attention if keeps_attention else None,
            alignment=alignment,
        )


def _distinct(results: Sequence[Translation]) -> list[Translation]:
    """Returns the best of the results with the same text."""
    best: dict[str, Translation] = {}
    for one in results:
        best.setdefault(one.text, one)
    return list(best.values())


# === Batches ===


def longest_first_batches(
    lengths: Mapping[int, tuple[int, ...]], max_tokens: int
) -> Iterator[list[int]]:
    """Groups sentences into batches of about the same number of tokens.

    The longest come first, so that a batch too large for the memory fails at
    the start and not after an hour.

    Args:
        lengths: dict of the index of each sentence to its lengths. The first
            is its cost, padded to the longest of its batch; the others decide
            the order of those that cost the same.
        max_tokens: int. Most tokens of a batch; a longer sentence is a batch
            by itself.

    Yields:
        Lists of indices.
    """
    longest_first = sorted(
        lengths, key=lambda index: lengths[index], reverse=True
    )
    start = 0
    while start < len(longest_first):
        longest = lengths[longest_first[start]][0]
        size = max(1, max_tokens // longest)
        yield longest_first[start : start + size]
        start += size


def padded_rows(rows: Sequence[Sequence[int]]) -> np.ndarray:
    """Makes an int32 array `(B, S)` of rows of ids, padded with id 0."""
    return keras.utils.pad_sequences(rows, padding="post")


# === Translations from the results of a search ===


def read_translations(
    results: Mapping[str, Tensor],
    source_rows: Sequence[tuple[int, ...]],
    were_cut: Sequence[bool],
    vocabulary: TextVocabulary,
) -> list[list[Translation]]:
    """Makes translations from the results of `beam_search` or `sample`.

    Args:
        results: dict of what they return.
        source_rows: the ids of each source, its end included.
        were_cut: whether each source was cut.
        vocabulary: `TextVocabulary` of the target.

    Returns:
        For each source a list of `Translation`, in the order of the results,
        without missing ones.
    """
    # NumPy alone refuses tensors of PyTorch that have a gradient.
    token_ids = ops.convert_to_numpy(results["token_ids"])
    scores = ops.convert_to_numpy(results["scores"]).tolist()
    attention = results.get("attention")
    batch_size, num_results, length = token_ids.shape
    texts = vocabulary.decode(
        token_ids.reshape(batch_size * num_results, length)
    )
    translations = []
    for number, source_row in enumerate(source_rows):
        found: list[Translation] = []
        for rank in range(num_results):
            # The first one is a result for any score.
            if rank and scores[number][rank] < IMPOSSIBLE / 2:
                break
            # Without the padding that follows the end, or the last token.
            ids = tuple(np.trim_zeros(token_ids[number, rank].tolist(), "b"))
            shown = None
            if attention is not None:
                # (L, N, T, S), without the padding of either side.
                shown = ops.convert_to_numpy(
                    attention[number, rank, :, :, : len(ids), : len(source_row)]
                )
            found.append(
                Translation(
                    text=_line(texts[number * num_results + rank]),
                    score=scores[number][rank],
                    was_cut=were_cut[number],
                    source_token_ids=tuple(source_row),
                    token_ids=ids,
                    attention=shown,
                )
            )
        translations.append(found)
    return translations


def _line(text: str) -> str:
    """Makes one line of UTF-8 from the output of a vocabulary."""
    # Half a surrogate pair, which a vocabulary may have, becomes U+FFFD.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # A translation is one line: its readers count lines.
    return text.replace("\n", " ")
