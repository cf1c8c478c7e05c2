"""Other ways to go on from the beginning of a translation."""

from typing import Any
from typing import NamedTuple

import numpy as np
from keras import ops

from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.decoding.beam_search import beam_search
from relative_attention.decoding.compiled import run_compiled
from relative_attention.decoding.model_steps import END_ID
from relative_attention.decoding.model_steps import start_token_id
from relative_attention.decoding.translation import read_translations
from relative_attention.decoding.translator import padded_rows
from relative_attention.serve.request_error import RequestError
from relative_attention.tensor_type import Tensor


class _Inputs(NamedTuple):
    """Source and beginning of a translation, int32 `(1, S)` and `(1, T)`."""

    source_token_ids: Tensor
    target_token_ids: Tensor


def find_alternatives(
    translator: Translator, sentence: str, prefix: str, num_results: int
) -> list[Translation]:
    """Finds translations that begin alike and then differ at once.

    The tokens that the model finds likeliest after the prefix each begin a
    translation, which a beam search goes on with. An n-best list has the same
    token there again and again.

    Args:
        translator: `Translator`.
        sentence: string.
        prefix: string, what all translations begin with; may be empty.
        num_results: int. Most translations.

    Returns:
        List of `Translation`, that of the likeliest token first. There are
        fewer where two tokens give the same text.

    Raises:
        RequestError: 400 if the prefix has more tokens than any translation.
    """
    limit = translator.max_source_length - 1
    source_row = (
        *translator.source_vocabulary.encode([sentence])[0][:limit],
        translator.source_vocabulary.end_id,
    )
    begun = list(translator.vocabulary.encode([prefix])[0])
    _check_length(translator, len(begun))
    tokens = _likeliest_tokens(translator, source_row, begun, num_results)
    sources = [source_row] * len(tokens)
    results = beam_search(
        translator.model,
        padded_rows(sources),
        num_beams=translator.num_beams,
        length_penalty=translator.length_penalty,
        max_extra_length=translator.max_extra_length,
        max_length=translator.max_length,
        min_length=translator.min_length,
        target_prefix=padded_rows([[*begun, token] for token in tokens]),
    )
    found = read_translations(
        results, sources, [False] * len(tokens), translator.vocabulary
    )
    by_text: dict[str, Translation] = {}
    for best, *_ in found:
        by_text.setdefault(best.text, best)
    return list(by_text.values())


def _check_length(translator: Translator, num_tokens: int) -> None:
    """Refuses what no translation begins with.

    A search goes through a whole prefix, however long, while all others wait.
    """
    most = translator.max_source_length + translator.max_extra_length
    if translator.max_length is not None:
        most = min(most, translator.max_length)
    if num_tokens > most:
        raise RequestError(
            400,
            f"`prefix` must have at most {most} tokens, as a translation. "
            f"Received: {num_tokens}.",
        )


def _likeliest_tokens(
    translator: Translator,
    source_row: tuple[int, ...],
    begun: list[int],
    number: int,
) -> list[int]:
    """Returns the tokens likeliest to follow, without end and padding."""
    start = start_token_id(translator.model)
    inputs = _Inputs(
        ops.convert_to_tensor([source_row], "int32"),
        ops.convert_to_tensor([[start, *begun]], "int32"),
    )
    logits = ops.convert_to_numpy(
        run_compiled(_last_logits, translator.model, inputs)
    )
    order = np.argsort(-logits, kind="stable").tolist()
    return [token for token in order if token not in (0, END_ID)][:number]


def _last_logits(model: Any, inputs: _Inputs) -> Tensor:
    """Returns the logits `(V,)` of the token that comes next."""
    return model(inputs._asdict())[0, -1]
