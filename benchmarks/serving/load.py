"""How many sentences a second the server translates, beside a `Translator`.

The program starts a server, as `relative-attention serve` does, and a process
with a `Translator` of the same model. Both translate the same text in turns.
The `Translator` takes batches of `--batch` sentences in the order of the text,
and one by one. The server has `--clients` at a time, each of which sends one
sentence, waits for the answer and sends the next. One client, and the
`Translator` one by one, take only the first `--single` sentences. From the root
of a checkout:

    python -m benchmarks.serving.load MODEL --source test.en

All of it runs on this machine. The clients, too, take some of the time of its
processors. At the end the requests of `--memory` are sent, and the memory that
the server gained between these two counts is reported.
"""

import argparse
import json
import pathlib
import random
import statistics
import sys
import tempfile
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from benchmarks.decoding.translation_engine import command as engine_of
from benchmarks.harness.command import absolute_model
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import positive_int
from benchmarks.harness.command import read_sentences
from benchmarks.harness.engine import Engine
from benchmarks.harness.engine import round_robin
from benchmarks.harness.engine import running_engines
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from benchmarks.harness.results import ratios
from benchmarks.harness.results import spread
from benchmarks.serving.server import MODEL
from benchmarks.serving.server import ServerProcess
from benchmarks.serving.server import ask_server
from benchmarks.serving.server import running_server

# The name, and the size of a batch or the number of clients.
Case = tuple[str, int]
Turn = dict[str, Any]

TRANSLATOR = "Translator"
SERVER = "server"
# The bars: the part of the translator's rate with many clients, milliseconds
# over its time with one, bytes gained over the requests.
LEAST_RATIO = 0.9
MOST_MILLISECONDS = 10.0
MOST_BYTES = 20_000_000
# Parts of image captions, for load without a text.
_WHO = ("A man", "Two women", "A young boy", "An old woman", "Three dogs")
_LOOK = ("in a red shirt", "with a black hat", "wearing blue jeans", "")
_DOES = (
    "rides a bike",
    "are playing the guitar",
    "is running",
    "sits on a bench and reads a newspaper",
    "jumps over a small fence",
)
_WHERE = ("on the street", "in a park", "near the water", "at night", "")
_MORE = (
    "while a crowd of people is watching from the other side of the road",
    "as two children look on",
    "and smiles",
    "",
    "",
)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add = parser.add_argument
    add("model", help="a model directory, or a name of the zoo")
    add("--source", metavar="FILE", help="default: captions that are made up")
    add("--sentences", type=positive_int, default=1000)
    add("--single", type=positive_int, default=100)
    add("--clients", type=positive_int, nargs="+", default=[1, 8, 64])
    add("--batch", type=positive_int, default=64)
    add("--rounds", type=positive_int, default=3)
    add(
        "--memory",
        type=int,
        nargs=2,
        metavar=("FROM", "TO"),
        default=[2000, 20_000],
        help="requests between which memory is compared; `0 0` leaves it out",
    )
    add(
        "--check",
        action="store_true",
        help="end with an error where the server is too slow, or grows: below "
        f"{LEAST_RATIO} of the translator with most clients, more than "
        f"{MOST_MILLISECONDS:g} ms over it with one, or "
        f"{MOST_BYTES / 1e6:g} MB",
    )


def measure(options: argparse.Namespace) -> list[Row]:
    """Returns a row for each case, and one for the memory."""
    if options.source is None:
        lines = made_up_captions(options.sentences)
    else:
        lines = read_sentences(options.source, options.sentences)
    model = absolute_model(options.model)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        path = folder / "sentences.json"
        path.write_text(json.dumps(lines))
        command = engine_of("default", path, folder=model)
        quiet = {"TF_CPP_MIN_LOG_LEVEL": "2"}
        with (
            running_server(model, folder / "server.log") as server,
            running_engines({TRANSLATOR: command}, folder, quiet) as engines,
        ):
            rows = _rows(
                _take_turns(server, engines[TRANSLATOR], lines, options),
                options.batch,
            )
            engines[TRANSLATOR].finish()
            if options.memory[1]:
                rows.append(_memory(server, lines, options))
    return rows


def made_up_captions(number: int, seed: int = 1) -> list[str]:
    """Returns captions of 4 to 30 words, always the same."""
    generator = random.Random(seed)
    return [
        " ".join(
            part
            for parts in (_WHO, _LOOK, _DOES, _WHERE, _MORE)
            if (part := generator.choice(parts))
        )
        + "."
        for _ in range(number)
    ]


def _take_turns(
    server: ServerProcess,
    translator: Engine,
    lines: Sequence[str],
    options: argparse.Namespace,
) -> dict[Case, list[Turn]]:
    """Returns the turns of each case."""
    cases = [(TRANSLATOR, size) for size in (1, options.batch)]
    cases += [(SERVER, number) for number in options.clients]

    def turn(case: Case) -> Turn:
        name, size = case
        count = min(options.single, len(lines)) if size == 1 else len(lines)
        if name == SERVER:
            load = ask_server(server.port, MODEL, lines[:count], size)
            seconds, latencies = load.seconds, load.latencies
            translations = load.translations
        else:
            order = {"num_sentences": count, "batch_size": size}
            found = translator.take_turn(json.dumps(order))
            seconds, latencies = sum(found["seconds"]), found["seconds"]
            translations = found["translations"]
        return {
            "speed": count / seconds,
            "latencies": latencies,
            "translations": translations,
        }

    return round_robin(cases, turn, options.rounds)


