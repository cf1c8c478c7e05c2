"""Sentences in, sentences out."""

import dataclasses

import numpy as np

from relative_attention.decoding.beam_search import beam_search


@dataclasses.dataclass(frozen=True)
class Translation:
    """A translation and how sure the model is of it.

    Attributes:
        text: The translation, detokenised.
        score: Its score in the beam search (see `beam_search`); `0.0` for an
            empty sentence, which is not searched for.
        was_cut: Whether the source was longer than the limit and was cut.
    """

    text: str
    score: float
    was_cut: bool


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
        max_source_length: int. Tokens, the end of sentence included, at which
            longer sentences are cut. Defaults to `512`.
        batch_tokens: int. Most source positions, over all beams, of a batch.
            Defaults to `8192`.

    Raises:
        ValueError: if a number is too small.

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
    ):
        for name, value, least in (
            ("num_beams", num_beams, 1),
            ("length_penalty", length_penalty, 0),
            ("max_extra_length", max_extra_length, 0),
            ("max_source_length", max_source_length, 2),
            ("batch_tokens", batch_tokens, 1),
        ):
            if value < least:
                raise ValueError(
                    f"`{name}` must be at least {least}. "
                    f"Received: {name}={value}."
                )
        self.model = model
        self.vocabulary = vocabulary
        self.source_vocabulary = source_vocabulary or vocabulary
        self.num_beams = num_beams
        self.length_penalty = length_penalty
        self.max_extra_length = max_extra_length
        self.max_source_length = max_source_length
        self.batch_tokens = batch_tokens

    def translate(self, sentences):
        """The translation of each sentence, a list of strings.

        Args:
            sentences: list of strings, each a line of text.
        """
        return [translation.text for translation in self.search(sentences)]

    def search(self, sentences, report=None):
        """Like `translate`, with scores and what was cut.

        Args:
            sentences: list of strings.
            report: called after each batch with the number of sentences
                translated so far.

        Returns:
            List of `Translation`, one for each sentence, in their order.

        Raises:
            TypeError: if `sentences` is a single string.
        """
        if isinstance(sentences, str):
            raise TypeError(
                "`sentences` must be a list of strings. Received a string; "
                f"pass [{sentences!r}]."
            )
        rows = self.source_vocabulary.encode(sentences)
        limit = self.max_source_length - 1
        translations = [
            Translation("", 0.0, was_cut=len(row) > limit) for row in rows
        ]
        num_done = sum(not sentence.strip() for sentence in sentences)
        searched = [
            index
            for index, sentence in enumerate(sentences)
            if sentence.strip()
        ]
        for batch in self._batches(rows, searched):
            texts, scores = self._search_batch(
                [rows[index][:limit] for index in batch]
            )
            for index, text, score in zip(batch, texts, scores):
                translations[index] = dataclasses.replace(
                    translations[index], text=text, score=float(score)
                )
            num_done += len(batch)
            if report is not None:
                report(num_done)
        return translations

    def _batches(self, rows, searched):
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
            size = max(1, self.batch_tokens // (length * self.num_beams))
            yield longest_first[start : start + size]
            start += size

    def _search_batch(self, rows):
        length = max(map(len, rows)) + 1
        source = np.zeros((len(rows), length), np.int32)
        for number, row in enumerate(rows):
            source[number, : len(row)] = row
            source[number, len(row)] = self.source_vocabulary.end_id
        results = beam_search(
            self.model,
            source,
            num_beams=self.num_beams,
            length_penalty=self.length_penalty,
            max_extra_length=self.max_extra_length,
        )
        token_ids = np.asarray(results["token_ids"])[:, 0]
        scores = np.asarray(results["scores"])[:, 0]
        # A translation is a line: whoever reads it counts lines.
        texts = [
            " ".join(text.split("\n"))
            for text in self.vocabulary.decode(token_ids)
        ]
        return texts, scores
