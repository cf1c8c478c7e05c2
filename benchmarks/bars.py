"""The bars that the project set itself for speed, beside what was measured.

Every figure is of a stored result, `benchmarks/results`; which command printed
it stands there. `BARS` is the mark of the table in docs/science/speed.md.
"""

import statistics
from collections.abc import Callable
from collections.abc import Sequence

from benchmarks.attention.attention_speed import KERAS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.decoding.prepared_engines import OURS
from benchmarks.harness import opennmt_tf
from benchmarks.harness.results import Result
from benchmarks.harness.spread import median
from benchmarks.harness.spread import ratios
from benchmarks.harness.tables import markdown_table
from benchmarks.speed_tables import BASE_DISTANCE
from benchmarks.speed_tables import NOT_MEASURED
from benchmarks.speed_tables import TRANSPOSE
from benchmarks.speed_tables import rows_by_layer
from benchmarks.training.training_demands import find_demands
from benchmarks.training.training_speed import PEER

BARS = "bars"

Read = Callable[[str], Result]
# What is compared, the bar, whether figures must not be below it (else not
# above), and the figures.
Measured = tuple[str, float, bool, Sequence[float]]

_CTRANSLATE2 = "CTranslate2, float32"

# With AVX-512 TensorFlow computes with oneDNN, without it does not.
_KINDS = {
    "with AVX-512": {
        "attention": "attention_speed",
        "bfloat16 attention": "attention_speed_bfloat16",
        "training": "training_speed",
        "step": "step_benchmark",
        "decoding": "translation_speed",
        "start": "first_translation",
    },
    "without": {
        "attention": "attention_speed_avx2",
        "step": "step_benchmark_avx2",
        "decoding": "translation_speed_avx2",
    },
}


def bars_table(read: Read) -> str:
    """Returns all bars, a row each, with what was measured on each kind.

    Args:
        read: A function from the name of a result to it.
    """
    figures: dict[tuple[str, float, bool], dict[str, Sequence[float]]] = {}
    for kind, names in _KINDS.items():
        for topic, name in names.items():
            for what, limit, at_least, measured in _MEASURED[topic](read(name)):
                bar = (what, limit, at_least)
                figures.setdefault(bar, {})[kind] = measured
    cells = [
        [
            what,
            f"at {'least' if at_least else 'most'} {limit:.2f}",
            *(_cell(by_kind.get(kind, ()), limit, at_least) for kind in _KINDS),
        ]
        for (what, limit, at_least), by_kind in figures.items()
    ]
    return markdown_table(["", "bar", *_KINDS], cells)


def _cell(figures: Sequence[float], limit: float, at_least: bool) -> str:
    """Returns figures, those on the wrong side of the bar in bold."""

    def shown(figure: float) -> str:
        is_met = figure >= limit if at_least else figure <= limit
        # A third digit where two would hide that it is not.
        digits = 2 if is_met or round(figure, 2) != limit else 3
        text = f"{figure:.{digits}f}"
        return text if is_met else f"**{text}**"

    return ", ".join(map(shown, figures)) or NOT_MEASURED


def _attention(result: Result) -> list[Measured]:
    """Returns the bars of an attention layer in float32."""
    return [
        _layer(result, _chosen, KERAS, 1.0),
        _layer(result, _chosen, PLAIN, 1.05),
        _layer(result, _plain, KERAS, 0.95, lengths=(128, 4096)),
        _layer(result, _chosen, PLAIN, 1.1, "forward", (128, 512)),
    ]


def _bfloat16_attention(result: Result) -> list[Measured]:
    return [
        _layer(result, _chosen, KERAS, 1.05),
        _layer(result, _chosen, PLAIN, 1.08),
        _layer(result, _plain, KERAS, 1.0, lengths=(128, 4096)),
    ]


def _chosen(tokens: int) -> str:
    """Returns what `implementation="auto"` takes."""
    return "blocks" if tokens > 2 * BASE_DISTANCE else TRANSPOSE


