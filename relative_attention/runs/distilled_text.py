"""The text that a student learns from, in the folder of its run.

distilled/origin.json        the inputs of the translations
distilled/held_out/          the recipe's text in two parts, if it has no
                             validation text
distilled/held_out-2/        the same for the text of the second group of
                             teachers, if it has its own
distilled/translated-1       the translations, one file per group of teachers,
                             until they are joined with the recipe's pairs;
                             until complete, parts in `translated-1.parts`
distilled/train.source       the student's text: the recipe's pairs, then the
distilled/train.target       same lines translated
"""

import dataclasses
import itertools
import pathlib
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from relative_attention.data import ParallelCorpus
from relative_attention.data.lines import LineProgress
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.decoding import Translation
from relative_attention.decoding import Translator
from relative_attention.errors import InputError
from relative_attention.evaluation import sentence_scores
from relative_attention.files import file_in_parts
from relative_attention.files import file_sha256
from relative_attention.files import read_json_object
from relative_attention.files import write_json
from relative_attention.files import write_lines
from relative_attention.recipes.recipe import Recipe
from relative_attention.runs.report import Report
from relative_attention.runs.texts import hold_out
from relative_attention.saving.translate_text import lines_in_parts
from relative_attention.saving.translate_text import read_chunks
from relative_attention.zoo import find_model

_ORIGIN = "distilled/origin.json"
# The names of the texts in the student's recipe. The record of the run has
# their paths, even if the folder was moved.
SOURCE = "distilled/train.source"
TARGET = "distilled/train.target"
VALIDATION_SOURCE = "distilled/held_out/validation.source"
VALIDATION_TARGET = "distilled/held_out/validation.target"

# The inputs of the translations, with names for users.
_WORDS = {
    "teachers": "teachers, or texts that these read",
    "backward": "teachers of the other direction, or texts that these read",
    "separately": "`--separately`",
    "num_beams": "`--num-beams`",
    "length_penalty": "`length_penalty` of the first teacher",
    "closest_of": "`--closest-of`",
    "text_sha256": "training texts",
    "held_out": "`data.held_out`, `training.seed` or validation text",
}


@dataclasses.dataclass(frozen=True)
class Teacher:
    """A trained model and its text: `MODEL`, or `MODEL@TEXT`.

    Attributes:
        model: The folder of a trained model, or a bundled model.
        text: The name of a text, the recipe's lines in another language; `None`
            for the recipe's own text.
        backward: Whether it translates into the recipe's source.
    """

    model: str
    text: str | None
    backward: bool

    def origin(self, texts: Mapping[str, str]) -> dict[str, str]:
        """Returns its entry in `origin.json`; `texts` are paths by name."""
        # A checksum, as a teacher may be moved or trained again.
        weights = find_model(self.model) / "model.safetensors"
        origin = {"model": self.model, "weights_sha256": file_sha256(weights)}
        if self.text is not None:
            origin["text"] = self.text
            origin["text_sha256"] = file_sha256(texts[self.text])
        return origin


# === The inputs of the translations ===


def save_origin(origin: Mapping[str, Any], output: pathlib.Path) -> None:
    """Writes the inputs of the translations, a value for each of `_WORDS`."""
    write_json(output / _ORIGIN, origin)


def check_same_origin(origin: Mapping[str, Any], output: pathlib.Path) -> None:
    """Refuses a run with translations by other teachers or of other text."""
    way_out = (
        "Pass `--overwrite` to delete them and the run, or choose another "
        "`--output`."
    )
    read = _read_origin(output)
    if read is None:
        # A file that was being written during a kill has a dot before its name.
        if any((output / "distilled").glob("[!.]*")):
            raise InputError(
                f"{output / _ORIGIN} is missing or damaged, so the origin of "
                f"the translations beside it is not known. {way_out}"
            )
        return
    before = _comparable(read)
    for name, value in _comparable(origin).items():
        if before.get(name) != value:
            raise InputError(
                f"{output} holds translations with other {_WORDS[name]}, which "
                f"cannot be mixed with new ones. {way_out}"
            )


def distilled_from(recipe: Recipe, output: pathlib.Path) -> dict[str, Any]:
    """Returns the entry of `results.json` about teachers, `{}` if none."""
    origin = _read_origin(output)
    # A folder may hold old translations that this run does not read.
    if recipe.data.source != SOURCE or origin is None:
        return {}
    kept = [name for name in _WORDS if name not in ("text_sha256", "held_out")]
    return {"distilled_from": {name: origin.get(name) for name in kept}}


def _read_origin(output: pathlib.Path) -> dict[str, Any] | None:
    """Returns the saved inputs, or `None` if they are missing or damaged."""
    try:
        origin = read_json_object(output / _ORIGIN)
        _comparable(origin)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    return origin


