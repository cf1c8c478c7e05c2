"""Scores texts and sentences with sacreBLEU: BLEU, chrF, chrF++ and TER."""

import bisect
import dataclasses
import importlib.util
import re
from collections.abc import Sequence
from types import ModuleType
from typing import Any
from typing import TypeAlias

import sacrebleu

from relative_attention.argument_checks import checked_sentences
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean
from relative_attention.text.form import HAN
from relative_attention.text.form import OTHERS_WITHOUT_BLANKS

METRICS = ("bleu", "chrf", "chrf++", "ter")
# A line for each hypothesis; or several such lists.
References: TypeAlias = Sequence[str] | Sequence[Sequence[str]]

_MOSES = "moses-"
_NUM_BUCKETS = 8
# Languages written without blanks between words. Japanese is scored by
# characters, as sacreBLEU's tokenizer for it needs more packages: a score must
# not depend on what is installed.
_WITHOUT_BLANKS = {
    "zh": "zh",
    **dict.fromkeys(["yue", "wuu", "ja", "th", "lo", "km", "my", "bo"], "char"),
}
_MOST_SAMPLED = 1000


@dataclasses.dataclass(frozen=True)
class CorpusScore:
    """The score of a text, with everything needed to compare it.

    Attributes:
        name: sacreBLEU's name of the metric: BLEU, chrF2, chrF2++ or TER. A
            lower TER is better.
        score: The score, 0 to 100; TER may be higher.
        signature: sacreBLEU's signature, with its version and all settings.
    """

    name: str
    score: float
    signature: str

    def __str__(self) -> str:
        return f"{self.name} {self.score:.2f} ({self.signature})"


@dataclasses.dataclass(frozen=True)
class LengthScore:
    """BLEU of the sentences of about one length.

    Attributes:
        least: The number of words of the shortest source sentence.
        most: The number of words of the longest source sentence.
        mean: The mean number of words of the source sentences.
        num_sentences: The number of sentences.
        bleu: The BLEU score of these sentences as one text, 0 to 100.
    """

    least: int
    most: int
    mean: float
    num_sentences: int
    bleu: float


