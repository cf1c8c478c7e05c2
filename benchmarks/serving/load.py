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
import concurrent.futures
import contextlib
import http.client
import json
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import NamedTuple

from benchmarks.decoding.translation_engine import command as engine_of
from benchmarks.harness.command import absolute_model
from benchmarks.harness.command import add_model
from benchmarks.harness.command import add_numbers
from benchmarks.harness.command import benchmark
from benchmarks.harness.command import read_sentences
from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import Engine
from benchmarks.harness.engine import EngineError
from benchmarks.harness.engine import anonymous_memory
from benchmarks.harness.engine import round_robin
from benchmarks.harness.engine import running_engines
from benchmarks.harness.engine import show_progress
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import median
from benchmarks.harness.results import ratios
from benchmarks.speed_tables import load_table

# The name, and the size of a batch or the number of clients.
Case = tuple[str, int]
Turn = dict[str, Any]

TRANSLATOR = "Translator"
SERVER = "server"
# The bars: the part of the translator's rate with many clients, milliseconds
# over its time with one, megabytes gained over the requests.
LEAST_RATIO = 0.9
MOST_MILLISECONDS = 10.0
MOST_MEGABYTES = 20.0
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


class Server(NamedTuple):
    """A server that listens: its process, and its port."""

    process_id: int
    port: int


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Adds the options of the command."""
    add_model(parser)
    add = parser.add_argument
    add("--source", metavar="FILE", help="default: captions that are made up")
    add_numbers(parser, sentences=1000, single=100, clients=[1, 8, 64])
    add_numbers(parser, batch=64, rounds=3)
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
        f"{MOST_MEGABYTES:g} MB",
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
        command = engine_of("package", path, folder=model)
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
    server: Server,
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
            found = ask_server(server, lines[:count], size)
        else:
            order = {"num_sentences": count, "batch_size": size}
            found = translator.take_turn(json.dumps(order))
            found["latencies"] = found["seconds"]
            found["seconds"] = sum(found["seconds"])
        return {**found, "speed": count / found["seconds"]}

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
    place = -(-len(seconds) * percent // 100) - 1
    return 1000 * sorted(seconds)[max(place, 0)]


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
    server: Server, lines: Sequence[str], options: argparse.Namespace
) -> Row:
    """Returns the memory of the server after each number of requests."""
    memory, num_sent = [], 0
    for count in options.memory:
        while num_sent < count:
            show_progress(f"memory: {num_sent:,} requests")
            part = lines[: count - num_sent]
            ask_server(server, part, max(options.clients))
            num_sent += len(part)
        memory.append(anonymous_memory(server.process_id))
    show_progress()
    return {"who": "memory", "requests": options.memory, "bytes": memory}


def describe(result: Result) -> str:
    """Returns the table of the page, and what the server takes on top."""
    lines = [f"{load_table(result)}\n"]
    for row in result.rows:
        if row["who"] == SERVER:
            ratio = median(row["ratio_to_translator"])
            lines.append(f"{_name(row)}: {ratio:.2f} of the translator's rate.")
        if "ms_over_translator" in row:
            over = median(row["ms_over_translator"])
            lines.append(f"{_name(row)}: {over:.1f} ms over the translator.")
        if row["who"] == "memory":
            first, last = row["requests"]
            lines.append(
                f"From request {first:,} to {last:,}: {_gained(row):.1f} MB."
            )
    return "\n".join(lines)


def _name(row: Row) -> str:
    return f"{row['size']} client{'s' * (row['size'] > 1)}"


def _gained(row: Row) -> float:
    """Returns the megabytes that the server gained."""
    return (row["bytes"][1] - row["bytes"][0]) / 1e6


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
            found.append(f"{_name(row)}: {over:.1f} ms over the translator")
        if row["who"] == "memory" and _gained(row) > MOST_MEGABYTES:
            found.append(f"memory: {_gained(row):.1f} MB more")
    return found


# === The server and its clients ===

_MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
# No answer takes so long; what waits longer is broken.
_LIMIT = 300


@contextlib.contextmanager
def running_server(model: str, log: pathlib.Path) -> Iterator[Server]:
    """Starts a server as its users do; it does not outlive the context.

    Args:
        model: A string, the folder of a model or the name of a bundled one.
        log: The path of a file that takes its error output.

    Raises:
        EngineError: If it does not start.
    """
    words = ["serve", f"model={model}", "--port", "0"]
    with (
        open(log, "w") as file,
        subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
        ) as process,
    ):
        try:
            # Before it there is a line for each model that is loaded.
            for line in process.stdout or ():
                if found := re.search(r":(\d+)/", line):
                    yield Server(process.pid, int(found[1]))
                    return
            raise EngineError(f"No server: {log.read_text()}")
        finally:
            process.terminate()


def ask_server(
    server: Server, sentences: Sequence[str], num_clients: int
) -> Turn:
    """Has clients ask for a translation of each sentence, one a request.

    Each client has its own connection, and sends the next sentence that no
    other has asked for when the answer is there.

    Returns:
        A dict of `seconds`, from the first request to the last answer, and,
        by sentence, `latencies` and `translations`.
    """
    latencies = [0.0] * len(sentences)
    translations = [""] * len(sentences)
    places = iter(range(len(sentences)))

    def client() -> None:
        connection = http.client.HTTPConnection(
            "127.0.0.1", server.port, timeout=_LIMIT
        )
        with contextlib.closing(connection):
            for place in places:
                body = json.dumps({"inputs": [sentences[place]]})
                start = time.perf_counter()
                connection.request("POST", "/v1/models/model:predict", body)
                answer = connection.getresponse()
                text = answer.read()
                latencies[place] = time.perf_counter() - start
                if answer.status != http.HTTPStatus.OK:
                    raise EngineError(f"The server answered: {text!r}")
                (found,) = json.loads(text)["outputs"]["translations"]
                translations[place] = found

    start = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(num_clients) as pool:
        clients = [pool.submit(client) for _ in range(num_clients)]
    for each in clients:
        each.result()
    return {
        "seconds": time.perf_counter() - start,
        "latencies": latencies,
        "translations": translations,
    }


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
