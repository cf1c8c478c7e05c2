"""Sentences in, sentences out."""

import functools

import numpy as np

from relative_attention.argument_checks import checked_at_least
from relative_attention.argument_checks import checked_sentences
from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.beam_settings import check_length_penalty
from relative_attention.decoding.beam_settings import check_num_beams
from relative_attention.decoding.constraints import END_ID
from relative_attention.decoding.constraints import IMPOSSIBLE
from relative_attention.decoding.padded_rows import padded_rows
from relative_attention.decoding.sample import sample
from relative_attention.decoding.translation import Translation


class Translator:
    """A model with the vocabulary that it reads and writes.

    Sentences are sorted by length and translated in batches of about the same
    number of tokens; the translations come back in the order of the
    sentences. What is empty, or blank, stays an empty line.

    Args:
        model: `Transformer`.
        vocabulary: `Vocabulary` of the target, and of the source unless
            `source_vocabulary` is given; or anything with its `encode`,
            `decode` and `end_id`.
        source_vocabulary: `Vocabulary` of the source. Defaults to
            `vocabulary`.
        num_beams: int. Defaults to `4`; `1` is greedy search.
        length_penalty: float. See `beam_search`. Defaults to `0.6`.
        max_extra_length: int. How many tokens longer than its source a
            translation may be. Defaults to `50`.
        max_length: int. The longest translation, in tokens. Defaults to
            `None`, no limit but `max_extra_length`.
        min_length: int. The shortest, the end of sentence included. Defaults
            to `0`.
        max_source_length: int. Tokens, the end of sentence included, at which
            longer sentences are cut. Defaults to `512`.
        batch_tokens: int. Most source positions, over all beams, of a batch.
            Defaults to `8192`.

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
        model,
        vocabulary,
        source_vocabulary=None,
        num_beams=4,
        length_penalty=0.6,
        max_extra_length=50,
        max_source_length=512,
        batch_tokens=8192,
        max_length=None,
        min_length=0,
    ):
        self.model = model
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

    def translate(self, sentences, num_results=None, target_prefixes=None):
        """The translation of each sentence, a list of strings.

        Args:
            sentences, num_results, target_prefixes: see `search`.

        Returns:
            List of strings; with `num_results` a list of lists of them, best
            first.
        """
        found = self.search(sentences, num_results, target_prefixes)
        if num_results is None:
            return [translation.text for translation in found]
        return [[result.text for result in results] for results in found]

    def search(
        self,
        sentences,
        num_results=None,
        target_prefixes=None,
        return_attention=False,
        report=None,
    ):
        """Like `translate`, with scores, ids and what was cut.

        Args:
            sentences: list of strings, each a line of text.
            num_results: int. The best translations of a sentence to return,
                at most `num_beams`. Defaults to `None`, the best one.
            target_prefixes: list of strings, what the translation of each
                sentence begins with. Defaults to `None`, all are free.
            return_attention: bool. Also return what each translation attends
                to. Defaults to `False`.
            report: called after each batch with the number of sentences
                translated so far.

        Returns:
            List of `Translation`, one for each sentence, in their order; with
            `num_results` a list of lists of them, best first. There are fewer
            where fewer were found, and one for an empty sentence.

        Raises:
            TypeError: if `sentences` is no list of strings.
            ValueError: if a number is out of range, a sentence is no text, or
                there is not a prefix for each sentence.
            InputError: if the model gives logits that are not finite.
        """
        num_results = _checked_num_results(num_results)
        decode = functools.partial(
            beam_search,
            num_beams=self.num_beams,
            length_penalty=self.length_penalty,
            num_results=num_results or 1,
            return_attention=return_attention,
        )
        found = self._decode(
            sentences, decode, self.num_beams, target_prefixes, report
        )
        return found if num_results else [results[0] for results in found]

    def sample(
        self,
        sentences,
        num_results=None,
        temperature=1.0,
        top_k=None,
        top_p=None,
        seed=None,
        target_prefixes=None,
        return_attention=False,
        report=None,
    ):
        """Translations drawn at random, see `relative_attention.sample`.

        Args:
            temperature, top_k, top_p, seed: see `relative_attention.sample`.
            sentences, num_results, target_prefixes, return_attention, report:
                see `search`; here `num_results` has no limit.

        Returns, Raises: see `search`.
        """
        num_results = _checked_num_results(num_results)
        num_draws = num_results or 1
        decode = functools.partial(
            sample,
            num_results=num_draws,
            temperature=temperature,
            top_k=top_k,
            top_p=top_p,
            seed=seed,
            return_attention=return_attention,
        )
        found = self._decode(
            sentences, decode, num_draws, target_prefixes, report
        )
        return found if num_results else [results[0] for results in found]

    def _decode(self, sentences, decode, num_beams, target_prefixes, report):
        """Lists of `Translation`, of each sentence, by `decode`."""
        sentences = checked_sentences("sentences", sentences)
        if target_prefixes is not None:
            target_prefixes = _checked_prefixes(target_prefixes, sentences)
        rows = self.source_vocabulary.encode(sentences)
        prefixes = [()] * len(rows)
        if target_prefixes is not None:
            prefixes = self.vocabulary.encode(target_prefixes)
        limit = self.max_source_length - 1
        found = [
            [Translation("", 0.0, was_cut=len(row) > limit)] for row in rows
        ]
        searched = [
            index
            for index, sentence in enumerate(sentences)
            if sentence.strip()
        ]
        num_done = len(sentences) - len(searched)
        for batch in self._batches(rows, searched, num_beams):
            results = self._decode_batch(
                [
                    (*rows[index][:limit], self.source_vocabulary.end_id)
                    for index in batch
                ],
                [prefixes[index] for index in batch],
                decode,
            )
            for index, translations in zip(batch, results):
                was_cut = len(rows[index]) > limit
                found[index] = [
                    Translation(was_cut=was_cut, **translation)
                    for translation in translations
                ]
            num_done += len(batch)
            if report is not None:
                report(num_done)
        return found

    def _batches(self, rows, searched, num_beams):
        """Indices of sentences of like length, the longest first.

        The longest come first so that a batch too large for the memory is
        noticed at once and not after an hour.
        """
        longest_first = sorted(searched, key=lambda i: -len(rows[i]))
        start = 0
        while start < len(longest_first):
            length = min(
                len(rows[longest_first[start]]) + 1, self.max_source_length
            )
            size = max(1, self.batch_tokens // (length * num_beams))
            yield longest_first[start : start + size]
            start += size

    def _decode_batch(self, rows, prefixes, decode):
        """For each row its results, dicts of what a `Translation` holds."""
        results = decode(
            self.model,
            padded_rows(rows),
            max_extra_length=self.max_extra_length,
            max_length=self.max_length,
            min_length=self.min_length,
            target_prefix=padded_rows(prefixes) if any(prefixes) else None,
        )
        token_ids = np.asarray(results["token_ids"])
        scores = np.asarray(results["scores"]).tolist()
        attention = results.get("attention")
        _, num_results, length = token_ids.shape
        texts = self.vocabulary.decode(
            token_ids.reshape(len(rows) * num_results, length)
        )
        translations = []
        for number, row in enumerate(rows):
            translations.append([])
            for rank in range(num_results):
                if rank and scores[number][rank] < IMPOSSIBLE / 2:
                    break
                ids = _until_end(token_ids[number, rank])
                translation = {
                    # A translation is a line: whoever reads it counts lines.
                    "text": texts[number * num_results + rank].replace(
                        "\n", " "
                    ),
                    "score": scores[number][rank],
                    "source_token_ids": tuple(row),
                    "token_ids": ids,
                }
                if attention is not None:
                    translation["attention"] = np.asarray(
                        attention[number, rank, :, :, : len(ids), : len(row)]
                    )
                translations[-1].append(translation)
        return translations


def _checked_num_results(num_results):
    if num_results is None:
        return None
    return checked_at_least(
        "num_results",
        num_results,
        1,
    )


def _checked_prefixes(target_prefixes, sentences):
    target_prefixes = checked_sentences("target_prefixes", target_prefixes)
    if len(target_prefixes) != len(sentences):
        raise ValueError(
            "`target_prefixes` must have a string, if an empty one, for each "
            f"sentence. Received: {len(target_prefixes)} for "
            f"{len(sentences)} sentences."
        )
    return target_prefixes


def _until_end(token_ids):
    ids = token_ids.tolist()
    if END_ID in ids:
        return tuple(ids[: ids.index(END_ID) + 1])
    # Cut at its limit; others in the batch went on.
    while ids and ids[-1] == 0:
        ids.pop()
    return tuple(ids)