def corpus_bleu(
    hypotheses: Sequence[str],
    references: References,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> CorpusScore:
    """Computes BLEU of translations against one or more references each.

    Args:
        hypotheses: list of strings, detokenized.
        references: list of strings, one for each hypothesis; or a list of such
            lists, if there are several references.
        lowercase: bool. Whether to ignore case. Defaults to `False`.
        tokenize: string. The name of a tokenizer, see `corpus_scores`.
            Defaults to `"13a"`, the one of the WMT evaluations.

    Returns:
        `CorpusScore`.

    Raises:
        TypeError: if an argument is not a list of strings.
        ValueError: if the numbers of lines differ or are 0, or a tokenizer is
            unknown.
        InputError: if a tokenizer is requested and not installed.

    Reference:
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
    """
    return corpus_scores(hypotheses, references, ["bleu"], lowercase, tokenize)[
        "bleu"
    ]


def corpus_scores(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, CorpusScore]:
    """Scores translations against one or more references each.

    Args:
        hypotheses: list of strings, detokenized.
        references: as for `corpus_bleu`.
        metrics: list of names among `"bleu"`, `"chrf"`, `"chrf++"` and
            `"ter"`. Defaults to all.
        lowercase: bool. Whether BLEU, chrF and chrF++ ignore case. TER
            always does, as sacreBLEU defines it. Defaults to `False`.
        tokenize: string. The name of a sacreBLEU tokenizer for BLEU; or
            `"moses-de"`, `"moses-fr"` and so on for the Moses tokenizer of
            that language, which many papers use, mostly on lowercased text.
            Text without blanks between words needs `"zh"`, `"char"`,
            `"ja-mecab"` or a like one. Defaults to `"13a"`, the one of the WMT
            evaluations.

    Returns:
        Dict of metric to `CorpusScore`, in the order of `metrics`.

    Raises:
        TypeError: if the texts are not lists of strings.
        ValueError: if the numbers of lines differ or are 0, or a metric or
            tokenizer is unknown.
        InputError: if a tokenizer is not installed, or Moses' does not know
            the language.

    Example:
    >>> hypotheses = ["Ein Mann fährt Rad.", "Der Hund läuft im Schnee."]
    >>> references = ["Ein Mann fährt Rad.", "Ein Hund läuft durch den Schnee."]
    >>> for score in ra.corpus_scores(hypotheses, references).values():
    ...     print(score)
    BLEU ...

    Reference:
     - [Papineni et al., 2002](https://aclanthology.org/P02-1040)
     - [Popović, 2015](https://aclanthology.org/W15-3049)
     - [Popović, 2017](https://aclanthology.org/W17-4770), chrF++
     - [Snover et al., 2006](https://aclanthology.org/2006.amta-papers.25)
     - [Post, 2018](https://arxiv.org/abs/1804.08771)
    """
    scorers = sacrebleu_metrics(metrics, lowercase, tokenize)
    hypotheses, sets = checked_lines(hypotheses, references)
    scores = {}
    for name, scorer in scorers.items():
        score = scorer.corpus_score(hypotheses, sets)
        # The signature is complete only after a text has been scored.
        signature = scorer.get_signature().format()
        scores[name] = CorpusScore(score.name, score.score, signature)
    return scores


def sentence_scores(
    hypotheses: Sequence[str],
    references: References,
    metrics: Sequence[str] = METRICS,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> dict[str, list[float]]:
    """Scores each translation against its references.

    Use the scores to find bad sentences. Their mean is not the score of the
    text. BLEU ignores n-grams that are longer than the sentence (sacreBLEU's
    effective order); otherwise all short sentences would score close to 0.

    Args:
        hypotheses: list of strings, detokenized.
        references: as for `corpus_bleu`.
        metrics: list of names among `"bleu"`, `"chrf"`, `"chrf++"` and
            `"ter"`. Defaults to all.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        Dict of metric to a list of float, one for each sentence.

    Raises:
        TypeError: if the texts are not lists of strings.
        ValueError: if the numbers of lines differ or are 0, or a metric or
            tokenizer is unknown.
        InputError: if a tokenizer is requested and not installed.
    """
    scorers = sacrebleu_metrics(
        metrics, lowercase, tokenize, effective_order=True
    )
    hypotheses, sets = checked_lines(hypotheses, references)
    return {
        name: [
            scorer.sentence_score(hypothesis, list(of_one)).score
            for hypothesis, of_one in zip(hypotheses, zip(*sets))
        ]
        for name, scorer in scorers.items()
    }


def bleu_by_length(
    sources: Sequence[str],
    hypotheses: Sequence[str],
    references: References,
    boundaries: Sequence[int] | None = None,
    lowercase: bool = False,
    tokenize: str = "13a",
) -> list[LengthScore]:
    """Computes BLEU by the length of the source.

    The sentences are put into buckets by the number of words of their
    sources, split at blanks. Each bucket is scored as a separate text. BLEU
    of few sentences says little, so the buckets have about equal sizes.

    Args:
        sources: list of strings, the text that was translated.
        hypotheses: list of strings, one for each source, detokenized.
        references: as for `corpus_bleu`.
        boundaries: list of ascending ints, the most words of each bucket except
            the last, which has all longer sentences. Defaults to `None`: at
            most eight buckets of about equal size, with all sentences of one
            length in the same bucket.
        lowercase: as for `corpus_scores`.
        tokenize: as for `corpus_scores`.

    Returns:
        List of `LengthScore`, the shortest first, without empty buckets.

    Raises:
        TypeError: if the texts are not lists of strings.
        ValueError: if the numbers of lines differ or are 0, `boundaries` are
            not ascending, or a tokenizer is unknown.
        InputError: if a tokenizer is requested and not installed.

    Example:
    >>> sources = ["I like tea.", "The man rides a bike."]
    >>> hypotheses = ["Ich mag Tee.", "Der Mann fährt Bus."]
    >>> references = ["Ich mag Tee.", "Der Mann fährt ein Rad."]
    >>> for score in ra.bleu_by_length(sources, hypotheses, references, [4]):
    ...     print(f"{score.least} to {score.most} words: {score.bleu:.1f}")
    3 to 3 words: 100.0
    5 to 5 words: 35.0
    """
    sources, _ = checked_lines(sources, references, "sources")
    hypotheses, sets = checked_lines(hypotheses, references)
    lengths = [len(source.split()) for source in sources]
    if boundaries is None:
        boundaries = _octiles(lengths)
    if any(a >= b for a, b in zip(boundaries, boundaries[1:])):
        raise ValueError(
            "`boundaries` must rise: the most words of each bucket but the "
            f"last. Received: {list(boundaries)}."
        )
    # The line numbers of each bucket.
    buckets: dict[int, list[int]] = {}
    for line, length in enumerate(lengths):
        bucket = bisect.bisect_left(boundaries, length)
        buckets.setdefault(bucket, []).append(line)
    scores = []
    for _, lines in sorted(buckets.items()):
        bleu = corpus_bleu(
            [hypotheses[line] for line in lines],
            [[one[line] for line in lines] for one in sets],
            lowercase,
            tokenize,
        )
        words = [lengths[line] for line in lines]
        mean = sum(words) / len(words)
        scores.append(
            LengthScore(min(words), max(words), mean, len(words), bleu.score)
        )
    return scores


def _octiles(lengths: Sequence[int]) -> list[int]:
    """Returns the octiles of the lengths, without duplicates."""
    in_order = sorted(lengths)
    ends = [
        in_order[len(lengths) * number // _NUM_BUCKETS]
        for number in range(1, _NUM_BUCKETS)
    ]
    return sorted(set(ends))


def fitting_tokenizer(
    references: References, language: str | None = None
) -> str:
    """Returns sacreBLEU's tokenizer for a text, with which BLEU can rise.

    Args:
        references: as for `corpus_bleu`.
        language: string. The code of their language, such as `"zh"` or
            `"zh-TW"`. Defaults to `None`: their characters tell.

    Returns:
        `"zh"` for Chinese, `"char"` for other text without blanks between
        words, else `"13a"`.
    """
    _, sets = checked_lines(_one_set(references), references)
    sample = sets[0][:_MOST_SAMPLED]
    if language is not None:
        own = _WITHOUT_BLANKS.get(_base(language))
        if own is not None:
            return own
    text = "".join("".join(sample).split())
    num_han, num_others = (
        len(re.findall(f"[{some}]", text))
        for some in (HAN, OTHERS_WITHOUT_BLANKS)
    )
    if num_han + num_others > len(text) / 2:
        return "zh" if num_han > 9 * num_others else "char"
    # Digits without blanks, for example: no line has the four words of BLEU.
    return "13a" if can_rise(sample, "13a") else "char"


def can_rise(references: References, tokenize: str) -> bool:
    """Returns whether the BLEU of a perfect translation is not 0."""
    return (
        corpus_bleu(_one_set(references), references, True, tokenize).score > 0
    )


def _base(language: str) -> str:
    """Returns the code of a language without its region or script."""
    return re.split("[-_]", language.lower())[0]


def _one_set(references: References) -> Any:
    return references[0] if _are_several(references) else references


def _are_several(references: References) -> bool:
    return (
        isinstance(references, list | tuple)
        and len(references) > 0
        and not isinstance(references[0], str)
        and hasattr(references[0], "__len__")
    )


def checked_lines(
    hypotheses: Sequence[str],
    references: References,
    name: str = "hypotheses",
) -> tuple[list[str], list[list[str]]]:
    """Returns a text and its references, all with the same length, not 0."""
    hypotheses = checked_sentences(name, hypotheses)
    several: Any = {"references": references}
    if _are_several(references):
        several = {f"references[{n}]": one for n, one in enumerate(references)}
    sets = []
    for other, lines in several.items():
        sets.append(checked_sentences(other, lines))
        if len(hypotheses) != len(sets[-1]) or not hypotheses:
            raise ValueError(
                f"`{name}` and `{other}` must have the same number of lines, "
                "at least one. Received: "
                f"{len(hypotheses)} and {len(sets[-1])}."
            )
    return hypotheses, sets


def sacrebleu_metrics(
    names: Sequence[str],
    lowercase: bool = False,
    tokenize: str = "13a",
    effective_order: bool = False,
) -> dict[str, Any]:
    """Returns sacreBLEU's metrics by name, with its default settings."""
    if isinstance(names, str) or not names:
        raise ValueError(
            "`metrics` must be a list of one or more of "
            f"{', '.join(METRICS)}. Received: {names!r}."
        )
    for name in names:
        if name not in METRICS:
            raise ValueError(
                f"Unknown metric {name!r}."
                f"{did_you_mean(str(name).lower(), METRICS)} "
                f"Known: {', '.join(METRICS)}."
            )
    made = {
        "bleu": lambda: _bleu_metric(lowercase, tokenize, effective_order),
        "chrf": lambda: sacrebleu.metrics.CHRF(lowercase=lowercase),
        "chrf++": lambda: sacrebleu.metrics.CHRF(
            word_order=2, lowercase=lowercase
        ),
        "ter": sacrebleu.metrics.TER,
    }
    return {name: made[name]() for name in names}


def _bleu_metric(
    lowercase: bool, tokenize: str, effective_order: bool
) -> sacrebleu.metrics.BLEU:
    check_tokenizer(tokenize)
    is_moses = tokenize.startswith(_MOSES)
    metric = sacrebleu.metrics.BLEU(
        lowercase=lowercase,
        tokenize="none" if is_moses else tokenize,
        effective_order=effective_order,
    )
    if is_moses:
        # sacreBLEU has no Moses tokenizer, and cannot register one.
        language = tokenize.removeprefix(_MOSES)
        sacremoses = check_moses(language)
        moses = sacremoses.MosesTokenizer(language)
        metric.tokenizer = lambda line: " ".join(
            moses.tokenize(line, aggressive_dash_splits=False, escape=False)
        )
        metric.tokenizer_signature = (
            f"{tokenize}-sacremoses-{sacremoses.__version__}"
        )
    return metric


# Tokenizers that need packages: what to import, and sacreBLEU's extra.
_EXTRAS = {"ja-mecab": ("MeCab", "ja"), "ko-mecab": ("mecab_ko", "ko")}


def check_tokenizer(tokenize: str) -> None:
    """Refuses a tokenizer that is unknown or not installed.

    Raises:
        ValueError: if there is no such tokenizer.
        InputError: if it needs a package that is not installed.
    """
    if str(tokenize).startswith(_MOSES):
        check_moses(tokenize.removeprefix(_MOSES))
        return
    known = list(sacrebleu.metrics.BLEU.TOKENIZERS)
    if tokenize not in known:
        raise ValueError(
            f"Unknown tokenizer {tokenize!r}.{did_you_mean(tokenize, known)} "
            f"Known: {', '.join(known)}, and {_MOSES} with the code of a "
            "language."
        )
    module, extra = _EXTRAS.get(tokenize, (None, None))
    if module is not None and importlib.util.find_spec(module) is None:
        raise InputError(
            f"The tokenizer {tokenize} needs more packages. Install them with "
            f"`pip install 'sacrebleu[{extra}]'`, or choose char."
        )


def moses_tokenizer(language: str | None) -> str | None:
    """Returns the tokenizer for lowercased BLEU as in papers, if there is one.

    Raises:
        InputError: if `sacremoses` is not installed, or the language unknown.
    """
    if language is None or _base(language) in _WITHOUT_BLANKS:
        return None
    check_moses(language)
    return f"{_MOSES}{language}"


def check_moses(language: str) -> ModuleType:
    """Returns `sacremoses`, if it has a tokenizer for a language.

    Raises:
        InputError: if it is not installed or does not know the language.
    """
    try:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise InputError(
            "Moses' tokenizer needs `sacremoses`. Install it with `pip "
            "install sacremoses`."
        ) from error
    # For unknown languages it would use the abbreviations of English.
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise InputError(
            "The language of Moses' tokenizer must be a code that it knows. "
            f"Received: {language!r}.{did_you_mean(language, known)} Known: "
            f"{', '.join(known)}."
        )
    return sacremoses