def _comparable(origin: Mapping[str, Any]) -> dict[str, Any]:
    """Replaces teachers by checksums, as their names may change."""
    hashes: dict[str, Any] = {"teachers": [], "backward": []}
    for name, found in hashes.items():
        for teacher in origin[name]:
            checksum = teacher["weights_sha256"]
            if "text" in teacher:
                checksum += f"@{teacher['text_sha256']}"
            found.append(checksum)
    return {**origin, **hashes}


# === The text ===


def write_distilled_pairs(
    whole: ParallelCorpus,
    others: Mapping[str, str],
    teachers: Sequence[tuple[Translator, Teacher]],
    output: pathlib.Path,
    origin: Mapping[str, Any],
    tokenize: str,
    report: Report,
) -> None:
    """Writes the student's text, unless it exists.

    `whole` is the recipe's training text, `others` has the paths of the
    teachers' own texts. `tokenize` is sacreBLEU's tokenizer.
    """
    directory = output / "distilled"

    corpus, held_out = whole, None
    if origin["held_out"] is not None:
        num_lines, seed = origin["held_out"]
        held_out = hold_out(whole, num_lines, seed, directory / "held_out")
        corpus = held_out.train

    def without_held_out(source: str, name: str) -> str:
        # The same lines are held out of each text, whatever its language.
        if held_out is None:
            return source
        text = ParallelCorpus(source, whole.target)
        folder = directory / name
        return hold_out(
            text, num_lines, seed, folder, held_out.parts
        ).train.source

    # The target is written last.
    if not (output / TARGET).is_file():
        pairs = [corpus]
        for number, (translator, teacher) in enumerate(teachers, 1):
            source, path = corpus.source, directory / f"translated-{number}"
            references = None
            pair = ParallelCorpus(corpus.source, str(path))
            if teacher.backward:
                source = corpus.target
                pair = ParallelCorpus(str(path), corpus.target)
            elif origin["closest_of"] is not None:
                references = corpus.target
            if teacher.text is not None:
                source = without_held_out(
                    others[teacher.text], f"held_out-{number}"
                )
            _translate(
                translator, source, path, origin, references, tokenize, report
            )
            pairs.append(pair)
        # Source first: the target says that both are there.
        _join([pair.source for pair in pairs], output / SOURCE)
        _join([pair.target for pair in pairs], output / TARGET)
    # Deleted only now: after a kill, the joined text is made of these files.
    for number in range(len(teachers)):
        (directory / f"translated-{number + 1}").unlink(missing_ok=True)


def _translate(
    translator: Translator,
    source: str,
    path: pathlib.Path,
    origin: Mapping[str, Any],
    references: str | None,
    tokenize: str,
    report: Report,
) -> None:
    """Translates a text into a file, unless it exists.

    After a kill, it resumes at the chunk that was being translated. With
    `references`, the translation closest to the reference is chosen for each
    line, as in section 3.3 of Kim and Rush (2016).
    """
    if path.is_file():
        return
    num_lines = count_lines(source)
    every = range(num_lines)
    # Read even without references, so that both advance together.
    targets = read_chunks(references or source, every)
    with file_in_parts(path, _comparable(origin), report=report) as parts:
        num_done = lines_in_parts(len(parts), num_lines)
        progress = LineProgress(num_lines, num_done)
        for number, chunk in enumerate(read_chunks(source, every)):
            # Also for a part that is there: the next one needs its own lines.
            target = next(targets)
            # An earlier process may have made this part.
            if number in parts:
                continue
            if references is None:
                found = translator.search(chunk)
            else:
                found = closest_translations(
                    translator.search(chunk, num_results=origin["closest_of"]),
                    target,
                    tokenize,
                )
            # A source that was cut has no whole translation; pairs with an
            # empty line are left out and counted.
            lines = ["" if one.was_cut else one.text for one in found]
            parts.add(number, "".join(f"{line}\n" for line in lines).encode())
            num_done += len(chunk)
            report(f"translated {progress.line(num_done)}")


def closest_translations(
    candidates: Sequence[Sequence[Translation]],
    references: Sequence[str],
    tokenize: str,
) -> list[Translation]:
    """Returns the translation of each line with the highest sentence BLEU.

    If several are equal, the first.
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
        # Scores come in one list, as lines have unequal numbers of them.
        own = list(itertools.islice(scores, len(some)))
        chosen.append(some[own.index(max(own))])
    return chosen


def _join(texts: Sequence[str], path: pathlib.Path) -> None:
    """Writes the lines of several texts, one after the other."""
    write_lines(path, itertools.chain.from_iterable(map(read_lines, texts)))
