"""Gives sacreBLEU Moses' tokeniser, which it has not."""

from types import ModuleType

import sacrebleu

from relative_attention.did_you_mean import did_you_mean
from relative_attention.errors import InputError

_PREFIX = "moses-"


class MosesTokenizer:
    """Cuts lines into tokens as Moses does, for BLEU by sacreBLEU.

    Nothing is escaped, and words with a hyphen stay whole (no aggressive
    splits). It stands for a tokeniser of sacreBLEU's.

    Args:
        language: The code of a language, such as `"de"`.

    Raises:
        InputError: as `check_moses`.
    """

    def __init__(self, language: str) -> None:
        module = _sacremoses(language)
        self._tokenizer = module.MosesTokenizer(language)
        self._signature = f"{_PREFIX}{language}-sacremoses-{module.__version__}"

    def signature(self) -> str:
        """Returns what stands after `tok:` in a signature of sacreBLEU's."""
        return self._signature

    def __call__(self, line: str) -> str:
        """Returns the tokens of a line, with blanks between them."""
        return " ".join(
            self._tokenizer.tokenize(
                line, aggressive_dash_splits=False, escape=False
            )
        )


def check_moses(language: str) -> None:
    """Refuses a language that Moses' tokeniser cannot be had for.

    Args:
        language: The code of a language.

    Raises:
        InputError: if `sacremoses` is not installed, or has no list of the
            language's abbreviations: it would take those of English.
    """
    _sacremoses(language)


def bleu_metric(
    lowercase: bool, tokenize: str, effective_order: bool
) -> sacrebleu.metrics.BLEU:
    """Returns BLEU of sacreBLEU, with Moses' tokeniser where it is asked for.

    Args:
        lowercase: bool. Whether case is ignored: what is tokenised is
            lowercased before.
        tokenize: string. The name of a tokeniser of sacreBLEU's, or
            `"moses-de"` and the like for the language `"de"`.
        effective_order: bool. Whether n-grams longer than the sentence are
            left out.

    Raises:
        InputError: as `check_moses`.
    """
    if not tokenize.startswith(_PREFIX):
        return sacrebleu.metrics.BLEU(
            lowercase=lowercase,
            tokenize=tokenize,
            effective_order=effective_order,
        )
    metric = sacrebleu.metrics.BLEU(
        lowercase=lowercase, tokenize="none", effective_order=effective_order
    )
    tokenizer = MosesTokenizer(tokenize.removeprefix(_PREFIX))
    metric.tokenizer = tokenizer
    metric.tokenizer_signature = tokenizer.signature()
    return metric


def _sacremoses(language: str) -> ModuleType:
    try:
        import sacremoses
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise InputError(
            "Moses' tokeniser needs `sacremoses`. Install it with `pip "
            "install sacremoses`."
        ) from error
    known = sorted(set(NonbreakingPrefixes().available_langs.values()))
    if language not in known:
        raise InputError(
            "The language of Moses' tokeniser must be a code that it knows. "
            f"Received: {language!r}.{did_you_mean(language, known)} Known: "
            f"{', '.join(known)}."
        )
    return sacremoses
