"""How a model holds for what people type.

The program translates a text of the model's recipe as it is, changed in one way
each, and with things in it that must be copied; and odd inputs. From the root
of a checkout, with the package installed:

    python -m benchmarks.decoding.everyday MODEL --data FOLDER

`FOLDER` is that of `train --data`. `--part validation` measures on the
validation text, to choose a model; the default is the test text. The table has:

- BLEU: cased, of the whole text.
- Share of BLEU: lowercased BLEU of the first 400 lines, changed, over that of
  the same lines as they are. The references stay those of the text. What the
  change took or added does not count: final marks, quotation marks, tags around
  one word and marks of Markdown are taken off all translations and references.
- Four lines joined: cased BLEU of the whole text, four lines joined by a blank,
  over that of translations of single lines, joined.
  Where the source has no blanks, they are joined without one.
- The same: translations that stay the same when their line is changed, of 100
  lines that the change alters (few English lines have accents to decompose).
- Copied: sentences whose translation has a thing as it was typed, of 100 of a
  kind. Things come from `everyday.yaml`, half of them for each text; numbers
  are drawn. A thing replaces a name that stands once on both sides (Tom, Mary,
  John, Boston), or a number, in digits or words, with a noun after it: few
  lines have one, so they get several numbers, one at a time. Every second emoji
  stands at the end of a line. Every second decimal has a comma where that is
  the language's mark.
- Decimals with the mark of the source's language, and grouped numbers: expected
  as `babel` writes them in the language of the target.
- A glossary: numbers in words, or the terms that `everyday.yaml` has for the
  language, with their translations. Of the lines that have
  such a word, and whose reference has its translation: the share of BLEU, and
  translations that have it.
- Marks: lines of `everyday.yaml` around lines of the text, whose translation
  has the marks of the line, each as often, and no U+FFFD.
- Translated: words and greetings of `everyday.yaml` that stand alone, every
  second word with a mark. The translation of a word must be another word, that
  of a greeting one of those listed.
- Endless: odd inputs of `everyday.yaml` whose translation has three pieces
  three times running, where the input does not, or more than 2.5 times its
  pieces and ten more.

Japanese has no case, and its words have no blanks around them: rows on case are
left out, and so are Chinese words to copy, whose letters it has. A word is a
run of the letters of one of its scripts, in which names are other words
(everyday.yaml).

Each value is of `Translator.translate`. Beside it stands what is measured with
each rule of text off, and by `Translator.search`, which has none.
"""

import argparse
import itertools
import pathlib
import random
import re
import unicodedata
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

import yaml
from babel.numbers import format_decimal
from babel.numbers import get_decimal_symbol

import relative_attention as ra
from benchmarks.harness.command import benchmark
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from relative_attention.quiet_tensorflow import load_tensorflow_quietly
from relative_attention.runs.texts import find_corpus
from relative_attention.text.form import UNSPACED
from relative_attention.zoo import find_model

_LISTS = pathlib.Path(__file__).with_suffix(".yaml")
_CHANGED_LINES = 400
_SAME_LINES = 100
_COPIED_LINES = 100
_JOINED = 4
_MISSES = 10
_TAGS = ("b", "i", "em", "strong", "u", "code", "h1", "td")
_SCRIPTS = ("Cyrillic", "Greek", "Chinese")
_WITHOUT_CASE = ("ja", "zh")
_OF_CASE = ("capitals", "lowercase", "Title Case")
# Words, and those of Japanese: katakana, digits, Latin, kanji and hiragana.
_WORDS = re.compile(r"\w+")
_RUNS = re.compile(
    r"[\u30a1-\u30ff]+|\d+|[A-Za-z]+|[\u4e00-\u9fff]+|[\u3041-\u309f]+"
)
# What follows a name that may be replaced, and a number: no hour of the day. In
# Japanese, a counter follows.
_ENDS = re.compile(r"[,.!?]?(?:\s|$)|[、。！？\u3041-\u9fff]")
_NOUN = re.compile(
    r"\s(?!o'clock|Uhr|heures?|de la (?:mañana|noche|tarde)|en punto)[^\W\d]"
    "|(?![時分年月日百千万億])[\u3041-\u9fff]"
)
_MOST_PIECES = 2.5
_MORE_PIECES = 10
# Of a Spanish line whose final mark was cut off.
_OPENING_MARK = re.compile(r"^[¡¿](?=[^!?]*$)")
_FINAL_MARK = re.compile(r"\s*[.!?…。！？]+$")
# Also with the blanks that French has inside.
_QUOTATION_MARKS = re.compile(r'["„“”‹›]|«\s*|\s*»')
_MARKUP = re.compile(r"</?b>|^[#>*-] |\*\*|[()]")
_RULES = ("split_sentences", "usual_case", "placeholders")

