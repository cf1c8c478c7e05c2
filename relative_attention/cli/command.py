"""Adds commands to the command line, and options that several share."""

import argparse
import contextlib
import inspect
import re
import reprlib
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any
from typing import TypeAlias

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.errors import did_you_mean

DECODING_OPTIONS = (
    "num_beams",
    "length_penalty",
    "min_length",
    "max_length",
    "no_repeat_ngram",
)
# What computes a translation, and how.
ENGINE_OPTIONS = ("engine", "dtype", "threads")

MODEL = (
    "the folder that `train` filled, or the name of a bundled model "
    "(`relative-attention list`)"
)


class UsageError(Exception):
    """Raised for an invalid command line."""


class Command(argparse.ArgumentParser):
    """The parser of a command; an option is written as in its usage."""

    # See `positional`.
    _words: str | None = None
    _sort: Callable[[argparse.Namespace], None] | None = None

    def add_argument(self, *names: Any, **more: Any) -> argparse.Action:
        """Adds an argument; the help of an option ends with its default."""
        action = super().add_argument(*names, **more)
        text = action.help or ""
        # SUPPRESS stands for no default at all, and is no value to show.
        has_default = action.default and action.default != argparse.SUPPRESS
        if action.option_strings and has_default and "default: " not in text:
            action.help = f"{text} (default: %(default)s)".strip()
        return action

    def text(self, usage: str, help: str | None = None, **more: Any) -> None:
        """Adds an option such as `--input FILE`."""
        name, _, metavar = usage.partition(" ")
        self.add_argument(name, metavar=metavar or None, help=help, **more)

    def integer(
        self, usage: str, help: str, default: int | None = None
    ) -> None:
        """Adds an option such as `--nbest N`."""
        self.text(usage, help, type=int, default=default)

    def number(
        self, usage: str, help: str, default: float | None = None
    ) -> None:
        """Adds an option such as `--top-p P`."""
        self.text(usage, help, type=float, default=default)

    def flag(self, name: str, help: str) -> None:
        """Adds an option without a value."""
        self.add_argument(name, action="store_true", help=help)

    def switch(self, name: str, help: str) -> None:
        """Adds an option that is turned on, or off by `--no-NAME`."""
        self.add_argument(
            name, action=argparse.BooleanOptionalAction, default=None, help=help
        )

    def positional(
        self,
        name: str,
        metavar: str,
        help: str,
        nargs: str = "*",
        sort: Callable[[argparse.Namespace], None] | None = None,
    ) -> None:
        """Adds positional arguments that options may be mixed with.

        They become the option `name`. `sort(options)` may split them into
        several; it raises `UsageError` if it cannot.
        """
        self.add_argument(
            name, nargs=nargs, default=[], metavar=metavar, help=help
        )
        # Kept for `parse_known_args`, which sees the words between options.
        self._words, self._sort = name, sort

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Parses arguments, and exits if any is unknown."""
        options, rest = super().parse_known_args(args, namespace)
        # Report a misspelt option here: the code below would take its value
        # for a positional argument.
        has_options = any(word.startswith("-") for word in rest)
        if rest and (self._words is None or has_options):
            # The help has all options, also the ones in groups.
            known = re.findall(r"--[\w-]+", self.format_help())
            self.error(
                f"unrecognized arguments: {' '.join(rest)}."
                f"{did_you_mean(rest[0].partition('=')[0], known)} "
                f"`{self.prog} --help` lists all."
            )
        if self._words is not None:
            # argparse needs positional arguments in one piece. Here options
            # may be between the recipe and its overrides.
            getattr(options, self._words).extend(rest)
        try:
            if self._sort is not None:
                self._sort(options)
        except UsageError as error:
            self.error(str(error))
        # Nothing is left for the parser above, whose error has no hint.
        return options, []


class _Help(argparse.HelpFormatter):
    """Help no wider than the terminal, with examples that can be copied."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:
        title, *examples = text.split("\n  ")
        if not examples:
            return super()._fill_text(text, width, indent)
        lines = [title]
        for example in examples:
            lines.append(" ")
            # A shell joins the lines, but not inside of quotation marks.
            for word in re.findall(r"(?:'[^']*'|\S)+", example):
                if len(lines[-1]) + len(word) > width - 3:
                    lines[-1] += " \\"
                    lines.append("     ")
                lines[-1] += f" {word}"
        return "\n".join(lines)


# At run time the class of argparse has no type parameter.
if TYPE_CHECKING:
    Subparsers: TypeAlias = argparse._SubParsersAction[Command]
else:
    Subparsers: TypeAlias = Any


def add_command(
    subparsers: Subparsers,
    name: str,
    run: Callable[[argparse.Namespace], None],
    help: str,
    example: str,
    usage: str | None = None,
) -> Command:
    """Returns a parser for the command `name`, which calls `run(options)`."""
    parser = subparsers.add_parser(
        name,
        help=help,
        description=help[0].upper() + help[1:] + ".",
        epilog=f"example:\n  {example}",
        usage=usage,
        formatter_class=_Help,
    )
    # `main` then needs no table of its own.
    parser.set_defaults(run=run)
    return parser


# === Options of several commands ===


def add_module(parser: Command) -> None:
    """Adds the option of commands that load models."""
    parser.text(
        "--module M",
        "import the module M of the working directory first, for a model with "
        "a position encoding of your own; may be repeated",
        action="append",
    )


