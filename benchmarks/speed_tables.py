"""Tables of what benchmarks measured."""

import re
import statistics
from collections.abc import Sequence

from benchmarks.attention.attention_speed import ALL_SCORES
from benchmarks.attention.attention_speed import KERAS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.attention.attention_speed import RELATIVE
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from benchmarks.harness.results import spread

NOT_MEASURED = "-"


def attention_table(float32: Result, bfloat16: Result) -> str:
    """Returns what relations cost the layer, by length.

    A row has the ratios of time to the layer without relations and to Keras'
    layer. The last one has those of peak memory at the greatest length.
    """
    # Column, result, pass, and what it is compared with.
    columns = (
        ("float32", float32, "backward", PLAIN),
        ("bfloat16", bfloat16, "backward", PLAIN),
        ("float32, forward only", float32, "forward", PLAIN),
        ("float32, vs. Keras", float32, "backward", KERAS),
        ("bfloat16, vs. Keras", bfloat16, "backward", KERAS),
        ("float32, forward only, vs. Keras", float32, "forward", KERAS),
    )

    def ratio(result: Result, tokens: int, figure: str, base: str) -> str:
        rows = [row for row in result.rows if row["tokens"] == tokens]
        if not rows or figure not in rows[0]:
            return NOT_MEASURED
        return f"{median(rows[0][figure]['over'][base]):.2f}"

    # Every second length tells enough.
    lengths = [row["tokens"] for row in float32.rows][1::2]
    cells = [
        [
            f"{tokens:,}",
            *(ratio(result, tokens, *which) for _, result, *which in columns),
        ]
        for tokens in lengths
    ]
    memory = [
        ratio(result, lengths[-1], "memory", base)
        if figure == "backward"
        else NOT_MEASURED
        for _, result, figure, base in columns
    ]
    longest = f"memory, {lengths[-1]:,}"
    header = ["tokens", *(name for name, *_ in columns)]
    return markdown_table(header, [*cells, [longest, *memory]])


def long_table(result: Result, memory: Result) -> str:
    """Returns memory and time of long texts, by length.

    The second result has memory alone, of texts that take long.
    """

    def gigabytes(row: Row, kind: str) -> str:
        found = row["memory"]["median"]
        return f"{median(found[kind]) / 1e9:.2f}" if kind in found else "-"

    def ratio(row: Row, base: str) -> str:
        if "backward" not in row:
            return "-"
        return f"{median(row['backward']['over'][base]):.2f}"

    cells = [
        [
            f"{row['tokens']:,}",
            *(gigabytes(row, kind) for kind in (RELATIVE, ALL_SCORES, KERAS)),
            *(ratio(row, base) for base in (ALL_SCORES, PLAIN, KERAS)),
        ]
        for row in (*result.rows, *memory.rows)
    ]
    header = [
        "tokens",
        "memory, GB",
        "of all scores",
        "of Keras' layer",
        "time, over all scores",
        "over no relations",
        "over Keras' layer",
    ]
    return markdown_table(header, cells)


def gpu_layer_table(result: Result) -> str:
    """Returns time and memory of a layer on a GPU, beside Keras' own."""
    kinds = ("relative", "keras")
    rows = {
        (row["tokens"], row["kind"]): row
        for row in result.rows
        if row["part"] == "layer"
    }
    cells = []
    for tokens in dict.fromkeys(tokens for tokens, _ in rows):
        ours, keras = (rows[tokens, kind] for kind in kinds)
        seconds = [median(row["seconds"]) for row in (ours, keras)]
        cells.append(
            [
                f"{tokens:,}",
                *(f"{1000 * value:.2f}" for value in seconds),
                f"{seconds[0] / seconds[1]:.2f}",
                *(f"{row['bytes'] / 1e9:.2f}" for row in (ours, keras)),
            ]
        )
    header = ["tokens", "ms", "of Keras", "ratio", "memory, GB", "of Keras"]
    return markdown_table(header, cells)


