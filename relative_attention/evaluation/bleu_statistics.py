"""What BLEU is computed from, sentence by sentence, without the text."""

import base64
import dataclasses
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
import sacrebleu

from relative_attention.evaluation.sacrebleu_metrics import check_lines
from relative_attention.evaluation.sacrebleu_metrics import sacrebleu_metrics

# As sacreBLEU has them: length, length of the reference, then of n-grams of
# one to four tokens how many are right and how many there are.
_COLUMNS = 10
# Little-endian, so that a file is read alike on every machine; most of the
# second byte is zeros, which take no room once they are compressed.
_STORED = "<u2"


@dataclasses.dataclass(frozen=True, eq=False)
class BleuStatistics:
    """Holds counts of each sentence, and gives BLEU of any text of them.

    A few kilobytes for a thousand sentences, from which no sentence can be
    read, so that they may be kept where a corpus may not.

    Attributes:
        counts: Integer array `(sentences, 10)`: length of the translation and
            of the reference in tokens; right n-grams of one to four tokens;
            all n-grams of one to four tokens.
        signature: sacreBLEU's signature.
    """

    counts: np.ndarray
    signature: str

    @classmethod
    def of_texts(
        cls,
        hypotheses: Sequence[str],
        references: Sequence[str],
        lowercase: bool = False,
        tokenize: str = "13a",
    ) -> "BleuStatistics":
        """Counts in translations, with one reference each.

        Args:
            hypotheses: list of strings, detokenised.
            references: list of strings, as many.
            lowercase: as for `corpus_bleu`.
            tokenize: as for `corpus_bleu`.

        Raises:
            ValueError: if the numbers of lines differ or there is none.
        """
        check_lines(hypotheses, references)
        metric = sacrebleu_metrics(["bleu"], lowercase, tokenize)["bleu"]
        # What sacreBLEU's own tests of significance start from.
        counts = metric._extract_corpus_statistics(hypotheses, [references])
        # The signature knows how many references there were once it scored.
        metric.corpus_score(hypotheses, [references])
        return cls(np.array(counts), metric.get_signature().format())

    def bleu(self, sentences: np.ndarray | None = None) -> float:
        """Returns BLEU of all sentences, or of some.

        Args:
            sentences: integer array. Indices, which may repeat. Defaults to
                `None`, all.
        """
        counts = self.counts if sentences is None else self.counts[sentences]
        return bleu_of_counts(counts.sum(axis=0))

    def has_text_of(self, other: "BleuStatistics") -> bool:
        """Returns whether both count alike, in what looks like one test text.

        The lengths of the references tell it, as there is no text here.

        Args:
            other: `BleuStatistics`.
        """
        return self.signature == other.signature and np.array_equal(
            self.counts[:, 1], other.counts[:, 1]
        )

    def to_json(self) -> dict[str, Any]:
        """Returns what `from_json` makes the same of, a dict of strings."""
        # By column: equal numbers stand side by side, and compress.
        stored = np.ascontiguousarray(self.counts.T).astype(_STORED).tobytes()
        packed = base64.b64encode(zlib.compress(stored, 9)).decode("ascii")
        return {"signature": self.signature, "counts": packed}

    @classmethod
    def from_json(cls, mapping: dict[str, Any]) -> "BleuStatistics":
        """Reads what `to_json` returned.

        Raises:
            ValueError: if it is damaged.
        """
        try:
            stored = zlib.decompress(base64.b64decode(mapping["counts"]))
            columns = np.frombuffer(stored, _STORED).reshape(_COLUMNS, -1)
            return cls(columns.T.astype(np.int64), str(mapping["signature"]))
        except (LookupError, TypeError, ValueError, zlib.error) as error:
            raise ValueError(f"damaged counts of BLEU: {error}") from error


def bleu_of_counts(total: np.ndarray) -> float:
    """Returns BLEU of the sum of the counts of some sentences, `(10,)`."""
    values = [int(value) for value in total]
    return sacrebleu.metrics.BLEU.compute_bleu(
        correct=values[2:6],
        total=values[6:],
        sys_len=values[0],
        ref_len=values[1],
        smooth_method="exp",
    ).score
