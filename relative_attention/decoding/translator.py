"""The translator: sentences in, sentences out."""

import dataclasses
import re
import warnings
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import Protocol
from typing import overload

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_sentences
from relative_attention.decoding.alignment import word_alignment
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.constraints import known_ends
from relative_attention.decoding.constraints import padded_rows
from relative_attention.decoding.searcher import Searcher
from relative_attention.decoding.searcher import beam_search
from relative_attention.decoding.searcher import check_has_steps
from relative_attention.decoding.translation import Translation
from relative_attention.errors import InputError
from relative_attention.models.config import END_ID
from relative_attention.schema import check_fields
from relative_attention.schema import key
from relative_attention.schema import keys_of
from relative_attention.tensor_type import Tensor
from relative_attention.text.case import has_letter
from relative_attention.text.form import clean_text
from relative_attention.text.placeholders import Placeholders
from relative_attention.text.prepared import Sentence
from relative_attention.text.prepared import TextRules
from relative_attention.text.prepared import line_of
from relative_attention.text.sentences import seems_to_have_sentences
from relative_attention.text.signs import without_signs

if TYPE_CHECKING:
    from relative_attention.decoding.model_steps import StepModel

# Called after each batch with the number of sentences translated so far.
ReportCount = Callable[[int], Any]
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
    """No translation repeats a sequence of this many tokens; `0` allows
    repeats."""
    source_language: str | None = key(None, is_language=True, may_change=True)
    """Language code of the source, such as `en`. `null`: training sets it to
    `data.source_language`, or to the ending of `data.source`. Without it,
    lines are not split."""
    target_language: str | None = key(None, is_language=True, may_change=True)
    """Language code of the target, whose separators numbers get. `null`:
    training sets it to `data.target_language`, or to the ending of
    `data.target`."""
    split_sentences: bool = key(True, may_change=True)
    """Whether `translate` and `serve` split lines into sentences, if the
    language of the source is known. Set it to `false` for a model that
    translates whole lines better."""
    usual_case: bool = key(False, may_change=True)
    """Whether `translate` and `serve` search lines in capitals, in Title Case
    and in lowercase in their usual case, a word alone in lowercase if it is no
    name, and sentences in quotation marks without these. Training with
    `data.variants` sets it."""
    placeholders: bool = key(False, may_change=True)
    """Whether `translate` and `serve` put signs in the place of what must not
    be translated: addresses, tags, numbers with separators, brackets and
    symbols. The model must be trained to carry signs over; training with
    `data.variants` sets it."""

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

    `search` and `sample` return what the model makes of each line. `translate`
    prepares lines and restores their translations, by the rules that are
    switched on: `split_sentences`, `usual_case` and `placeholders`.

    Args:
        model: `Transformer` or `Ensemble`, or the model of an engine.
        vocabulary: `Vocabulary` of the target, and of the source unless
            `source_vocabulary` is given; or any object with its `encode`,
            `decode` and `end_id`.
        source_vocabulary: `Vocabulary` of the source. Defaults to
            `vocabulary`.
        batch_tokens: int. Most source tokens of a batch, over all beams.
            Defaults to `8192`.
        max_length: int. The longest translation, in tokens. If it stops the
            search, the best of the hypotheses that ended is the result, even
            an empty text. Defaults to `None`, only limited by
            `max_extra_length`.
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
        no_repeat_ngram: int. No translation by beam search repeats a sequence
            of this many tokens. Defaults to `0`, which allows repeats.
        source_language: string. The language code of the source, such as
            `"en"`. Defaults to `None`, unknown.
        target_language: string. The language code of the target, whose
            separators numbers get. Defaults to `None`, unknown.
        split_sentences: bool. Whether `translate` splits lines into sentences,
            if the language of the source is known, and joins their
            translations with the blanks and line ends that were between them.
            Defaults to `True`.
        usual_case: bool. Whether `translate` searches lines in capitals, in
            Title Case and in lowercase in their usual case, a word alone in
            lowercase if it is no name, and sentences in quotation marks without
            these. Translations of lines in capitals are in capitals. Defaults
            to `False`.
        placeholders: bool. Whether `translate` puts signs, which the model was
            trained to carry over, in the place of what must not be translated:
            addresses, names of files, codes, tags, fields such as `{name}`,
            emoji, words of a script and marks that the vocabulary lacks, and
            numbers with separators. If no result has each sign once, the parts
            between the signs are translated. Of the results, the best one with
            all numbers of two digits is taken; they become signs if none has
            them. Defaults to `False`.
        keep: list of regular expressions, whose matches stay as they are. They
            need `placeholders`. Defaults to none.
        glossary: dict of terms of the source to what stands for them in the
            translation. They need `placeholders`. Whole words are found, in
            the case as given or at the beginning of a sentence, the longest
            first. Defaults to none.

    Raises:
        ValueError: if a number is out of range, or a language is no language
            code.
        InputError: if an expression of `keep` is invalid, a term is empty,
            `keep` or `glossary` is given without `placeholders`, or
            `placeholders` is set and a vocabulary has no signs: it must be a
            `Vocabulary` with bytes. Or if `end_id` of `vocabulary` is not 1.
        TypeError: if there is no such setting.

    Example:
    >>> loaded = ra.load_translator("tatoeba_en_de")
    >>> translator = ra.Translator(loaded.model, loaded.vocabulary, num_beams=2)
    >>> translator.translate(["I like tea."])
    ['Ich mag Tee.']
    """

    def __init__(
        self,
        model: "StepModel | Searcher",
        vocabulary: TextVocabulary,
        source_vocabulary: TextVocabulary | None = None,
        *,
        batch_tokens: int = 8192,
        max_length: int | None = None,
        min_length: int = 0,
        keep: Sequence[str] = (),
        glossary: Mapping[str, str] | None = None,
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
        if vocabulary.end_id != END_ID:
            raise InputError(
                f"`vocabulary` must have `end_id` {END_ID}, which ends each "
                f"translation. Received: {vocabulary.end_id}. A "
                "`TokenVocabulary` of a target is made with `end=True`."
            )
        self.num_beams = settings.num_beams
        self.length_penalty = settings.length_penalty
        self.max_extra_length = settings.max_extra_length
        self.max_source_length = settings.max_source_length
        self.trained_source_length = settings.trained_source_length
        self.no_repeat_ngram = settings.no_repeat_ngram
        self.source_language = settings.source_language
        self.target_language = settings.target_language
        self.split_sentences = settings.split_sentences
        self.usual_case = settings.usual_case
        self.placeholders = settings.placeholders
        self.keep = list(keep)
        self.glossary = dict(glossary or {})
        self._check_placeholders()

    @property
    def decoding(self) -> DecodingSection:
        """The settings that a folder keeps, checked again."""
        names = keys_of(DecodingSection)
        return DecodingSection(**{name: getattr(self, name) for name in names})

    # What these methods return depends on `num_results`: `Any` is one result or
    # a list of them.

    @overload
    def translate(
        self,
        sentences: Sequence[str],
        num_results: None = None,
        target_prefixes: Sequence[str] | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_sentences: bool | None = None,
    ) -> list[str]: ...

    @overload
    def translate(
        self,
        sentences: Sequence[str],
        num_results: int,
        target_prefixes: Sequence[str] | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_sentences: bool | None = None,
    ) -> list[list[str]]: ...

    def translate(
        self,
        sentences: Sequence[str],
        num_results: int | None = None,
        target_prefixes: Sequence[str] | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_sentences: bool | None = None,
    ) -> list[Any]:
        """Translates each line of text, by the rules that are switched on.

        Args:
            sentences, num_results, target_prefixes: see `search`. With
                prefixes, lines are translated as they are.
            num_beams, length_penalty: see `search`.
            split_sentences: see `translate_lines`.

        Returns:
            List of strings; with `num_results` a list of lists of them, best
            first.

        Raises:
            TypeError, ValueError, InputError: see `search`.
        """
        if target_prefixes is None:
            found = self.translate_lines(
                sentences,
                num_results,
                num_beams,
                length_penalty,
                split_sentences,
            )
        else:
            self._check_splitting(split_sentences, num_results, True)
            found = self.search(
                sentences,
                num_results or 1,
                target_prefixes,
                num_beams=num_beams,
                length_penalty=length_penalty,
            )
        texts = [[result.text for result in results] for results in found]
        return texts if num_results else [best for best, *_ in texts]

    def translate_lines(
        self,
        lines: Sequence[str],
        num_results: int | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        split_sentences: bool | None = None,
        report: ReportCount | None = None,
    ) -> list[list[Translation]]:
        """Translates as `translate`, with scores and what was cut.

        Args:
            lines: list of strings.
            num_results, num_beams, length_penalty, report: see `search`.
            split_sentences: bool. Whether to translate the sentences of a line
                one by one. Defaults to `None`: if the translator has a
                `source_language` and its `split_sentences`, and `num_results`
                is not given.

        Returns:
            For each line a list of `Translation`, best first. There may be
            fewer than `num_results`; one if the line has several sentences.

        Raises:
            TypeError, ValueError, InputError: see `search`.
        """
        if num_results is not None:
            num_results = checked_at_least("num_results", num_results, 1)
        lines = checked_sentences("sentences", lines)
        self._check_splitting(split_sentences, num_results, False)
        if split_sentences is None and num_results is None:
            self._warn_if_unknown(lines)
        prepared = self.prepare(lines, split_sentences, num_results is not None)
        sentences = [one for line in prepared for one in line]
        num_searched = sum(not one.is_kept for one in sentences)

        def report_lines(num_done: int) -> None:
            if report is not None:
                report(num_done * len(lines) // num_searched)

        found = self.search_prepared(
            [one for one in sentences if not one.is_kept],
            num_results or 1,
            num_beams,
            length_penalty,
            report_lines,
        )
        return restored_lines(prepared, found)

    def prepare(
        self,
        lines: Sequence[str],
        split_sentences: bool | None = None,
        is_n_best: bool = False,
        glossary: Mapping[str, str] | None = None,
    ) -> list[list[Sentence]]:
        """Returns the sentences of each line, by the rules, see `translate`.

        "VISIT WWW.EXAMPLE.ORG." is searched as "Visit ␁.", and its
        translation is restored to capitals and the address.

        Args:
            lines: list of strings.
            split_sentences: bool or `None`, see `translate_lines`.
            is_n_best: bool. Whether several translations are asked for.
            glossary: dict of more terms, which go before those of the
                translator. They need `placeholders`. Defaults to none.
        """
        if split_sentences is None:
            # Without a language, exact text stays exact.
            split_sentences = self.splits_sentences and not is_n_best
        placeholders = None
        # `keep` and `glossary` may have been set since.
        self._check_placeholders()
        if self.placeholders:
            vocabularies: set[Any] = {self.source_vocabulary, self.vocabulary}
            placeholders = Placeholders(
                lambda char: all(one.has_piece(char) for one in vocabularies),
                self.source_language,
                self.target_language,
                [re.compile(expression) for expression in self.keep],
                {**self.glossary, **(glossary or {})},
            )
        rules = TextRules(
            self.source_vocabulary.encode,
            self.source_language,
            self.target_language,
            split_sentences,
            self.usual_case,
            placeholders,
        )
        return [rules.prepare(line) for line in lines]

    def search_prepared(
        self,
        sentences: Sequence[Sentence],
        num_results: int = 1,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        report: ReportCount | None = None,
    ) -> list[list[Translation]]:
        """Translates sentences that `prepare` returned.

        A sentence with more things than there are signs, or whose results all
        lack a sign, is translated in the parts between them. One whose results
        all lack a number of two digits is searched with signs for them.

        Args:
            sentences: list of `Sentence`, none of which is kept.
            num_results, num_beams, length_penalty: see `search`.
            report: called with the number of sentences translated so far.

        Returns:
            For each sentence a list of `Translation`, restored, best first.
        """
        settings = self._search_settings(num_beams, length_penalty)
        found = self._search_whole(sentences, settings, num_results, report)
        left = [index for index in range(len(sentences)) if index not in found]
        in_parts = self._search_parts([sentences[i] for i in left], settings)
        found.update(zip(left, ([one] for one in in_parts)))
        return [found[index] for index in range(len(sentences))]

    def _search_whole(
        self,
        sentences: Sequence[Sentence],
        settings: dict[str, Any],
        num_results: int,
        report: ReportCount | None = None,
    ) -> dict[int, list[Translation]]:
        """Returns translations by index, where a result has each sign once."""
        found: dict[int, list[Translation]] = {}
        without_numbers: list[int] = []
        num_done = 0

        def count(num_of_call: int) -> None:
            if report is not None:
                report(num_done + num_of_call)

        for is_checked in (False, True):
            chosen = [
                index
                for index, one in enumerate(sentences)
                if one.fits and bool(one.things or one.numbers) == is_checked
            ]
            if not chosen:
                continue
            # Of all beams, as the best one may lack a sign or a number.
            wanted = settings["num_beams"] if is_checked else num_results
            texts = [sentences[index].text for index in chosen]
            for index, results in zip(
                chosen,
                self._search_texts(texts, wanted, settings, is_checked, count),
            ):
                sentence = sentences[index]
                restored = [
                    (
                        dataclasses.replace(one, text=text),
                        sentence.has_numbers_in(one.text),
                    )
                    for one in results
                    if (text := sentence.restored(one.text)) is not None
                ]
                if not restored:
                    continue
                with_numbers = [one for one, has_all in restored if has_all]
                if not with_numbers:
                    without_numbers.append(index)
                # Others may be the same in capitals.
                found[index] = _distinct(
                    with_numbers or [one for one, _ in restored]
                )[:num_results]
            num_done += len(chosen)
        if without_numbers:
            again = self._search_whole(
                [
                    sentences[i].with_signs_for_numbers()
                    for i in without_numbers
                ],
                settings,
                num_results,
            )
            found.update((without_numbers[i], one) for i, one in again.items())
        return found

    def _search_parts(
        self, sentences: Sequence[Sentence], settings: dict[str, Any]
    ) -> list[Translation]:
        """Translates the parts between the signs of each sentence."""
        parts = [part.strip() for one in sentences for part in one.parts()]
        texts = [part for part in parts if has_letter(part)]
        found = iter(self._search_texts(texts, 1, settings))
        translations = []
        for sentence in sentences:
            own = [
                next(found)[0]
                if has_letter(part)
                else Translation(part.strip(), 0.0, was_cut=False)
                for part in sentence.parts()
            ]
            translations.append(
                Translation(
                    sentence.joined([part.text for part in own]),
                    sum(part.score for part in own),
                    was_cut=any(part.was_cut for part in own),
                    sentences=tuple(own),
                )
            )
        return translations

    def _search_texts(
        self,
        texts: list[str],
        num_results: int,
        settings: dict[str, Any],
        has_signs: bool = False,
        report: ReportCount | None = None,
    ) -> list[list[Translation]]:
        found = self._decode_sentences(
            beam_search,
            texts,
            num_results,
            settings["num_beams"],
            [()] * len(texts),
            report,
            has_signs=has_signs,
            **settings,
        )
        if has_signs or not self.placeholders:
            return found
        # A model that was given no sign should write none.
        return [
            [
                dataclasses.replace(one, text=without_signs(one.text))
                for one in results
            ]
            for results in found
        ]

    @overload
    def search(
        self,
        sentences: Sequence[str],
        num_results: None = None,
        target_prefixes: Sequence[str] | None = None,
        return_attention: bool = False,
        report: ReportCount | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        return_alignment: bool = False,
    ) -> list[Translation]: ...

    @overload
    def search(
        self,
        sentences: Sequence[str],
        num_results: int,
        target_prefixes: Sequence[str] | None = None,
        return_attention: bool = False,
        report: ReportCount | None = None,
        num_beams: int | None = None,
        length_penalty: float | None = None,
        return_alignment: bool = False,
    ) -> list[list[Translation]]: ...

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
        """Searches for translations, as the model finds them.

        Each line is searched as it is, whatever rules `translate` has.

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

        Returns:
            List of `Translation`, one per sentence, in their order; with
            `num_results` a list of lists of them, best first. There may be
            fewer results, as the same text may be found in other pieces. For
            an empty sentence there is one, its prefix.

        Raises:
            TypeError: if `sentences` is not a list of strings.
            ValueError: if a number is out of range, a sentence is not valid
                text, or there is not a prefix for each sentence.
            InputError: if the model gives logits that are not finite, or
                `return_attention` or `return_alignment` is given with an
                `Ensemble`.

        Example:
        >>> translator = ra.load_translator("tatoeba_en_de")
        >>> (results,) = translator.search(["I like tea."], num_results=3)
        >>> results[0].text
        'Ich mag Tee.'
        >>> bool(results[0].score > results[1].score)
        True
        """
        settings = self._search_settings(num_beams, length_penalty)
        found = self._decode(
            beam_search,
            sentences,
            num_results,
            settings["num_beams"],
            target_prefixes,
            report,
            return_attention,
            return_alignment,
            **settings,
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
            sentences: see `search`.
            num_results: see `search`; here it has no limit.
            temperature: see `relative_attention.sample`.
            top_k: see `relative_attention.sample`.
            top_p: see `relative_attention.sample`.
            seed: see `relative_attention.sample`.
            target_prefixes: see `search`.
            return_attention: see `search`.
            report: see `search`.
            return_alignment: see `search`.

        Returns:
            As `search`.

        Raises:
            InputError: as `search`.
        """
        # Before Keras is imported, which may be absent beside an engine.
        check_has_steps(self.model)
        from relative_attention.decoding.sampling import sample

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
        """Decodes lines as they are.

        Args:
            sentences, num_results, target_prefixes, report: see `search`.
            return_attention, return_alignment: see `search`.
            decode: `beam_search` or `sample`.
            num_hypotheses: int. Hypotheses per sentence, which need memory.
            **settings: other arguments of `decode`.
        """
        if num_results is not None:
            num_results = checked_at_least("num_results", num_results, 1)
        lines = checked_sentences("sentences", sentences)
        found = self._decode_sentences(
            decode,
            lines,
            num_results or 1,
            num_hypotheses,
            self._encoded_prefixes(target_prefixes, len(lines)),
            report,
            return_attention,
            return_alignment,
            **settings,
        )
        return found if num_results else [one for one, *_ in found]

    def _search_settings(
        self, num_beams: int | None, length_penalty: float | None
    ) -> dict[str, Any]:
        """Returns the arguments of `beam_search`, checked."""
        settings = self.decoding
        if num_beams is not None:
            settings = dataclasses.replace(settings, num_beams=num_beams)
        if length_penalty is not None:
            settings = dataclasses.replace(
                settings, length_penalty=length_penalty
            )
        names = ("num_beams", "length_penalty", "no_repeat_ngram")
        return {name: getattr(settings, name) for name in names}

    def _decode_sentences(
        self,
        decode: Callable[..., dict[str, Tensor]],
        sentences: list[str],
        num_results: int,
        num_hypotheses: int,
        prefixes: Sequence[Sequence[int]],
        report: ReportCount | None,
        return_attention: bool = False,
        return_alignment: bool = False,
        has_signs: bool = False,
        **settings: Any,
    ) -> list[list[Translation]]:
        """Decodes sentences in batches, and restores their order.

        Args:
            prefixes: for each sentence the ids that its translation begins
                with.
            has_signs: whether sentences have signs, which users cannot write.
            others: see `_decode`.
        """
        vocabulary: Any = self.source_vocabulary
        encode = (
            vocabulary.encode_with_signs if has_signs else vocabulary.encode
        )
        rows = encode(sentences)
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
            if clean_text(sentence, keep_signs=has_signs):
                length = min(len(rows[index]) + 1, self.max_source_length)
                lengths[index] = (length * num_hypotheses, len(rows[index]))
        num_done = len(sentences) - len(lengths)
        for batch in longest_first_batches(lengths, self.batch_tokens):
            source_rows = [
                (*rows[index][:limit], self.source_vocabulary.end_id)
                for index in batch
            ]
            begun = [prefixes[index] for index in batch]
            # The vocabulary has added the ends, if its model reads any.
            with known_ends():
                results = decode(
                    self.model,
                    padded_rows(source_rows),
                    num_results=num_results,
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
        return found

    @property
    def splits_sentences(self) -> bool:
        """Whether `translate` splits lines, unless it is told otherwise."""
        return self.split_sentences and self.source_language is not None

    def _warn_if_unknown(self, lines: Sequence[str]) -> None:
        """Warns of lines that would be split if their language were known."""
        if self.split_sentences and self.source_language is None:
            if any(map(seems_to_have_sentences, lines)):
                # Where `translate` was called.
                warnings.warn(_UNKNOWN_LANGUAGE, stacklevel=4)

    def _check_splitting(
        self,
        split_sentences: bool | None,
        num_results: int | None,
        has_prefixes: bool,
    ) -> None:
        if not split_sentences:
            return
        if self.source_language is None:
            raise ValueError(
                "`split_sentences` needs the language of the source. "
                "Received: source_language=None. Give it to the translator, "
                "or set `decoding.source_language` in the config.json of the "
                "model's folder."
            )
        if has_prefixes or (num_results or 1) > 1:
            raise ValueError(
                "`split_sentences` is for the best translation of a line, "
                "without `target_prefixes`. Received: split_sentences=True, "
                f"num_results={num_results}."
            )

    def _check_placeholders(self) -> None:
        """Checks what placeholders need."""
        for number, expression in enumerate(self.keep):
            try:
                re.compile(expression)
            except re.error as error:
                raise InputError(
                    f"`keep[{number}]` must be a regular expression. Received: "
                    f"{expression!r} ({error})."
                ) from error
        for term in self.glossary:
            if not clean_text(term):
                raise InputError(
                    "`glossary` must have no empty term. Received: "
                    f"{self.glossary[term]!r} for {term!r}."
                )
        if not self.placeholders:
            if self.keep or self.glossary:
                raise InputError(
                    "`keep` and `glossary` need a model that carries signs "
                    "over. Received: placeholders=False. Train it with "
                    "`data.variants`."
                )
            return
        for vocabulary in (self.source_vocabulary, self.vocabulary):
            if not getattr(vocabulary, "sign_ids", ()):
                raise InputError(
                    "`decoding.placeholders` needs SentencePiece vocabularies "
                    "with bytes, which have a piece for each sign. Received: "
                    f"{type(vocabulary).__name__}. Set it to false in the "
                    "config.json of the model's folder."
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


def restored_lines(
    lines: Sequence[Sequence[Sentence]], found: Iterable[list[Translation]]
) -> list[list[Translation]]:
    """Returns the translations of lines, from those of their sentences.

    Args:
        lines: what `Translator.prepare` returned.
        found: the translations of each sentence that is not kept, best first.

    Returns:
        For each line a list of `Translation`, best first; one if the line has
        several sentences.
    """
    remaining = iter(found)
    return [
        _restored_line(
            line,
            [
                [Translation(one.text, 0.0, was_cut=False)]
                if one.is_kept
                else next(remaining)
                for one in line
            ],
        )
        for line in lines
    ]


def _restored_line(
    line: Sequence[Sentence], results: Sequence[list[Translation]]
) -> list[Translation]:
    if len(line) == 1:
        return _distinct(
            [
                dataclasses.replace(one, text=line_of(line, [one.text]))
                for one in results[0]
            ]
        )
    best = tuple(found[0] for found in results)
    return [
        Translation(
            line_of(line, [one.text for one in best]),
            sum(one.score for one in best),
            was_cut=any(one.was_cut for one in best),
            sentences=best,
        )
    ]


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
    token_ids = _as_array(results["token_ids"])
    scores = _as_array(results["scores"]).tolist()
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
                shown = _as_array(
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


def _as_array(values: Tensor) -> np.ndarray:
    """Returns what a search returned as an array."""
    if isinstance(values, np.ndarray):
        return values
    # NumPy alone refuses tensors of PyTorch that have a gradient.
    from keras import ops

    return ops.convert_to_numpy(values)


def _line(text: str) -> str:
    """Makes one line of UTF-8 from the output of a vocabulary."""
    # Half a surrogate pair, which a vocabulary may have, becomes U+FFFD.
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    # A translation is one line: its readers count lines.
    return text.replace("\n", " ")
