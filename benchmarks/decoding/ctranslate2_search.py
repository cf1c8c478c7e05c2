"""CTranslate2 with the vocabularies and the limit of length of a translator."""

import collections
import pathlib
from collections.abc import Sequence
from typing import Any

import relative_attention as ra

_BATCH_SIZE = 32


class CTranslate2Search:
    """Exports a translator and translates with what it became.

    Args:
        translator: A `Translator`.
        folder: The path of a folder to export to.
        quantization: A string, see `export_ctranslate2`.
    """

    def __init__(
        self,
        translator: "ra.Translator",
        folder: pathlib.Path,
        quantization: str,
    ) -> None:
        import ctranslate2

        ra.export_ctranslate2(translator, folder, quantization)
        self._engine = ctranslate2.Translator(str(folder))
        self._translator = translator
        # What can be exported has pieces, which not every vocabulary has.
        vocabulary: Any = translator.vocabulary
        pieces = vocabulary.pieces(range(len(vocabulary)))
        self._ids = {piece: number for number, piece in enumerate(pieces)}

    def token_ids(
        self, sentences: Sequence[str], num_beams: int, length_penalty: float
    ) -> list[list[int]]:
        """Translates to ids.

        Args:
            sentences: A sequence of strings.
            num_beams: An integer.
            length_penalty: A float, the alpha of CTranslate2.

        Returns:
            A list of the ids of each translation, without its end.
        """
        vocabulary: Any = self._translator.source_vocabulary
        rows = vocabulary.encode(list(sentences))
        if getattr(vocabulary, "start", False):
            # CTranslate2 adds it itself.
            rows = [row[1:] for row in rows]
        # CTranslate2 knows one limit a call, and each length has another.
        by_length = collections.defaultdict(list)
        for index, row in enumerate(rows):
            by_length[len(row) + 1].append(index)
        result: list[list[int]] = [[] for _ in rows]
        for length, indices in by_length.items():
            limit = length + self._translator.max_extra_length
            found = self._engine.translate_batch(
                [vocabulary.pieces(rows[index]) for index in indices],
                beam_size=num_beams,
                length_penalty=length_penalty,
                min_decoding_length=0,
                max_decoding_length=limit,
                max_input_length=self._translator.max_source_length,
                max_batch_size=_BATCH_SIZE,
            )
            for index, translation in zip(indices, found):
                result[index] = [
                    self._ids[piece] for piece in translation.hypotheses[0]
                ]
        return result

    def translate(
        self, sentences: Sequence[str], num_beams: int, length_penalty: float
    ) -> list[str]:
        """Translates to lines of text, see `token_ids`."""
        rows = self.token_ids(sentences, num_beams, length_penalty)
        texts = self._translator.vocabulary.decode(rows)
        return [" ".join(text.split("\n")) for text in texts]