def _plain(_: int) -> str:
    return PLAIN


def _layer(
    result: Result,
    engine: Callable[[int], str],
    base: str,
    limit: float,
    passes: str = "backward",
    lengths: tuple[int, int] = (32, 4096),
) -> Measured:
    """Returns the time of a layer over that of another, length by length.

    Args:
        result: Of `attention_speed`.
        engine: A function from a number of tokens to the layer it is about.
        base: A string, the layer it is compared with.
        limit: A float, the highest ratio that will do.
        passes: A string: `"forward"`, or `"backward"` for both passes.
        lengths: A pair of integers, the least and the most tokens.
    """
    rows = rows_by_layer(result)
    measured = [
        tokens
        for tokens in dict.fromkeys(tokens for tokens, _ in rows)
        if lengths[0] <= tokens <= lengths[1]
    ]
    names = {KERAS: "Keras' layer", PLAIN: "our layer without positions"}
    subject = names[PLAIN] if engine is _plain else "attention"
    shown = ", ".join(f"{tokens:,}" for tokens in measured)
    alone = ", forward alone" if passes == "forward" else ""
    return (
        f"{subject} over {names[base]}{alone}, {result.precision}, {shown} "
        "tokens",
        limit,
        False,
        [
            median(rows[tokens, engine(tokens)][f"{passes}_over"][base])
            for tokens in measured
        ],
    )


def _training(result: Result) -> list[Measured]:
    return [
        (
            demand["demand"],
            demand["bar"],
            demand["at_least"],
            [statistics.median(demand["measured"])],
        )
        for demand in find_demands(result.rows, PEER)
    ]


def _step(result: Result) -> list[Measured]:
    lengths = ", ".join(str(row["length"]) for row in result.rows)
    return [
        (
            f"time, base, relative / sinusoidal, {lengths} tokens",
            1.03,
            False,
            [median(row["slowdown"]) for row in result.rows],
        )
    ]


def _decoding(result: Result) -> list[Measured]:
    """Returns the bars of translation, beams 1 and 4."""
    rows = {
        (row["engine"], row["num_beams"], row["batch_size"]): row
        for row in result.rows
    }

    def ratio(beams: int, size: int) -> float:
        return median(rows[OURS, beams, size]["ratio_to_base"])

    def best(engine: str, beams: int) -> float:
        return max(
            median(row["sentences_per_second"])
            for (name, of_row, _), row in rows.items()
            if (name, of_row) == (engine, beams)
        )

    measured: list[Measured] = []
    for beams, single, batch, largest, ctranslate2 in (
        (1, 2.0, 2.5, 3.0, 1.0),
        (4, 2.0, 3.5, 5.0, 0.9),
    ):
        ours, peer = (best(name, beams) for name in (OURS, opennmt_tf.NAME))
        over = f"sentences/s over OpenNMT-tf, beam {beams}"
        measured += [
            (f"{over}, batch 1", single, True, [ratio(beams, 1)]),
            (f"{over}, batch 32", batch, True, [ratio(beams, 32)]),
            (f"{over}, each one's best batch", largest, True, [ours / peer]),
            (
                f"over {_CTRANSLATE2}, beam {beams}, each one's best batch",
                ctranslate2,
                True,
                [ours / best(_CTRANSLATE2, beams)],
            ),
        ]
    return measured


def _start(result: Result) -> list[Measured]:
    base, ours = (row["seconds"] for row in result.rows)
    return [
        (
            "first translation over `import tensorflow, tensorflow_text`",
            1.4,
            False,
            [statistics.median(ratios(ours, base))],
        )
    ]


_MEASURED: dict[str, Callable[[Result], list[Measured]]] = {
    "attention": _attention,
    "bfloat16 attention": _bfloat16_attention,
    "training": _training,
    "step": _step,
    "decoding": _decoding,
    "start": _start,
}
