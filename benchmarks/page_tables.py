"""What pages show of stored results, by the name of the mark in the page."""

import json
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from benchmarks import speed_tables as speed
from benchmarks.attention.attention_speed import KERAS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from relative_attention.zoo import find_model
from relative_attention.zoo import scores_of_test_text
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_results

_OURS = "relative-attention"
_DIRECT = "CTranslate2, float32"
_ENGINE = "--engine ctranslate2, float32"
_LANGUAGES = {"en": "English", "de": "German", "fr": "French"}

# === Models and studies ===


def models_table(folder: str) -> str:
    """Returns a row for each bundled model, those for any use first.

    Args:
        folder: A string, how the page links to the folder of the models.
    """
    cells = []
    for name in sorted(zoo_models(), key=lambda name: "multi30k" in name):
        corpus, source, target, *_ = name.split("_")
        kind, use = {
            "tatoeba": ("everyday", f"[any]({folder}{name}/LICENSE.md)"),
            "multi30k": ("captions,", f"[research]({folder}{name}/LICENSE.md)"),
        }[corpus]
        size = (find_model(name) / "model.safetensors").stat().st_size
        bleu = scores_of_test_text(zoo_results(name))["bleu"]
        cells.append(
            [
                f"[`{name}`]({folder}{name})",
                f"{kind} {_LANGUAGES[source]} to {_LANGUAGES[target]}",
                use,
                f"{size / 1e6:.0f} MB",
                f"{bleu:.2f}",
            ]
        )
    header = ["model", "translates", "use", "size", "test BLEU"]
    return markdown_table(header, cells, texts=3)


def positions_gain_table() -> str:
    """Returns BLEU with sinusoidal and relative positions, by corpus."""
    cells = []
    for text, study, sinusoidal, relative in (
        ("captions, English to German", "table1", "en_de-", "en_de-"),
        ("captions, English to French", "table1", "en_fr-", "en_fr-"),
        ("captions, German to English", "german_english", "", ""),
        ("everyday, German to English", "positions_tatoeba", "", ""),
    ):
        rows = _study(study)
        before = rows[f"{sinusoidal}sinusoidal"]
        after = rows[f"{relative}relative"]
        found, sign = after["difference"], 1
        if found is None:
            found, sign = before["difference"], -1
        mean, *ends = (sign * found[key] for key in ("mean", "low", "high"))
        low, high = sorted(ends)
        cells.append(
            [
                text,
                *(_bleu(row) for row in (before, after)),
                f"**{mean:+.2f}** ({low:+.2f} to {high:+.2f})",
            ]
        )
    header = ["text", "sinusoidal", "relative", "difference (95 %)"]
    return markdown_table(header, cells)


def _study(name: str) -> dict[str, Any]:
    path = studies_directory() / f"{name}.json"
    content = json.loads(path.read_text("utf-8"))
    return {row["row"]: row for row in content["table"]}


def _bleu(row: dict[str, Any]) -> str:
    bleu = row["test_bleu"]
    return f"{bleu['mean']:.2f} ± {bleu['standard_deviation']:.2f}"


_SHOWN = {
    "BLEU": "BLEU of the test text",
    "share of BLEU": "BLEU of changed lines over that of the lines",
    "the same": "translations that stay the same",
    "copied": "things that are copied unchanged",
    "runaway": "outputs that run away, of 80 odd inputs",
}


def everyday_card(result: Result) -> str:
    """Returns how a model holds for what people type, a row each."""
    cells = []
    for what, shown in _SHOWN.items():
        values = [
            str(row["value"])
            if what == "runaway"
            else f"{row['kind']} {row['value']:.2f}"
            for row in result.rows
            # Few English lines have an accent to decompose.
            if row["what"] == what and row["lines"]
        ]
        cells.append([shown, ", ".join(values)])
    return markdown_table(["of what people type", "share"], cells, texts=2)


# === Ratios ===


def layer_over(base: str) -> Callable[[Result], str]:
    """Returns what computes the layer's time over another's, all lengths."""
    return lambda result: _range(
        median(row["backward"]["over"][base])
        # The lengths that the table of the layer shows.
        for row in result.rows[1::2]
    )