def add_models(parser: Command) -> None:
    """Adds `models`, for commands that accept an ensemble."""
    add_module(parser)
    add_checkpoint(parser)
    parser.positional(
        "models",
        "MODEL",
        f"{MODEL}; several with the same vocabulary are an ensemble, the "
        "mean of their probabilities",
        nargs="+",
    )


def add_checkpoint(parser: Command) -> None:
    """Adds the option of commands that load the models of runs."""
    parser.integer(
        "--checkpoint STEP",
        "of each MODEL, a run, the weights saved after so many updates in the "
        "place of the finished model; not with --engine",
    )


def add_data_folder(parser: Command) -> None:
    """Adds the options of commands that train by a recipe."""
    add_module(parser)
    parser.text(
        "--data DIR",
        "where the recipe's text files are (default: $RELATIVE_ATTENTION_DATA)",
        dest="data_directory",
    )


def add_decoding_options(parser: Command) -> None:
    """Adds the options that override the recipe's `decoding`."""
    parser.integer("--num-beams N", "default: the recipe's, or 4")
    parser.number("--length-penalty A", "default: the recipe's, or 0.6")
    parser.integer(
        "--min-length N", "the shortest translation, in tokens (default: 0)"
    )
    parser.integer(
        "--max-length N",
        "the longest translation, in tokens; none is longer than its source "
        "plus the recipe's `max_extra_length`",
    )
    parser.integer(
        "--no-repeat-ngram N",
        "no translation has the same N tokens in a row twice (default: the "
        "recipe's, 0 allows it)",
    )


def add_engine_options(parser: Command) -> None:
    """Adds what computes translations, in which precision."""
    parser.text(
        "--engine",
        "ctranslate2: translate with CTranslate2 instead of Keras, faster on "
        "a CPU; for one model, without sampling or attention",
        choices=("ctranslate2",),
    )
    parser.text(
        "--dtype",
        "dtype of weights and products (default: float32); bfloat16 is for "
        "processors that multiply it natively, int8 for --engine",
        choices=("float32", "bfloat16", "int8"),
    )
    parser.integer(
        "--threads N", "threads of --engine (default: the engine's choice)"
    )


# What stays as it is, or has a fixed translation.
TERMS = ("keep", "glossary")


def add_terms(parser: Command) -> None:
    """Adds what must not be translated."""
    parser.add_argument(
        "--keep",
        action="append",
        metavar="REGEX",
        help="leave what the expression finds as it is; may be given several "
        "times",
    )
    parser.text(
        "--glossary FILE",
        "terms that have a fixed translation, one a line: the term, a tab, and "
        "what stands for it",
    )


def read_terms(options: argparse.Namespace) -> None:
    """Replaces the file of a glossary by its terms."""
    if options.glossary is not None:
        options.glossary = _read_glossary(options.glossary)


def _read_glossary(path: str) -> dict[str, str]:
    """Reads terms and what stands for them, separated by a tab."""
    from relative_attention.data.lines import read_lines

    terms: dict[str, str] = {}
    for number, line in enumerate(read_lines(path), start=1):
        if not line.strip():
            continue
        columns = [column.strip() for column in line.split("\t")]
        if len(columns) != 2 or not columns[0]:
            raise InputError(
                f"{path}, line {number:,}: a line must be a term, a tab, and "
                f"what stands for it. Received: {reprlib.repr(line)}."
            )
        term, target = columns
        if terms.setdefault(term, target) != target:
            raise InputError(
                f"{path}, line {number:,}: {term!r} has two translations, "
                f"{terms[term]!r} and {target!r}. Leave one out."
            )
    return terms


# What a model is loaded with.
LOADING_OPTIONS = (
    *DECODING_OPTIONS,
    *ENGINE_OPTIONS,
    "batch_tokens",
    "checkpoint",
)


@contextlib.contextmanager
def input_errors() -> Iterator[None]:
    """Turns a wrong argument of a function into a wrong option, in one line."""
    try:
        yield
    except ValueError as error:
        raise InputError(str(error)) from error


def spelled(name: str) -> str:
    """Returns the spelling of an option."""
    return f"--{name.replace('_', '-')}"


def given(options: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """Returns the options with some names that a command has and got."""
    # What was not given is left out, so that the model's own setting counts.
    values = {name: getattr(options, name, None) for name in names}
    return {name: v for name, v in values.items() if v is not None}


@input_errors()
def load_models(
    options: argparse.Namespace,
    models: Sequence[str] | None = None,
    names: Sequence[str] = LOADING_OPTIONS,
) -> "ra.Translator":
    """Loads the models of a command line, with its options of these names."""
    models = models or options.models
    one_or_all = models[0] if len(models) == 1 else models
    return ra.load_translator(one_or_all, **given(options, names))


def call(
    function: Callable[..., Any], options: argparse.Namespace, **more: Any
) -> Any:
    """Calls a function with the options that its parameters name, and more."""
    names = inspect.signature(function).parameters
    values = {n: v for n, v in vars(options).items() if n in names}
    # `more` goes last: a command may compute what an option only names.
    return function(**{**values, **more})


def check_nbest(nbest: int | None, num_beams: int | None) -> None:
    """Raises `InputError` if there are not enough beams."""
    if nbest is None or 1 <= nbest <= (num_beams or nbest):
        return
    # Samples have no beams, so their number has no upper limit.
    most = "" if num_beams is None else f", and at most {num_beams}"
    raise InputError(
        f"--nbest must be at least 1{most}. Received: {nbest}. "
        "--num-beams asks for more beams."
    )
