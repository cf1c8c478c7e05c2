"""Translates a text of any length, and resumes where it was interrupted."""

import dataclasses
import hashlib
import itertools
import json
import pathlib
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.data.lines import batched
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.decoding import Ensemble
from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.evaluation import sentence_scores
from relative_attention.files import resumable_file
from relative_attention.runs.report import Report
from relative_attention.zoo import find_model

# So many lines are translated before any is written: enough to sort by length.
# They are in memory, and lost at most.
CHUNK_LINES = 2000


@dataclasses.dataclass(frozen=True)
class ClosestTo:
    """Keeps of several translations the one that is closest to a reference.

    A student then learns what a model would write, and yet what is near to the
    corpus.

    Attributes:
        references: The text that the translations shall be close to.
        num_candidates: How many of a line there are to choose from.
        tokenize: sacreBLEU's name of the tokenizer.

    Reference:
     - [Kim and Rush, 2016](https://arxiv.org/abs/1606.07947), section 3.3
    """

    references: pathlib.Path | str
    num_candidates: int
    tokenize: str


def closest_translations(
    candidates: Sequence[Sequence[Translation]],
    references: Sequence[str],
    tokenize: str,
) -> list[Translation]:
    """Returns for each line the translation with the greatest sentence BLEU.

    Of equal ones it is the first.
    """
    scores = iter(
        sentence_scores(
            [one.text for some in candidates for one in some],
            [line for some, line in zip(candidates, references) for _ in some],
            ["bleu"],
            tokenize=tokenize,
        )["bleu"]
    )
    chosen = []
    for some in candidates:
        own = list(itertools.islice(scores, len(some)))
        chosen.append(some[own.index(max(own))])
    return chosen


def translate_text(
    translator: Translator,
    source: pathlib.Path | str,
    path: pathlib.Path,
    origin: Mapping[str, Any],
    report: Report,
    closest_to: ClosestTo | None = None,
) -> None:
    """Translates a text into a file, unless that is there already.

    A process that was killed is resumed, but for the chunk it was at.
    """
    if path.is_file():
        return
    lines = shard_lines(count_lines(source), 1, 1)
    with resumable_file(path, origin, {"lines": 0, "cut": 0}) as output:
        num_before = output.counts["lines"]
        progress = TranslationProgress(len(lines), num_before)
        search = _searching(translator, closest_to, lines[num_before:])

        for chunk in read_chunks(source, lines[num_before:]):
            num_done = output.counts["lines"]
            if num_done > num_before:
                report(f"translated {progress.line(num_done)}")
            found = search(chunk)
            output.write("".join(f"{one.text}\n" for one in found).encode())
            num_cut = output.counts["cut"] + sum(one.was_cut for one in found)
            output.keep(lines=num_done + len(chunk), cut=num_cut)
        report(f"translated {progress.line(output.counts['lines'])}")


def _searching(
    translator: Translator, closest_to: ClosestTo | None, lines: range
) -> Callable[[list[str]], list[Translation]]:
    """Returns what translates the next chunk of some lines."""
    if closest_to is None:
        return translator.search
    references = read_chunks(closest_to.references, lines)
    return lambda chunk: closest_translations(
        translator.search(chunk, num_results=closest_to.num_candidates),
        next(references),
        closest_to.tokenize,
    )


def read_chunks(path: pathlib.Path | str, lines: range) -> Iterator[list[str]]:
    """Yields some lines of a text in the chunks that they are translated in."""
    some = itertools.islice(read_lines(path), lines.start, lines.stop)
    yield from batched(some, CHUNK_LINES)


def shard_lines(num_lines: int, number: int, num_shards: int) -> range:
    """Returns the lines of one of several parts of a text.

    Parts begin where a chunk does: a line is then translated with the same
    others as without parts, to the last digit of its score.
    """
    num_chunks = -(-num_lines // CHUNK_LINES)
    first, end = (
        min(num_chunks * n // num_shards * CHUNK_LINES, num_lines)
        for n in (number - 1, number)
    )
    return range(first, end)


# Attributes of a `Translator` that decide what it writes, and what a user
# calls them. `batch_tokens` is none: it may be lowered for want of memory.
_SETTINGS = {
    "num_beams": "--num-beams",
    "length_penalty": "--length-penalty",
    "min_length": "--min-length",
    "max_length": "--max-length",
    "max_extra_length": "`decoding.max_extra_length`",
    "max_source_length": "`decoding.max_source_length`",
}


def translation_origin(
    translator: Translator,
    models: Sequence[pathlib.Path | str],
    texts: dict[str, pathlib.Path | str | None],
    options: dict[str, Any],
) -> dict[str, Any]:
    """Returns what decides over translations, by the names that users know.

    `models` are what the translator was loaded from, `texts` the path of each
    text by its name. The same models and texts are the same by another path.
    """
    model = translator.model
    parts = model.models if isinstance(model, Ensemble) else [model]
    return {
        "model": [
            _model_sha256(find_model(name), part.config)
            for name, part in zip(models, parts, strict=True)
        ],
        **{
            name: None if path is None else file_sha256(path)
            for name, path in texts.items()
        },
        **{word: getattr(translator, name) for name, word in _SETTINGS.items()},
        **options,
    }


def _model_sha256(folder: pathlib.Path, config: Any) -> str:
    """Returns a checksum of all that a model is loaded from."""
    files = [folder / "model.safetensors", *folder.glob("*vocabulary.*")]
    described = [
        dataclasses.asdict(config),
        *sorted((path.name, file_sha256(path)) for path in files),
    ]
    text = json.dumps(described, sort_keys=True, default=str)
    return hashlib.sha256(text.encode()).hexdigest()


def file_sha256(path: pathlib.Path | str) -> str:
    """Returns the SHA-256 of a file's bytes, in hexadecimal."""
    try:
        with open(path, "rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise InputError(f"{path} cannot be read: {error}.") from error


class TranslationProgress:
    """Tells the lines done of all, how many a second, and the time left.

    Args:
        total: int. The number of lines.
        num_before: int. Those that an earlier process translated, which say
            nothing of the speed of this one.
        clock: function that returns seconds.
    """

    def __init__(
        self,
        total: int,
        num_before: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self._num_before = num_before
        self._clock = clock
        self._begin = clock()

    def line(self, num_done: int) -> str:
        """Returns what there is to say after so many lines, of all."""
        text = f"{num_done:,} of {self.total:,} lines"
        num_new = num_done - self._num_before
        if num_new <= 0:
            return text
        speed = num_new / max(self._clock() - self._begin, 1e-3)
        left = _clock_time((self.total - num_done) / speed)
        digits = 1 if speed < 10 else 0
        return f"{text}, {speed:,.{digits}f} a second, {left} left"


def _clock_time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