def translation_table(result: Result) -> str:
    """Returns sentences a second and the ratio to the base, by engine."""
    rows = {
        (row["engine"], row["num_beams"], row["batch_size"]): row
        for row in result.rows
    }
    engines = list(dict.fromkeys(engine for engine, *_ in rows))
    cases = dict.fromkeys((beams, size) for _, beams, size in rows)

    def speed(row: Row) -> str:
        shown = f"{median(row['sentences_per_second']):,.1f}"
        if row["engine"] == row["base"]:
            return shown
        return f"{shown}, {median(row['ratio_to_base']):.2f}"

    memory = {row["engine"]: row["peak_memory_bytes"] for row in result.rows}
    cells = [
        [
            engine,
            *(speed(rows[engine, *case]) for case in cases),
            f"{memory[engine] / 1e9:.2f} GB",
        ]
        for engine in engines
    ]
    names = [f"beam {beams}, batch {size}" for beams, size in cases]
    return markdown_table(["", *names, "peak memory"], cells)


def output_length_table(result: Result) -> str:
    """Returns output tokens a second, by length and number of beams."""
    speeds = {
        (row["num_beams"], row["output_tokens"]): row["tokens_per_second"]
        for row in result.rows
    }
    lengths = list(dict.fromkeys(length for _, length in speeds))
    cells = [
        [
            f"beam {beams}",
            *(f"{median(speeds[beams, length]):,.0f}" for length in lengths),
        ]
        for beams in dict.fromkeys(beams for beams, _ in speeds)
    ]
    header = ["output tokens", *(f"{length:,}" for length in lengths)]
    return markdown_table(header, cells)


