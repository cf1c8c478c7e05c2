"""The tables of docs/science/speed.md, each from a stored result."""

from collections.abc import Callable

from benchmarks.attention.attention_speed import KERAS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.spread import median
from benchmarks.harness.spread import spread
from benchmarks.harness.tables import markdown_table

# The clipping distance of the paper's base model.
BASE_DISTANCE = 16
NOT_MEASURED = "-"
TRANSPOSE = "transpose"


def rows_by_layer(result: Result) -> dict[tuple[int, str], Row]:
    """Returns the rows of `attention_speed` by tokens and engine.

    Of several clipping distances, those of the paper's.
    """
    return {
        (row["tokens"], row["engine"]): row
        for row in result.rows
        if row["max_relative_position"] == BASE_DISTANCE
    }


def attention_table(result: Result) -> str:
    """Returns time over Keras' layer and peak memory, by length."""
    rows = rows_by_layer(result)
    names = {
        PLAIN: "our layer without positions",
        TRANSPOSE: '`"transpose"` (tensor2tensor)',
        "blocks": '`"blocks"`',
    }
    memory_names = {
        KERAS: "MB: Keras' layer",
        PLAIN: "without",
        TRANSPOSE: '`"transpose"`',
        "blocks": '`"blocks"`',
    }

    def ratio(row: Row | None) -> str:
        return spread(row["backward_over"][KERAS]) if row else NOT_MEASURED

    def megabytes(row: Row | None) -> str:
        if row is None:
            return NOT_MEASURED
        return f"{row['peak_memory_bytes'] / 1e6:,.0f}"

    cells = [
        [
            f"{tokens:,}",
            *(ratio(rows.get((tokens, engine))) for engine in names),
            *(megabytes(rows.get((tokens, engine))) for engine in memory_names),
        ]
        for tokens in dict.fromkeys(tokens for tokens, _ in rows)
    ]
    header = ["tokens", *names.values(), *memory_names.values()]
    return markdown_table(header, cells)


def layer_docstring_table(*results: Result) -> str:
    """Returns time and memory over Keras' layer, result beside result.

    It is the table in the docstring of `RelativeSelfAttention`.
    """
    columns = []
    for result in results:
        rows = rows_by_layer(result)
        columns += [(rows, kind) for kind in (PLAIN, TRANSPOSE, "blocks")]

    def ratios_of(row: Row | None, kind: str) -> str:
        if row is None:
            return NOT_MEASURED
        time = f"{median(row['backward_over'][KERAS]):.2f}"
        if kind == PLAIN:
            return time
        return f"{time}, {row['memory_over'][KERAS]:.2f}"

    lengths = dict.fromkeys(tokens for rows, _ in columns for tokens, _ in rows)
    cells = [
        [
            f"{tokens:,}",
            *(
                ratios_of(rows.get((tokens, kind)), kind)
                for rows, kind in columns
            ),
        ]
        for tokens in lengths
    ]
    header = ["T", *len(results) * ["none", "transpose", "blocks"]]
    lines = [header, ["---"] * len(header), *cells]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


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

    cells = [
        [
            f"beam {beams}, batch {size}",
            *(speed(rows[engine, beams, size]) for engine in engines),
        ]
        for beams, size in cases
    ]
    memory = {row["engine"]: row["peak_memory_bytes"] for row in result.rows}
    sizes = [f"{memory[engine] / 1e9:.2f} GB" for engine in engines]
    return markdown_table(["", *engines], [*cells, ["peak memory", *sizes]])


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
            spread(row["ratio_to_peer"]),
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


def training_profile_table(result: Result) -> str:
    """Returns the dearest operations of a training step."""
    total = sum(row["milliseconds_a_step"] for row in result.rows)
    cells = [
        [
            f"`{row['operation']}`",
            f"{row['calls_a_step']:.0f}",
            f"{row['milliseconds_a_step'] / total:.1%}",
        ]
        for row in result.rows[: result.options["rows"]]
    ]
    header = ["operation", "calls a step", "share of the time"]
    return markdown_table(header, cells)


def memory_profile_table(result: Result) -> str:
    """Returns how the memory of training grows, by model."""
    cells = []
    for row in result.rows:
        libraries = row["libraries_bytes"]
        cells.append(
            [
                row["engine"],
                f"{libraries / 1e9:.2f} GB",
                *(
                    f"{peak / 1e9:.2f} GB ({(peak - libraries) / 1e9:.2f})"
                    for peak in row["peak_memory_bytes"]
                ),
            ]
        )
    steps = [f"{steps} steps" for steps in result.rows[0]["steps"]]
    return markdown_table(["model", "libraries", *steps], cells)


# By the name of the result, which is that of the mark in the page.
TABLES: dict[str, Callable[[Result], str]] = {
    "attention_speed": attention_table,
    "attention_speed_avx2": attention_table,
    "translation_speed": translation_table,
    "translation_speed_avx2": translation_table,
    "output_length": output_length_table,
    "training_speed": training_table,
    "training_profile": training_profile_table,
    "memory_profile": memory_profile_table,
}