Change = Callable[[str], str]
# Translates each distinct text once, maybe with a glossary.
Translate = Callable[..., list[str]]

_SAME: dict[str, Change] = {
    r"`\n` at the end": lambda line: f"{line}\n",
    r"`\r\n` at the end": lambda line: f"{line}\r\n",
    "two blanks for one": lambda line: line.replace(" ", "  "),
    "tab for a blank": lambda line: line.replace(" ", "\t", 1),
    "byte order mark before": lambda line: f"\ufeff{line}",
    "U+00A0 for blanks": lambda line: line.replace(" ", "\u00a0"),
    "accents decomposed": lambda line: unicodedata.normalize("NFD", line),
    "blanks around": lambda line: f"  {line} ",
}


def _without_mark(line: str) -> str:
    return _OPENING_MARK.sub("", _FINAL_MARK.sub("", line))


def _without_quotation_marks(line: str) -> str:
    return _QUOTATION_MARKS.sub("", line)


def _without_markup(line: str) -> str:
    return _MARKUP.sub("", line)


def _around_a_word(before: str, after: str) -> Change:
    def change(line: str) -> str:
        words = list(re.finditer(r"\S+", line))
        if UNSPACED.search(line):
            # Words of grammar are in hiragana.
            runs = _RUNS.finditer(line)
            words = [run for run in runs if run[0][0] > "\u30a0"] or words
        start, end = words[len(words) // 2].span()
        return f"{line[:start]}{before}{line[start:end]}{after}{line[end:]}"

    return change


# What is done to the source, and to all texts that are scored.
_CHANGES: dict[str, tuple[Change, Change]] = {
    "capitals": (str.upper, str),
    "lowercase": (str.lower, str),
    "no final mark": (_without_mark, _without_mark),
    "quoted": (lambda line: f'"{line}"', _without_quotation_marks),
    "Title Case": (str.title, str),
    "a word in tags": (_around_a_word("<b>", "</b>"), _without_markup),
    "a word in bold": (_around_a_word("**", "**"), _without_markup),
    "a word in brackets": (_around_a_word("(", ")"), _without_markup),
    "heading": (lambda line: f"# {line}", _without_markup),
    "item of a list": (lambda line: f"- {line}", _without_markup),
}


def measure(options: argparse.Namespace) -> list[Row]:
    """Translates the text in all its forms, and the odd inputs."""
    load_tensorflow_quietly()
    recipe = ra.find_recipe(find_model(options.model))
    text = find_corpus(recipe.data, options.data)
    prefix = f"{options.part}_"
    names = [getattr(text, f"{prefix}{side}") for side in ("source", "target")]
    if None in names:
        raise ra.InputError(
            f"The recipe of MODEL must name a {options.part} text. Received: "
            f"`data.{prefix}source` null."
        )
    pairs = list(ra.ParallelCorpus(*names))
    # As `test.en.gz`.
    languages = [name.removesuffix(".gz").rpartition(".")[2] for name in names]
    lists = _read_lists(options.part, languages[0])
    translator = ra.load_translator(options.model)
    known: dict[Any, str] = {}
    columns = [
        _rows(
            pairs,
            languages,
            lists,
            _translate_once(translator, known, name),
            translator.vocabulary.encode,
        )
        for name in ("", *_RULES, "search")
    ]
    show_progress()
    return [
        {
            **row,
            "without": {
                name: other["value"]
                for name, other in zip((*_RULES, "search"), others)
            },
        }
        for row, *others in zip(*columns)
    ]


def _rows(
    pairs: Sequence[tuple[str, str]],
    languages: Sequence[str],
    lists: Mapping[str, Any],
    translate: Translate,
    encode: Callable[[list[str]], Sequence[Sequence[int]]],
) -> list[Row]:
    sources = [source for source, _ in pairs]
    show_progress("BLEU")
    rows = _bleu(pairs, languages[0], translate)
    show_progress("other forms")
    rows += _unchanged(sources, translate)
    show_progress("things to copy")
    rows += _copied(pairs, languages, lists, translate)
    rows += _with_a_glossary(pairs, languages, lists, translate)
    rows += _marks(lists["marks"], sources, translate)
    show_progress("words alone")
    rows += _words_alone(lists["words"], translate)
    rows += _greetings(lists["greetings"], languages, translate)
    show_progress("odd inputs")
    rows += _endless(lists["odd_inputs"], translate, encode)
    return rows


def _read_lists(part: str, language: str) -> dict[str, Any]:
    """Returns the lists of `everyday.yaml`, of things every other one."""
    lists = yaml.safe_load(_LISTS.read_text("utf-8"))
    lists["surnames"] = " ".join(lists["surnames"].values())
    lists["words"] = lists["words"].get(language, "")
    lists["names"] = lists["names"].get(language, lists["names"]["en"])
    lists["glossary"] = lists["glossary"].get(language, {})
    return {
        name: value.split()[part == "test" :: 2]
        if isinstance(value, str)
        else value
        for name, value in lists.items()
    }


def _translate_once(
    translator: ra.Translator, known: dict[Any, str], without: str
) -> Translate:
    """Returns what translates with all rules but one, or by `search`.

    Args:
        known: dict of the translations of what rules make of a text, which are
            the same whatever rules made it.
        without: the rule, `"search"`, or `""` for none.
    """

    def translate(
        texts: Iterable[str], glossary: Mapping[str, str] | None = None
    ) -> list[str]:
        texts = list(texts)
        rules = {name: getattr(translator, name) for name in _RULES}
        off = _RULES if without == "search" else [without] if without else []
        for name in off:
            setattr(translator, name, False)
        # Without the rule there are no signs for terms.
        if translator.placeholders:
            translator.glossary = dict(glossary or {})
        prepared = {
            text: tuple(line)
            for text, line in zip(texts, translator.prepare(texts))
        }
        new = {
            line: text for text, line in prepared.items() if line not in known
        }
        known.update(zip(new, translator.translate(list(new.values()))))
        for name, value in rules.items():
            setattr(translator, name, value)
        translator.glossary = {}
        return [known[prepared[text]] for text in texts]

    return translate


def _row(what: str, kind: str, value: float, lines: int, **more: Any) -> Row:
    return {"what": what, "kind": kind, "value": value, "lines": lines, **more}


def _share(part: float, whole: float) -> float:
    return part / whole if whole else 0.0


# === BLEU ===


def _bleu(
    pairs: Sequence[tuple[str, str]], language: str, translate: Translate
) -> list[Row]:
    sources, references = (list(side) for side in zip(*pairs))
    plain = translate(sources)
    whole = ra.corpus_bleu(plain, references)
    count, signature = len(pairs), whole.signature
    rows = [_row("BLEU", "cased", whole.score, count, signature=signature)]
    first = slice(_CHANGED_LINES)

    def lowercased(texts: Iterable[str], scored: Change) -> float:
        own, expected = (
            list(map(scored, lines)) for lines in (texts, references[first])
        )
        return ra.corpus_bleu(own, expected, lowercase=True).score

    for name, (change, scored) in _CHANGES.items():
        if name in _OF_CASE and language in _WITHOUT_CASE:
            continue
        changed = translate(map(change, sources[first]))
        share = _share(
            lowercased(changed, scored), lowercased(plain[first], scored)
        )
        rows.append(_row("share of BLEU", name, share, len(changed)))
    blank = "" if any(map(UNSPACED.search, sources)) else " "
    joined = ra.corpus_bleu(translate(_join(sources, blank)), _join(references))
    apart = ra.corpus_bleu(_join(plain), _join(references))
    share = _share(joined.score, apart.score)
    return [*rows, _row("share of BLEU", "four lines joined", share, count)]


def _join(lines: Sequence[str], blank: str = " ") -> list[str]:
    return [
        blank.join(lines[start : start + _JOINED])
        for start in range(0, len(lines), _JOINED)
    ]


# === Other forms of a line ===


def _unchanged(sources: Sequence[str], translate: Translate) -> list[Row]:
    rows: list[Row] = []
    for name, change in _SAME.items():
        able = (line for line in sources if change(line) != line)
        lines = list(itertools.islice(able, _SAME_LINES))
        pairs = zip(translate(lines), translate(map(change, lines)))
        same = sum(before == after for before, after in pairs)
        share = _share(same, len(lines))
        rows.append(_row("the same", name, share, len(lines)))
    return rows


# === Things to copy ===


def _copied(
    pairs: Sequence[tuple[str, str]],
    languages: Sequence[str],
    lists: Mapping[str, Any],
    translate: Translate,
) -> list[Row]:
    names = list(_carriers(pairs, lists["names"], _ENDS))
    twins = {
        digits: unicodedata.normalize("NFKC", digits)
        for source, _ in pairs
        for digits in re.findall(r"\d+", source)
    }
    words = (lists["number_words"].get(each, "").split() for each in languages)
    numbers = list(_carriers(pairs, twins | dict(zip(*words)), _NOUN))
    line_ends = [(f"{source} ", "") for source, _ in pairs]
    carriers = {
        "integer": numbers,
        "decimal": numbers,
        "grouped number": numbers,
        "emoji": [*itertools.chain(*zip(names, line_ends))],
    }
    rows: list[Row] = []
    grouped = {
        format_decimal(number, locale=languages[0]): format_decimal(
            number, locale=languages[1]
        )
        for number in range(1_234, 9_876_543, 98_765)
    }
    own, other = map(get_decimal_symbol, languages)

    def wanted(thing: str) -> str:
        if re.fullmatch(rf"\d+{re.escape(own)}\d+", thing):
            return thing.replace(own, other)
        return grouped.get(thing, thing)

    kinds = _things(lists, languages[0])
    kinds["grouped number"] = itertools.cycle(grouped)
    for kind, things in kinds.items():
        if not carriers.get(kind, names):
            raise ra.InputError(f"The text has no line to put a {kind} in.")
        places = itertools.cycle(carriers.get(kind, names))
        chosen = list(itertools.islice(zip(places, things), _COPIED_LINES))
        typed = [before + thing + after for (before, after), thing in chosen]
        found = translate(typed)
        missed = [
            [line, translation]
            for line, translation, (_, thing) in zip(typed, found, chosen)
            if wanted(thing) not in translation
        ]
        share = 1 - len(missed) / len(typed)
        shown = missed[:_MISSES]
        rows.append(_row("copied", kind, share, len(typed), missed=shown))
    return rows


def _carriers(
    pairs: Iterable[tuple[str, str]],
    twins: Mapping[str, str],
    after: re.Pattern[str],
) -> Iterator[tuple[str, str]]:
    """Yields what stands before and after a word that is to be replaced.

    Args:
        pairs: source and target lines.
        twins: words of the source, and what they are in the target.
        after: pattern of what must follow.
    """
    for source, target in pairs:
        has_blanks = not UNSPACED.search(source)
        words = list((_WORDS if has_blanks else _RUNS).finditer(source))
        own, other = [word[0] for word in words], _WORDS.findall(target)
        for word in words:
            twin = twins.get(word[0])
            if own.count(word[0]) != 1 or other.count(twin) != 1:
                continue
            start, end = word.span()
            is_alone = not has_blanks or not source[:start][-1:].strip()
            if is_alone and after.match(source, end):
                yield source[:start], source[end:]
                break


def _things(
    lists: Mapping[str, Any], language: str
) -> dict[str, Iterator[str]]:
    """Returns things of each kind to copy, without an end."""
    # Names differ between the texts, so the numbers do, too.
    draw = random.Random(" ".join(lists["surnames"]))

    def number(most_digits: int) -> str:
        return str(draw.randrange(10, 10 ** draw.randint(2, most_digits)))

    def decimals() -> Iterator[str]:
        own = get_decimal_symbol(language)
        for mark in itertools.cycle("." if own == "." else f".{own}"):
            yield f"{number(3)}{mark}{number(2)}"

    def markup() -> Iterator[str]:
        for tag, name in zip(itertools.cycle(_TAGS), every("surnames")):
            yield f"<{tag}>{name}</{tag}>"

    def every(name: str) -> Iterator[str]:
        return itertools.cycle(lists[name])

    return {
        "integer": (number(5) for _ in itertools.count()),
        "decimal": decimals(),
        "name": every("surnames"),
        "two names": map(
            " ".join, zip(every("given_names"), every("surnames"))
        ),
        "code": every("codes"),
        "e-mail": every("emails"),
        "link": every("links"),
        "markup": markup(),
        "field": every("fields"),
        "date or time": every("dates"),
        "emoji": every("emoji"),
        **{
            script: every(script)
            for script in _SCRIPTS
            if script != "Chinese" or language not in _WITHOUT_CASE
        },
    }


def _with_a_glossary(
    pairs: Sequence[tuple[str, str]],
    languages: Sequence[str],
    lists: Mapping[str, Any],
    translate: Translate,
) -> list[Row]:
    words = (lists["number_words"].get(each, "").split() for each in languages)
    glossary = lists["glossary"] or dict(zip(*words))
    lines: list[tuple[str, str]] = []
    wanted: list[set[str]] = []
    for pair in pairs:
        own, other = (set(re.findall(r"[\w'’-]+", line)) for line in pair)
        if UNSPACED.search(pair[0]):
            own = {term for term in glossary if term in pair[0]}
        found = {glossary[word] for word in own & glossary.keys()}
        if found and found <= other:
            lines.append(pair)
            wanted.append(found)
    if not lines:
        return []
    sources, references = (list(side) for side in zip(*lines))
    plain, translated = translate(sources), translate(sources, glossary)
    share = _share(
        *(
            ra.corpus_bleu(texts, references, lowercase=True).score
            for texts in (translated, plain)
        )
    )
    missed = [
        [source, text]
        for source, text, terms in zip(sources, translated, wanted)
        if not all(term in text for term in terms)
    ]
    rows = [_row("share of BLEU", "terms of a glossary", share, len(lines))]
    share, shown = 1 - len(missed) / len(lines), missed[:_MISSES]
    kind = "term of a glossary"
    rows.append(_row("copied", kind, share, len(lines), missed=shown))
    return rows


def _marks(
    templates: Sequence[str], sources: Sequence[str], translate: Translate
) -> list[Row]:
    bare = itertools.cycle(re.sub(r"[^\w ]", "", line) for line in sources)
    typed = [
        template.format(*itertools.islice(bare, 3)) for template in templates
    ]

    def marks(text: str) -> list[str]:
        return sorted(re.findall(r"[^\w\s'’.,-]|_", text))

    missed = [
        [line, translation]
        for line, translation in zip(typed, translate(typed))
        if marks(line) != marks(translation)
    ]
    share = 1 - len(missed) / len(typed)
    return [_row("marks", "marks", share, len(typed), missed=missed)]


# === Words alone ===


def _words_alone(words: Sequence[str], translate: Translate) -> list[Row]:
    typed = list(map("".join, zip(words, itertools.cycle(("", "!")))))

    def bare(text: str) -> str:
        return text.strip("!?. ").casefold()

    missed = [
        [line, text]
        for line, text in zip(typed, translate(typed))
        if bare(text) in ("", bare(line))
    ]
    share = _share(len(typed) - len(missed), len(typed))
    shown = missed[:_MISSES]
    row = _row("translated", "words alone", share, len(typed), missed=shown)
    return [row]


def _greetings(
    known: Mapping[str, Mapping[str, str]],
    languages: Sequence[str],
    translate: Translate,
) -> list[Row]:
    own, others = (known.get(language, {}) for language in languages)
    typed = list(own)
    wrong = [
        [line, text]
        for line, text, right in zip(typed, translate(typed), others.values())
        if text not in right.split(" / ")
    ]
    share = _share(len(typed) - len(wrong), len(typed))
    return [_row("translated", "greetings", share, len(typed), missed=wrong)]


# === Odd inputs ===


def _endless(
    typed: Sequence[str],
    translate: Translate,
    encode: Callable[[list[str]], Sequence[Sequence[int]]],
) -> list[Row]:
    texts = translate(typed)
    found = [
        [line, text]
        for line, text, own, pieces in zip(
            typed, texts, encode(list(typed)), encode(texts)
        )
        if len(pieces) > _MOST_PIECES * len(own) + _MORE_PIECES
        or (_repeats(pieces) and not _repeats(own))
    ]
    count = len(found)
    return [_row("endless", "odd inputs", count, len(typed), outputs=found)]


def _repeats(ids: Sequence[int]) -> bool:
    """Returns whether three ids stand three times running."""
    ids = list(ids)
    return any(
        ids[start : start + 3] * 3 == ids[start : start + 9]
        for start in range(len(ids) - 8)
    )


def describe(result: Result) -> str:
    """Returns the table, and how BLEU was computed."""
    return f"{everyday_table(result)}\n\n{result.rows[0]['signature']}"


def everyday_table(result: Result) -> str:
    """Returns what was measured, a row each."""

    def shown(row: Row, value: float) -> str:
        if row["what"] == "endless":
            return str(value)
        return f"{value:.2f}" if row["lines"] else "-"

    cells = [
        [
            row["what"],
            row["kind"],
            f"{row['lines']:,}",
            shown(row, row["value"]),
        ]
        + [shown(row, value) for value in row["without"].values()]
        for row in result.rows
    ]
    rules = [f"without {name}" for name in _RULES]
    header = ["", "", "lines", result.options["part"], *rules, "search"]
    return markdown_table(header, cells)


def _add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("model", help="a model directory, or a bundled name")
    parser.add_argument(
        "--data",
        metavar="DIR",
        help="the folder of the corpora, as for `train`",
    )
    parser.add_argument(
        "--part",
        choices=("validation", "test"),
        default="test",
        help="the text (default: %(default)s)",
    )


main = benchmark(
    "decoding.everyday",
    __doc__,
    "tatoeba_en_de --data data",
    _add_arguments,
    measure,
    describe,
)

if __name__ == "__main__":
    main()