def step_over_sinusoidal(result: Result) -> str:
    """Returns the time of a training step over that without relations."""
    steps = {row["engine"]: row["steps_per_second"] for row in result.rows}
    rounds = zip(steps["sinusoidal, float32"], steps["relative, float32"])
    return f"{median([sinusoidal / ours for sinusoidal, ours in rounds]):.2f}"


def training_over_peer(result: Result) -> str:
    """Returns the speed of training over OpenNMT-tf's."""
    (row,) = (r for r in result.rows if r["engine"] == "relative, float32")
    return f"{median(row['ratio_to_peer']):.2f}"


def translation_over_peer(result: Result) -> str:
    """Returns the speed of translating over OpenNMT-tf's, all cases."""
    return _range(
        median(row["ratio_to_base"])
        for row in result.rows
        if row["engine"] == _OURS
    )


def translation_over(ours: str, other: str) -> Callable[[Result], str]:
    """Returns what computes the speed of an engine over another's."""

    def over(result: Result) -> str:
        cases: dict[tuple[int, int], dict[str, Row]] = {}
        for row in result.rows:
            case = cases.setdefault((row["num_beams"], row["batch_size"]), {})
            case[row["engine"]] = row
        # Both ratios of a round are to the base of that round.
        return _range(
            median(
                [
                    one / two
                    for one, two in zip(
                        case[ours]["ratio_to_base"],
                        case[other]["ratio_to_base"],
                    )
                ]
            )
            for case in cases.values()
        )

    return over


def _range(ratios: Iterable[float]) -> str:
    low, *_, high = sorted(ratios)
    return f"{low:.2f} to {high:.2f}"


_Figure = tuple[Callable[..., str], Sequence[str]]

# A sentence has one of these, and the results it is made of.
FIGURES: dict[str, _Figure] = {
    "layer_over_keras": (layer_over(KERAS), ["attention_speed"]),
    "layer_over_keras_in_bfloat16": (
        layer_over(KERAS),
        ["attention_speed_bfloat16"],
    ),
    "layer_over_plain": (layer_over(PLAIN), ["attention_speed"]),
    "step_over_sinusoidal": (step_over_sinusoidal, ["training_speed"]),
    "training_over_opennmt_tf": (training_over_peer, ["training_speed"]),
    "translation_over_opennmt_tf": (
        translation_over_peer,
        ["translation_speed"],
    ),
    "translation_over_ctranslate2": (
        translation_over(_OURS, _DIRECT),
        ["translation_speed"],
    ),
    "ctranslate2_engine_over_keras": (
        translation_over(_ENGINE, _OURS),
        ["translation_speed"],
    ),
}

TABLES: dict[str, _Figure] = {
    "attention_speed": (
        speed.attention_table,
        ["attention_speed", "attention_speed_bfloat16"],
    ),
    "position_encodings": (speed.encodings_table, ["position_encodings"]),
    "translation_speed": (speed.translation_table, ["translation_speed"]),
    "output_length": (speed.output_length_table, ["output_length"]),
    "training_speed": (speed.training_table, ["training_speed"]),
    "growth": (speed.growth_table, ["growth"]),
    "small_corpora": (
        speed.small_corpora_table,
        ["small_corpora_2000", "small_corpora_20000", "small_corpora_160000"],
    ),
    "opennmt_tf_quality": (speed.quality_table, ["opennmt_tf_quality"]),
    "positions": (speed.positions_table, ["joined_lines_positions"]),
    "positions_tatoeba": (speed.positions_table, ["joined_lines_tatoeba"]),
    "positions_gain": (positions_gain_table, []),
    **{
        f"everyday_tatoeba_{pair}": (
            everyday_card,
            [f"everyday_tatoeba_{pair}"],
        )
        for pair in ("en_de", "de_en", "en_fr", "fr_en")
    },
    "models": (lambda: models_table(""), []),
    "models_of_the_guide": (lambda: models_table("../../models/"), []),
}
