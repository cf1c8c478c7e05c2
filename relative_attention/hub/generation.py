"""Generation from strings to strings, batch by batch."""

from collections.abc import Iterator
from typing import Any

import keras_hub
import numpy as np

from relative_attention.errors import InputError
from relative_attention.hub.token_rows import padded_length


def generate_strings(
    task: Any,
    inputs: Any,
    max_length: int | None,
    stop_token_ids: Any,
    strip_prompt: bool,
) -> str | list[str]:
    """Translates strings, by beam search or by the sampler of a task.

    Args:
        task: `TranslationLM` with a preprocessor.
        inputs, max_length, stop_token_ids, strip_prompt: see its `generate`.

    Returns:
        A string, or a list of them, as the inputs.

    Raises:
        InputError: see `TranslationLM.generate`.
    """
    if task.sampler is None and not _is_auto(stop_token_ids):
        raise InputError(
            '`stop_token_ids` must be "auto" for the beam search, which ends '
            f"at the end of sentence. Received: {stop_token_ids!r}. Compile "
            "the task with a sampler for others."
        )
    generate = _searched if task.sampler is None else _sampled
    translations: list[str] = []
    is_one_string = False
    for sources, prefixes, is_one in _batches(inputs):
        is_one_string = is_one
        _check_lengths(task, sources)
        texts = generate(task, sources, prefixes, max_length, stop_token_ids)
        if strip_prompt:
            texts = [
                text.removeprefix(prefix).lstrip()
                for text, prefix in zip(texts, prefixes)
            ]
        translations += texts
    return translations[0] if is_one_string else translations


def _searched(
    task: Any,
    sources: list[str],
    prefixes: list[str],
    max_length: int | None,
    stop_token_ids: Any,
) -> list[str]:
    """Translates by our own beam search."""
    translator = task.translator
    translator.max_length = max_length
    found = translator.search(
        sources, target_prefixes=prefixes if any(prefixes) else None
    )
    return [translation.text for translation in found]


def _sampled(
    task: Any,
    sources: list[str],
    prefixes: list[str],
    max_length: int | None,
    stop_token_ids: Any,
) -> list[str]:
    """Translates by a sampler, what is blank left out as by a search."""
    texts = [""] * len(sources)
    places = [n for n, source in enumerate(sources) if source.strip()]
    if not places:
        return texts
    preprocessor = task.preprocessor
    batch = {
        "encoder_text": [sources[n] for n in places],
        "decoder_text": [prefixes[n] for n in places],
    }
    if max_length is None:
        rows = preprocessor.source_rows(batch["encoder_text"])
        # As long for all sources that are padded to one length, so that they
        # share what is compiled. An end of sentence counts.
        longest = padded_length(max(map(len, rows)) + 1)
        max_length = longest + task.max_extra_length
    # KerasHub counts the start, too.
    found = keras_hub.models.Seq2SeqLM.generate(
        task, batch, max_length + 1, stop_token_ids
    )
    for place, text in zip(places, found):
        texts[place] = text
    return texts


def _batches(inputs: Any) -> Iterator[tuple[list[str], list[str], bool]]:
    """Yields sources, what their translations begin with, and if it is one.

    Args:
        inputs: as of `TranslationLM.generate`.
    """
    is_dataset = hasattr(inputs, "as_numpy_iterator")
    for batch in inputs.as_numpy_iterator() if is_dataset else [inputs]:
        if is_dataset and isinstance(batch, tuple):
            # Pairs, as of training.
            batch = batch[0]
        if isinstance(batch, dict):
            sources, is_one = _strings(batch["encoder_text"])
            prefixes, _ = _strings(batch.get("decoder_text", ""))
        else:
            sources, is_one = _strings(batch)
            prefixes = [""]
        if len(prefixes) == 1:
            prefixes = prefixes * len(sources)
        if len(prefixes) != len(sources):
            raise InputError(
                'There must be a "decoder_text" for each "encoder_text". '
                f"Received: {len(prefixes)} for {len(sources)}."
            )
        yield sources, prefixes, is_one and not is_dataset


def _strings(texts: Any) -> tuple[list[str], bool]:
    """Returns texts as a list of strings, and whether it was one string."""
    if hasattr(texts, "numpy"):
        texts = texts.numpy()
    is_one = isinstance(texts, str | bytes) or np.ndim(texts) == 0
    items = [texts] if is_one else list(texts)
    strings = [
        item.decode() if isinstance(item, bytes) else item for item in items
    ]
    for number, item in enumerate(strings):
        if not isinstance(item, str):
            raise InputError(
                "`inputs` must be strings, or batches of them. Received: item "
                f"{number} of type {type(item).__name__}."
            )
    return strings, is_one


def _check_lengths(task: Any, sources: list[str]) -> None:
    """Refuses sources that would be cut."""
    for number, row in enumerate(task.preprocessor.source_rows(sources)):
        if len(row) + 1 > task.max_source_length:
            raise InputError(
                f"A source must be of at most {task.max_source_length} tokens, "
                "its end included (`max_source_length`). Received: "
                f"{len(row) + 1} in item {number}, "
                f"{sources[number][:40]!r}... Split it, or load the preset "
                f"with `max_source_length={len(row) + 1}`."
            )


def _is_auto(stop_token_ids: Any) -> bool:
    return isinstance(stop_token_ids, str) and stop_token_ids == "auto"