def _rows(turns: Mapping[Case, Sequence[Turn]], batch: int) -> list[Row]:
    """Returns a row for each case."""
    rows = []
    for (name, size), found in turns.items():
        base = turns[TRANSLATOR, 1 if size == 1 else batch]
        speeds = [turn["speed"] for turn in found]
        row: Row = {
            "who": name,
            "size": size,
            "sentences": len(found[0]["translations"]),
            "sentences_per_second": speeds,
            "ratio_to_translator": ratios(
                speeds, [turn["speed"] for turn in base]
            ),
            "p50_ms": [_percentile(turn["latencies"], 50) for turn in found],
            "p99_ms": [_percentile(turn["latencies"], 99) for turn in found],
            "same_as_translator": _count_same(found[0], base[0]),
        }
        if (name, size) == (SERVER, 1):
            row["ms_over_translator"] = [
                _milliseconds_over(ours, theirs)
                for ours, theirs in zip(found, base, strict=True)
            ]
        rows.append(row)
    return rows


def _percentile(seconds: Sequence[float], percent: int) -> float:
    """Returns a percentile, in milliseconds."""
    ordered = sorted(seconds)
    place = -(-len(ordered) * percent // 100) - 1
    return 1000 * ordered[max(place, 0)]


def _milliseconds_over(ours: Turn, theirs: Turn) -> float:
    """Returns the median, over sentences, of what one took longer."""
    return 1000 * statistics.median(
        mine - other
        for mine, other in zip(ours["latencies"], theirs["latencies"])
    )


def _count_same(turn: Turn, other: Turn) -> int:
    """Returns how many translations of two turns are the same."""
    return sum(map(str.__eq__, turn["translations"], other["translations"]))


def _memory(
    server: ServerProcess, lines: Sequence[str], options: argparse.Namespace
) -> Row:
    """Returns the memory of the server after each number of requests."""
    clients = max(options.clients)
    memory, num_sent = [], 0
    for count in options.memory:
        while num_sent < count:
            show_progress(f"memory: {num_sent:,} requests")
            part = list(lines[: count - num_sent])
            ask_server(server.port, MODEL, part, clients)
            num_sent += len(part)
        memory.append(server.memory())
    show_progress()
    return {
        "who": "memory",
        "requests": list(options.memory),
        "bytes": memory,
    }


def describe(result: Result) -> str:
    """Returns the table of all rows."""
    header = [
        "",
        "sentences/s",
        "ratio to Translator",
        "p50 ms",
        "p99 ms",
        "same",
    ]
    cells = [
        [
            _name(row),
            spread(row["sentences_per_second"], digits=1),
            spread(row["ratio_to_translator"]),
            f"{median(row['p50_ms']):,.0f}",
            f"{median(row['p99_ms']):,.0f}",
            f"{row['same_as_translator']:,} of {row['sentences']:,}",
        ]
        for row in result.rows
        if row["who"] != "memory"
    ]
    lines = [markdown_table(header, cells), ""]
    for row in result.rows:
        if "ms_over_translator" in row:
            lines.append(
                "One client waits "
                f"{spread(row['ms_over_translator'], digits=1)} ms longer "
                "than the model takes."
            )
        if row["who"] == "memory":
            gained = (row["bytes"][1] - row["bytes"][0]) / 1e6
            first, last = row["requests"]
            lines.append(
                f"From request {first:,} to {last:,} the server gained "
                f"{gained:,.1f} MB."
            )
    lines.append(f"Median of {result.options['rounds']} rounds.")
    return "\n".join(lines)


def _name(row: Row) -> str:
    size = row["size"]
    if row["who"] == SERVER:
        return f"server, {size} client{'s' if size > 1 else ''}"
    return "Translator, one by one" if size == 1 else f"Translator, {size}"


def misses(rows: Sequence[Row]) -> list[str]:
    """Returns the bars that the server misses."""
    found = []
    served = [row for row in rows if row["who"] == SERVER]
    most = max(served, key=lambda row: row["size"])
    ratio = median(most["ratio_to_translator"])
    if ratio < LEAST_RATIO:
        found.append(f"{_name(most)}: {ratio:.2f} of the translator's rate")
    for row in rows:
        over = median(row.get("ms_over_translator", 0.0))
        if over > MOST_MILLISECONDS:
            found.append(f"one client: {over:.1f} ms over the translator")
        if row["who"] == "memory":
            gained = row["bytes"][1] - row["bytes"][0]
            if gained > MOST_BYTES:
                found.append(f"memory: {gained / 1e6:.1f} MB more")
    return found


_measure_load = benchmark(
    "serving.load",
    __doc__,
    "multi30k_en_de_tiny_relative --check",
    add_arguments,
    measure,
    describe,
)


def main(arguments: Sequence[str] | None = None) -> None:
    """Runs the benchmark that the module describes."""
    result = _measure_load(arguments)
    if result.options["check"] and (found := misses(result.rows)):
        sys.exit(f"error: {'; '.join(found)}")


if __name__ == "__main__":
    main()