def training_table(result: Result) -> str:
    """Returns the speed of training, its ratio to the peer, and memory."""
    cells = [
        [
            row["engine"],
            f"{median(row['steps_per_second']):.2f}",
            f"{median(row['tokens_per_second']):,.0f}",
            spread(row["ratio_to_peer"]) if row["ratio_to_peer"] else "not run",
            f"{row['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for row in result.rows
    ]
    header = [
        "model",
        "steps/s",
        "source + target tokens/s",
        "ratio to OpenNMT-tf",
        "peak memory",
    ]
    return markdown_table(header, cells)


def growth_table(result: Result) -> str:
    """Returns speed, start and memory of training by width, length, corpus."""
    cells = [
        [
            f"{row['size']:,} {row['grows']}",
            f"{median(row['tokens_per_second']):,.0f}",
            f"{row['start_seconds']:.1f} s",
            f"{row['peak_memory_bytes'] / 1e9:.2f} GB",
        ]
        for row in result.rows
    ]
    header = ["", "source + target tokens/s", "start", "peak memory"]
    return markdown_table(header, cells)


def load_table(result: Result) -> str:
    """Returns sentences a second and waiting times of the server."""
    cells = [
        [
            f"{row['size']:,}",
            f"{median(row['sentences_per_second']):,.0f}",
            *(f"{median(row[key]):,.0f} ms" for key in ("p50_ms", "p99_ms")),
        ]
        for row in result.rows
        if row["who"] == "server"
    ]
    header = ["clients", "sentences/s", "median wait", "99 of 100 within"]
    return markdown_table(header, cells)


def small_corpora_table(*results: Result) -> str:
    """Returns BLEU by setting, a column for each number of pairs."""
    columns = [
        f"{result.options['pairs']:,} pairs, "
        f"{result.rows[0]['steps']:,} updates"
        for result in results
    ]
    cells = [
        [rows[0]["setting"], *(f"{row['bleu']:.2f}" for row in rows)]
        for rows in zip(*(result.rows for result in results), strict=True)
    ]
    return markdown_table(["", *columns], cells)


def quality_table(result: Result) -> str:
    """Returns test BLEU, by the program that trained the model."""
    cells = [
        [row["engine"], f"{row['steps']:,}", f"{row['bleu']:.2f}"]
        for row in result.rows
    ]
    return markdown_table(["", "updates", "test BLEU"], cells)


def keras_tutorial_table(*results: Result) -> str:
    """Returns scores and costs of the tutorial's model and ours."""
    names = {"tutorial": "the tutorial", "ours": "`small_relative`"}
    cells = [
        [
            f"{names[row['engine']]}, {row['minutes']:g} minutes",
            # Before both ran at the same time, each had both cores.
            row.get("cores", 2),
            *(
                f"{row[name]:.2f}"
                for name in (
                    "bleu",
                    "lowercased_bleu",
                    "chrf",
                    "lowercased_chrf",
                )
            ),
            f"{row['tokens_per_second']:,.0f}",
            f"{row['memory'] / 2**30:.1f} GiB",
            f"{row['parameters'] / 1e6:.1f} M",
            row["lines"],
        ]
        for result in results
        for row in result.rows
    ]
    header = [
        "",
        "cores",
        "BLEU",
        "lowercased",
        "chrF",
        "lowercased",
        "tokens a second",
    ]
    header += ["memory", "parameters", "lines of the user's program"]
    return markdown_table(header, cells)


def positions_table(result: Result) -> str:
    """Returns BLEU by lines joined and by words of a line, a row a model."""
    joined, words = (
        means_over_seeds(result.rows, axis, "bleu")
        for axis in ("lines", "least_words")
    )
    cells = []
    for name in joined:
        columns = [*joined[name].values(), *words[name].values()]
        cells.append([name, *(f"{bleu:.2f}" for bleu in columns)])
    (any_joined, *_), (any_words, *_) = joined.values(), words.values()
    header = ["", *("1 line" if n == 1 else f"{n} joined" for n in any_joined)]
    header += _ranges(list(any_words))
    return markdown_table(header, cells)


def joined_table(result: Result) -> str:
    """Returns BLEU of joined lines, and of the same lines one by one."""
    cells = []
    for score, how in (("bleu", "as one line"), ("bleu_apart", "line by line")):
        found = means_over_seeds(result.rows, "lines", score)
        for name, means in found.items():
            shown = (f"{mean:.2f}" for mean in means.values())
            cells.append([f"`{name}`, {how}", *shown])
    return markdown_table(["lines joined", *map(str, means)], cells)


def means_over_seeds(
    rows: Sequence[Row], axis: str, score: str
) -> dict[str, dict[int, float]]:
    """Returns means of a score, by model without its seed, and by place."""
    values: dict[str, dict[int, list[float]]] = {}
    for row in rows:
        if axis in row and score in row:
            name = re.sub(r"-\d+$", "", row["model"])
            places = values.setdefault(name, {})
            places.setdefault(row[axis], []).append(row[score])
    return {
        name: {place: statistics.fmean(of) for place, of in places.items()}
        for name, places in values.items()
    }


def _ranges(least: list[int]) -> list[str]:
    """Returns names such as `1 to 8 words` and `17 words or more`."""
    names = [
        f"{low} to {high - 1} words" for low, high in zip(least, least[1:])
    ]
    return [*names, f"{least[-1]} words or more"]


def encodings_table(result: Result) -> str:
    """Returns the time of each encoding over no positions, by length."""
    lengths = list(dict.fromkeys(row["tokens"] for row in result.rows))
    ratios = {
        (row["encoding"], row["tokens"]): median(row["backward"]["over"][PLAIN])
        for row in result.rows
    }
    cells = [
        [f"`{name}`", *(f"{ratios[name, tokens]:.2f}" for tokens in lengths)]
        for name in dict.fromkeys(name for name, _ in ratios)
    ]
    return markdown_table(["encoding", *map(str, lengths)], cells)


def long_encodings_table(result: Result) -> str:
    """Returns time and memory of each encoding for a long text."""
    cells = [
        [
            f"`{row['encoding']}`",
            f"{median(row['backward']['over'][PLAIN]):.2f}",
            f"{median(row['memory']['over'][PLAIN]):.2f}",
        ]
        for row in result.rows
    ]
    return markdown_table(["encoding", "time", "memory"], cells)
