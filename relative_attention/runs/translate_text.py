"""Translates a text of any length, and goes on where it was interrupted."""

import pathlib
import time

from relative_attention.atomic_files import atomic_file
from relative_attention.data.lines import count_lines
from relative_attention.data.lines import read_lines
from relative_attention.data.parallel_corpus import batched
from relative_attention.decoding import Translator
from relative_attention.runs.report import Report

# So many lines are lost at most, and are in memory.
PART_LINES = 1000


def translate_text(
    translator: Translator,
    source: pathlib.Path | str,
    directory: pathlib.Path,
    report: Report,
) -> list[pathlib.Path]:
    """Translates a text into files of a thousand lines each.

    A file has its name only when it is complete. Those that are there are not
    made again: a process that was killed loses the part it was at.

    Args:
        translator: A `Translator`.
        source: The path of the text.
        directory: The path of the folder of the parts; what is there must be
            of the same translator and text.
        report: A function that is called with a line for the log after each
            part.

    Returns:
        A list of the paths of all parts, in order.

    Raises:
        InputError: if the text is unusable, or the model's logits are not
            finite.
    """
    total = count_lines(source)
    begin = time.monotonic()
    parts: list[pathlib.Path] = []
    num_done = num_before = 0
    for lines in batched(read_lines(source), PART_LINES):
        part = directory / f"part-{len(parts):06d}.txt"
        parts.append(part)
        num_done += len(lines)
        if part.is_file():
            num_before = num_done
            continue
        translations = translator.translate(lines)
        with atomic_file(part, "w") as file:
            file.writelines(f"{line}\n" for line in translations)
        seconds = max(time.monotonic() - begin, 1e-3)
        speed = (num_done - num_before) / seconds
        report(
            f"translated {num_done:,} of {total:,} lines; {speed:,.0f} a "
            f"second, {(total - num_done) / speed / 60:,.0f} minutes left"
        )
    return parts
