"""The translator: sentences in, sentences out."""

import dataclasses
import warnings
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
from relative_attention.decoding.constraints import known_ends
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import StepModel
from relative_attention.decoding.paragraphs import Paragraphs
from relative_attention.decoding.paragraphs import Translation
from relative_attention.decoding.sampling import sample
from relative_attention.schema import check_fields
from relative_attention.schema import key
from relative_attention.schema import keys_of
from relative_attention.tensor_type import Tensor
from relative_attention.text import clean_text
from relative_attention.text import is_no_answer
from relative_attention.text import seems_to_have_sentences
from relative_attention.text import with_first_capital
from relative_attention.text import without_copied_capital

# Called after each batch with the number of sentences translated so far.
ReportCount = Callable[[int], Any]
# What a search after a loop may not repeat.
_LOOP_NGRAM = 2
_UNKNOWN_LANGUAGE = (
    "Lines with several sentences are not split, as the language of the source "
    "is unknown. Give `source_language`, or set `decoding.source_language` in "
    "the config.json of the model's folder."
)


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
    max_source_length: int = key(
        512, at_least=2, at_most=100_000, may_change=True
    )
    """Longer sentences are cut to this many tokens."""
    trained_source_length: int | None = key(None, at_least=1, may_change=True)
    """`translate` reports lines of more tokens, as the model has hardly seen
    any. `null`: training sets it to the length that 999 of 1,000 source rows do
    not exceed, joined lines included."""
    no_repeat_ngram: int = key(0, at_least=0, at_most=100, may_change=True)
    """No translation has the same so many tokens in a row twice; `0` allows
    it."""
    source_language: str | None = key(None, is_language=True, may_change=True)
    """Language code of the source, such as `en`. `null`: training sets it to
    `data.source_language`, or to the ending of `data.source`. Without it,
    lines are translated as they are: not split, with their capitals and
    quotation marks, in lowercase, and also without a letter."""
    split_sentences: bool = key(True, may_change=True)
    """Whether `translate` and `serve` split lines into sentences. Set it to
    `false` for a model that translates whole lines better."""

    def __post_init__(self) -> None:
        check_fields(self)


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

    If the language of the source is known, `translate` splits a line into its
    sentences, and joins their translations. Sentences in capitals or in
    quotation marks are searched without them, and their translations get them.
    In sentences in lowercase, words that usually begin with a capital get it.
    E-mail addresses, links and names of files are in the translation as they
    were. Sentences without a letter are their own translation.

    Some sentences are searched for again: without the capital of the first
    word, if that was copied and is known in lowercase; with a token at least
    and without repeats, if the translation is empty or repeats itself. Where
    the latter fails, the first translation stays. Prefixes and attention need
    each line as it is.

    Args:
        model: `Transformer` or `Ensemble`.
        vocabulary: `Vocabulary` of the target, and of the source unless
            `source_vocabulary` is given; or any object with its `encode`,
            `decode` and `end_id`.
        source_vocabulary: `Vocabulary` of the source. Defaults to
            `vocabulary`.
        batch_tokens: int. Most source tokens of a batch, over all beams.
            Defaults to `8192`.
        max_length: int. The longest translation, in tokens. Defaults to
            `None`, only limited by `max_extra_length`.
        min_length: int. The shortest translation, including the end of
            sentence. Defaults to `0`.
        **decoding: the settings below, which a model's folder keeps. They are
            the keys of `decoding` in a recipe.
        num_beams: int. Defaults to `4`; `1` is greedy search.
        length_penalty: float. See `beam_search`. Defaults to `0.6`.
        max_extra_length: int. How many tokens longer than its source a
            translation may be. Defaults to `50`.
        max_source_length: int. Longer sentences are cut to this many tokens,
            including the end of sentence. Defaults to `512`.
        trained_source_length: int. Longer sentences were rare in training; see
            `decoding.trained_source_length` of a recipe. They are translated
            all the same. Defaults to `None`, unknown.
        no_repeat_ngram: int. No translation by beam search has the same so
            many tokens in a row twice. Defaults to `0`, which allows repeats.
        source_language: string. The language code of the source, such as
            `"en"`. Defaults to `None`, unknown.
        split_sentences: bool. Whether `translate` splits lines into sentences,
            if the language is known. Defaults to `True`.

    Raises:
        ValueError: if a number is out of range, or `source_language` is no
            language code.
        TypeError: if there is no such setting.

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
        *,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        min_length: int = 0,
        **decoding: Any,
    ) -> None:
        # Scoring and pictures need more of a model than a search does.
        self.model: Any = model
        self.vocabulary = vocabulary
        self.source_vocabulary = source_vocabulary or vocabulary
        self.batch_tokens = checked_at_least("batch_tokens", batch_tokens, 1)
        self.max_length = max_length
        if max_length is not None:
            self.max_length = checked_at_least("max_length", max_length, 0)
        self.min_length = checked_at_least("min_length", min_length, 0)
        settings = DecodingSection(**decoding)
        self.num_beams = settings.num_beams
        self.length_penalty = settings.length_penalty
        self.max_extra_length = settings.max_extra_length
        self.max_source_length = settings.max_source_length
        self.trained_source_length = settings.trained_source_length
        self.no_repeat_ngram = settings.no_repeat_ngram
        self.source_language = settings.source_language
        self.split_sentences = settings.split_sentences

    @property
    def decoding(self) -> DecodingSection:
        """The settings that a folder keeps, checked again."""
        names = keys_of(DecodingSection)
        return DecodingSection(**{name: getattr(self, name) for name in names})

    # What these methods return depends on `num_results`: `Any` is one result or
    # a list of them.

    def translate(
        self,
        sentences: Sequence[str],
        num_results: int | None = None,
        target_prefixes: Sequence[str] | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_sentences: bool | None = None,
    ) -> list[Any]:
        """Translates each line of text.

        Args:
            sentences, num_results, target_prefixes: see `search`.
            num_beams, length_penalty: see `search`.
            split_sentences: bool. Whether to translate the sentences of a line
                one by one, and to join their translations with the blanks and
                line ends that were between them. Defaults to `None`: if the
                translator has a `source_language` and its `split_sentences`,
                and neither `num_results` nor `target_prefixes` is given.

        Returns:
            List of strings; with `num_results` a list of lists of them, best
            first.

        Raises:
            TypeError, ValueError, InputError: see `search`.
        """
        found = self.search(
            sentences,
            num_results,
            target_prefixes,
            num_beams=num_beams,
            length_penalty=length_penalty,
            split_sentences=split_sentences,
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
        split_sentences: bool | None = False,
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
            report: called after each batch with the number of lines
                translated so far.
            num_beams: int. Beams of this search. Defaults to `None`, the
                translator's.
            length_penalty: float. Length penalty of this search. Defaults to
                `None`, the translator's.
            return_alignment: bool. Also return which source word each word
                comes from, by attention. Defaults to `False`.
            split_sentences: bool. Whether to search each sentence of a line by
                itself, see `translate`. `None` is the default of `translate`.
                Defaults to `False`.

        Returns:
            List of `Translation`, one per sentence, in their order; with
            `num_results` a list of lists of them, best first. There may be
            fewer results: a text in other pieces is the same. For an empty
            sentence there is one, its prefix.

        Raises:
            TypeError: if `sentences` is not a list of strings.
            ValueError: if a number is out of range, a sentence is not valid
                text, there is not a prefix for each sentence, or lines are to
                be split and the language is unknown, several results are asked
                for, or prefixes or attention.
            InputError: if the model gives logits that are not finite, or
                `return_attention` or `return_alignment` is given with an
                `Ensemble`.
        """
        settings = self.decoding
        if num_beams is not None:
            settings = dataclasses.replace(settings, num_beams=num_beams)
        if length_penalty is not None:
            settings = dataclasses.replace(
                settings, length_penalty=length_penalty
            )
        found = self._decode(
            beam_search,
            sentences,
            num_results,
            settings.num_beams,
            target_prefixes,
            report,
            return_attention,
            return_alignment,
            num_beams=settings.num_beams,
            length_penalty=settings.length_penalty,
            no_repeat_ngram=settings.no_repeat_ngram,
            split_sentences=split_sentences,
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
        split_sentences: bool | None = False,
    ) -> list[Any]:
        """Draws translations at random, see `relative_attention.sample`.

        Args:
            temperature, top_k, top_p, seed: see `relative_attention.sample`.
            sentences, num_results, target_prefixes: see `search`; here
                `num_results` has no limit.
            return_attention, report, return_alignment: see `search`.
            split_sentences: see `search`.

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
            split_sentences=split_sentences,
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
        split_sentences: bool | None,
        **settings: Any,
    ) -> list[Any]:
        """Decodes lines, as their sentences.

        Args:
            sentences, num_results, target_prefixes, report: see `search`.
            return_attention, return_alignment: see `search`.
            split_sentences: see `search`.
            decode: `beam_search` or `sample`.
            num_hypotheses: int. Hypotheses per sentence, which need memory.
            **settings: other arguments of `decode`.
        """
        if num_results is not None:
            num_results = checked_at_least("num_results", num_results, 1)
        lines = checked_sentences("sentences", sentences)
        needs_line = (
            target_prefixes is not None or return_attention or return_alignment
        )
        if split_sentences is None:
            split_sentences = (
                self.split_sentences
                and num_results is None
                and not needs_line
                and self._knows_language(lines)
            )
        elif split_sentences:
            self._check_splitting(needs_line, num_results)
        paragraphs = Paragraphs(
            lines,
            None if needs_line else self.source_language,
            split_sentences,
            self.source_vocabulary.encode,
        )
        num_sentences = len(paragraphs.sentences)
        prefixes = self._encoded_prefixes(target_prefixes, num_sentences)

        def report_lines(num_done: int) -> None:
            if report is not None:
                report(num_done * len(lines) // num_sentences)

        found = self._decode_sentences(
            decode,
            paragraphs.sentences,
            num_results or 1,
            num_hypotheses,
            prefixes,
            report_lines,
            return_attention,
            return_alignment,
            **settings,
        )
        # A model of no language may repeat itself on purpose.
        if decode is beam_search and not needs_line and self.source_language:
            self._search_again(
                found, paragraphs.sentences, num_results or 1, settings
            )
        lines_found = paragraphs.translations(found)
        return lines_found if num_results else [one for one, *_ in lines_found]

    def _search_again(
        self,
        found: list[list[Translation]],
        sentences: Sequence[str],
        num_results: int,
        settings: Mapping[str, Any],
    ) -> None:
        """Replaces what is no translation, as far as that can be seen.

        First, a sentence whose first word was copied, as if it were a name, is
        searched for without its capital. Then, a sentence whose translation is
        empty or repeats itself is searched for with a token at least and
        without repeats. If that fails, the first translation stays.
        """

        def search(texts: list[str], **more: Any) -> list[list[Translation]]:
            return self._decode_sentences(
                beam_search,
                texts,
                num_results,
                settings["num_beams"],
                [()] * len(texts),
                lambda num_done: None,
                **{**settings, **more},
            )

        def without_capital(sentence: str, translation: str) -> str:
            return without_copied_capital(
                sentence, translation, self.source_vocabulary.encode
            )

        texts = [
            without_capital(sentence, results[0].text)
            for sentence, results in zip(sentences, found)
        ]
        copied = [
            index
            for index, sentence in enumerate(sentences)
            if texts[index] != sentence
        ]
        again = search([texts[index] for index in copied])
        for index, results in zip(copied, again):
            best = with_first_capital(results[0].text)
            # Copied again: it is a name.
            if without_capital(sentences[index], best) != sentences[index]:
                texts[index] = sentences[index]
            else:
                found[index] = results

        unanswered = [
            index
            for index, text in enumerate(texts)
            if is_no_answer(text, found[index][0].text)
        ]
        again = search(
            [texts[index] for index in unanswered],
            no_repeat_ngram=_LOOP_NGRAM,
            min_length=max(self.min_length, 2),
        )
        for index, results in zip(unanswered, again):
            # Otherwise the first translation stays.
            if not is_no_answer(texts[index], results[0].text):
                found[index] = results

        for index in copied:
            if texts[index] != sentences[index]:
                found[index] = [
                    dataclasses.replace(one, text=with_first_capital(one.text))
                    for one in found[index]
                ]

    def _decode_sentences(
        self,
        decode: Callable[..., dict[str, Tensor]],
        sentences: list[str],
        num_results: int,
        num_hypotheses: int,
        prefixes: Sequence[Sequence[int]],
        report: ReportCount,
        return_attention: bool = False,
        return_alignment: bool = False,
        **settings: Any,
    ) -> list[list[Translation]]:
        """Decodes sentences in batches, and restores their order.

        Args:
            prefixes: for each sentence the ids that its translation begins
                with.
            others: see `_decode`.
        """
        settings = {"min_length": self.min_length, **settings}
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
            if clean_text(sentence):
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
                    num_results=num_results,
                    max_extra_length=self.max_extra_length,
                    max_length=self.max_length,
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
            report(num_done)
        return found

    def _knows_language(self, lines: Sequence[str]) -> bool:
        """Returns whether lines can be split; warns if they should be."""
        if self.source_language is not None:
            return True
        if any(map(seems_to_have_sentences, lines)):
            # Where `translate` was called.
            warnings.warn(_UNKNOWN_LANGUAGE, stacklevel=5)
        return False

    def _check_splitting(self, needs_line: bool, num_results: Any) -> None:
        if self.source_language is None:
            raise ValueError(
                "`split_sentences` needs the language of the source. "
                "Received: source_language=None. Give it to the translator, "
                "or set `decoding.source_language` in the config.json of the "
                "model's folder."
            )
        if needs_line or (num_results or 1) > 1:
            raise ValueError(
                "`split_sentences` is for the best translation of a line, "
                "without `target_prefixes`, `return_attention` and "
                "`return_alignment`. Received: split_sentences=True, "
                f"num_results={num_results}."
            )

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
