"""What pages show of stored results, by the name of the mark in the page."""

import functools
import json
import math
import pathlib
from collections.abc import Callable
from collections.abc import Iterable
from collections.abc import Sequence
from typing import Any

from benchmarks import speed_tables as speed
from benchmarks.attention.attention_speed import KERAS
from benchmarks.attention.attention_speed import PLAIN
from benchmarks.decoding import int8_quality
from benchmarks.harness.results import Result
from benchmarks.harness.results import Row
from benchmarks.harness.results import markdown_table
from benchmarks.harness.results import median
from benchmarks.harness.results import ratios
from benchmarks.training.paper_models import gigabytes
from relative_attention.cli.benchmark import PEAK_TFLOPS
from relative_attention.cli.benchmark import known_peak
from relative_attention.errors import InputError
from relative_attention.models import TransformerConfig
from relative_attention.models import preset_config
from relative_attention.models import presets
from relative_attention.models import training_flops
from relative_attention.models.weight_shapes import weight_shapes
from relative_attention.recipes import find_recipe
from relative_attention.zoo import find_model
from relative_attention.zoo import scores_of_test_text
from relative_attention.zoo import studies_directory
from relative_attention.zoo import zoo_directory
from relative_attention.zoo import zoo_models
from relative_attention.zoo import zoo_results

_OURS = "relative-attention"
_DIRECT = "CTranslate2, float32"
_ENGINE = "--engine ctranslate2, float32"
_INT8 = ("--engine ctranslate2, int8", "CTranslate2, int8")
_LANGUAGES = {
    "de": "German",
    "en": "English",
    "es": "Spanish",
    "fr": "French",
    "ja": "Japanese",
}

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


def presets_table() -> str:
    """Returns a row for each preset, with its numbers."""
    cells = []
    for name in presets():
        config = preset_config(name, vocabulary_size=_PRESET_PIECES)
        shapes = dict(weight_shapes(config)).values()
        cells.append(
            [
                f"`{name}`",
                _positions_of(config),
                config.hidden_dim,
                config.intermediate_dim,
                config.num_heads,
                config.dropout,
                f"{sum(map(math.prod, shapes)):,}",
            ]
        )
    header = ["preset", "positions", "hidden", "feed-forward", "heads"]
    return markdown_table([*header, "dropout", "parameters"], cells, texts=2)


# What the pages count parameters with.
_PRESET_PIECES = 32_768


def _positions_of(config: TransformerConfig) -> str:
    if config.position_encoding != "relative":
        return str(config.position_encoding)
    per_head = "" if config.share_relations_across_heads else ", per head"
    return f"K = {config.max_relative_position}{per_head}"


def card_table(name: str) -> str:
    """Returns BLEU of a model's texts, then signatures, for its card.

    They are not in the table, which would be too wide for a phone.
    """
    results = zoo_results(name)
    scores = results.get("scores_of_weights") or results["scores"]
    cells, signatures = [], []
    for kind, key in (
        ("cased, detokenized", "bleu"),
        ("lowercased, Moses' tokenizer", "bleu_moses_lowercased"),
    ):
        validation, test = (
            f"{scores[part][key]:.2f}" for part in ("validation", "test")
        )
        if key == "bleu" and name in zoo_models():
            test = f"**{test}**"
        cells.append([kind, test, validation])
        signatures.append(f"- {kind}: `{scores['test'][f'{key}_signature']}`")
    file = find_recipe(name).data.test_source or ""
    text = f"`{pathlib.Path(file).stem}`" if "flickr" in file else "test text"
    table = markdown_table(["BLEU", text, "validation text"], cells)
    return "\n".join([table, "", *signatures])


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


def study_columns(*names: str, is_sorted: bool = False) -> str:
    """Returns BLEU and differences of the rows of studies, for a page.

    Args:
        *names: Strings, the studies. Rows of all but the first have the title
            of their study before their own.
        is_sorted: Whether the best row comes first.
    """
    rows = [
        (_study_title(row, name if number else ""), row)
        for number, name in enumerate(names)
        for row in _study(name).values()
        # Which the page has in another table.
        if not row["row"].endswith("-joined")
    ]
    if is_sorted:
        rows.sort(key=lambda pair: -pair[1]["test_bleu"]["mean"])
    has_paper = any(row["paper"] is not None for _, row in rows)
    cells = []
    for title, row in rows:
        found, paper = row["difference"], row["paper"]
        shown = p_value = ""
        if found is not None:
            low, high = (f"{found[end]:+.2f}" for end in ("low", "high"))
            shown = f"{found['mean']:+.2f} ({low} to {high})"
            p_value = f"{found['p_value']:.3f}"
        cells.append([title, _bleu(row), shown, p_value])
        if has_paper:
            cells[-1].append("" if paper is None else f"{paper:.1f}")
    header = ["", "test BLEU", "difference (95 %)", "p"]
    return markdown_table([*header, *["the paper"] * has_paper], cells)


def _study_title(row: Row, study: str) -> str:
    title = row["title"]
    languages = " to ".join(map(str.title, study.split("_")))
    return f"{languages}, {title}" if study else title


def _study(name: str) -> dict[str, Any]:
    path = studies_directory() / f"{name}.json"
    content = json.loads(path.read_text("utf-8"))
    return {row["row"]: row for row in content["table"]}


def _bleu(row: dict[str, Any]) -> str:
    bleu = row["test_bleu"]
    spread = bleu["standard_deviation"]
    mean = f"{bleu['mean']:.2f}"
    return mean if spread is None else f"{mean} ± {spread:.2f}"


# A model; an earlier run of it, or none; and what was trained on.
_SCORED = (
    ("multi30k_en_de_tiny", "", "corpus"),
    ("multi30k_en_de_tiny_relative", "corpus_alone", "corpus"),
    ("multi30k_en_de_tiny_relative", "", "corpus, 116,000 translations"),
    ("multi30k_en_de_base_relative", "", "corpus"),
    ("multi30k_en_fr_tiny", "", "corpus"),
    ("multi30k_en_fr_tiny_relative", "corpus_alone_8000", "corpus"),
    ("multi30k_en_fr_tiny_relative", "corpus_alone_10858", "corpus"),
    ("multi30k_en_fr_tiny_relative", "", "corpus, 87,000 translations"),
    ("multi30k_de_en_tiny_relative", "", "corpus"),
    ("tatoeba_en_de", "", "Tatoeba, variants"),
    ("tatoeba_de_en", "", "Tatoeba, variants"),
    ("tatoeba_en_fr", "", "Tatoeba, variants"),
    ("tatoeba_fr_en", "", "Tatoeba, variants"),
    ("tatoeba_en_es", "", "Tatoeba, variants"),
    ("tatoeba_es_en", "", "Tatoeba, variants"),
    ("tatoeba_ja_en", "", "Tatoeba, variants"),
)


def scores_table() -> str:
    """Returns BLEU of the test text, of models and earlier runs of them."""
    cells = []
    for name, run, text in _SCORED:
        scores = scores_of_test_text(zoo_results(name))
        title = f"[`{name}`](../../models/{name})"
        if run:
            path = zoo_directory() / name / "earlier_results.json"
            content = json.loads(path.read_text("utf-8"))
            scores = content["runs"][run][content["shown"]]["test"]
            title = f"an earlier run, {content['runs'][run]['steps']:,} updates"
        bleu = f"{scores['bleu']:.2f}"
        if not run and name in zoo_models():
            bleu = f"**{bleu}**"
        cells.append(
            [title, text, bleu, f"{scores['bleu_moses_lowercased']:.2f}"]
        )
    header = ["model", "trained on", "test BLEU, cased", "lowercased"]
    return markdown_table(header, cells, texts=2)


# Groups of rows; BLEU of the text itself is in the table of scores.
_SHOWN = {
    "share of BLEU": "BLEU of changed lines, over that of the lines",
    "the same": "same translation with other blanks and line ends",
    "copied": "things that stay",
    "marks": "marks around a line that stay",
    "translated": "alone, and translated",
    "runaway": "endless repetition of odd inputs",
    "endless": "endless repetition of odd inputs",
}


def everyday_card(result: Result) -> str:
    """Returns how a model does on what people type, in narrow rows."""
    cells = []
    for what, shown in _SHOWN.items():
        rows = [
            row
            for row in result.rows
            # Few English lines have an accent to decompose.
            if row["what"] == what and row["lines"]
        ]
        if what in ("runaway", "endless"):
            cells += [
                [f"**{shown}**", f"{row['value']} of {row['lines']}"]
                for row in rows
            ]
        elif what in ("the same", "marks") and rows:
            least = min(row["value"] for row in rows)
            cells.append([f"**{shown}**", f"{least:.2f}"])
        elif rows:
            cells.append([f"**{shown}**", ""])
            cells += [[row["kind"], f"{row['value']:.2f}"] for row in rows]
    return markdown_table(["everyday input", "share"], cells)


# === The paper's models ===


def paper_models_table(speed: Result, memory: Result) -> str:
    """Returns estimates of what training the paper's models takes."""
    cells = []
    for size, preset in _PAPER_MODELS.items():
        hours = [
            paper_hours(size, peak, speed) / number
            for peak in dict.fromkeys(PEAK_TFLOPS.values())
            for number in (1, 8)
        ]
        cells.append(
            [
                f"`{preset}`",
                f"{_paper_flops(size) / 1e18:,.0f}",
                paper_memory(size)(memory),
                *map(_hours, hours),
            ]
        )
    peaks = dict.fromkeys(PEAK_TFLOPS.values())
    cards = [
        " or ".join(
            name for name, other in PEAK_TFLOPS.items() if other == peak
        )
        for peak in peaks
    ]
    header = ["preset", "10^18 operations", "GB per device"]
    header += [f"hours, {n} {card}" for card in cards for n in (1, 8)]
    return markdown_table(header, cells)


# The recipes `wmt14_en_de_NAME`, and their presets.
_PAPER_MODELS = {
    name: f"transformer_{name}"
    for name in ("base", "base_relative", "big", "big_relative")
}
# The length that speeds were measured at.
_PAPER_LENGTH = 128


def _paper_flops(name: str) -> float:
    """Returns the operations of all updates of a recipe of WMT."""
    recipe = find_recipe(f"wmt14_en_de_{name}")
    config = recipe.model_config(int(recipe.vocabulary.size))
    pair = training_flops(config, _PAPER_LENGTH, _PAPER_LENGTH)
    tokens = recipe.training.effective_batch_tokens or 0
    return pair * tokens / _PAPER_LENGTH * (recipe.training.steps or 0)


def paper_hours(name: str, peak_tflops: float, speed: Result) -> float:
    """Returns the hours on one device with a peak in TFLOP/s.

    Of that peak it has the share that the base model had where it was measured.
    """
    base = _PAPER_MODELS[name].replace("big", "base")
    (row,) = (
        row
        for row in speed.rows
        if (row["preset"], row["length"]) == (base, _PAPER_LENGTH)
    )
    measured = known_peak(speed.origin["hardware"], speed.precision or "")
    if measured is None:
        raise InputError(
            f"The peak of {speed.origin['hardware']} is unknown; "
            "`relative_attention.cli.benchmark` has those that are."
        )
    size = speed.options["vocabulary_size"]
    config = preset_config(base, vocabulary_size=size)
    pair = training_flops(config, _PAPER_LENGTH, _PAPER_LENGTH)
    # The tokens of source and target.
    pairs_per_second = row["tokens_per_second"] / (2 * _PAPER_LENGTH)
    return _paper_flops(name) / (
        3600 * pairs_per_second * pair * peak_tflops / measured
    )


def paper_memory(name: str) -> Callable[[Result], str]:
    """Returns what reads the memory of training, in GB."""

    def memory(result: Result) -> str:
        (row,) = (r for r in result.rows if r["preset"] == _PAPER_MODELS[name])
        return gigabytes(row)

    return memory


def _hours(hours: float) -> str:
    return f"{hours:,.1f}" if hours < 10 else f"{hours:,.0f}"


def _hours_on_h200(name: str) -> Callable[[Result], str]:
    peak = PEAK_TFLOPS["H200"]
    return lambda speed: _hours(paper_hours(name, peak, speed))


# === Ratios ===


def layer_over(base: str) -> Callable[[Result], str]:
    """Returns what computes the layer's time over another's, all lengths."""
    return lambda result: _range(
        median(row["backward"]["over"][base])
        # The lengths that the table of the layer shows.
        for row in result.rows[1::2]
    )


def long_layer_over(figure: str, base: str) -> Callable[[Result], str]:
    """Returns what reads a ratio of the longest text of both layers."""
    return lambda result: f"{median(result.rows[-1][figure]['over'][base]):.2f}"


def gpu_layer_over_keras(result: Result) -> str:
    """Returns the layer's time over Keras' on a GPU, all lengths."""
    seconds = {
        (row["tokens"], row["kind"]): median(row["seconds"])
        for row in result.rows
        if row["part"] == "layer"
    }
    lengths = dict.fromkeys(tokens for tokens, _ in seconds)
    return _range(
        seconds[tokens, "relative"] / seconds[tokens, "keras"]
        for tokens in lengths
    )


def step_over_sinusoidal(precision: str) -> Callable[[Result], str]:
    """Returns what computes a training step's time over that without."""

    def over(result: Result) -> str:
        steps = {row["engine"]: row["steps_per_second"] for row in result.rows}
        found = ratios(
            *(
                steps[f"{name}, {precision}"]
                for name in ("sinusoidal", "relative")
            )
        )
        return f"{median(found):.2f}"

    return over


def _first_translation(result: Result, process: str) -> Row:
    (row,) = (row for row in result.rows if row["process"] == process)
    return row


def first_translation_over_import(result: Result) -> str:
    """Returns the time of a first translation over TensorFlow's import."""
    ours = _first_translation(result, "relative-attention translate")
    imports = _first_translation(result, "import tensorflow, tensorflow_text")
    return f"{median(ratios(ours['seconds'], imports['seconds'])):.2f}"


def engine_over_keras(key: str) -> Callable[[Result], str]:
    """Returns what reads the cost of a first translation by the engine."""

    def over(result: Result) -> str:
        name = "relative-attention translate"
        engine = _first_translation(result, f"{name} --engine ctranslate2")
        ours = _first_translation(result, name)
        return f"{median(ratios(engine[key], ours[key])):.2f}"

    return over


def sentences_per_second(result: Result) -> str:
    """Returns how many sentences this package translates with four beams."""
    (row,) = (
        row
        for row in result.rows
        if (row["engine"], row["num_beams"], row["batch_size"])
        == (_OURS, 4, 32)
    )
    return f"{median(row['sentences_per_second']):.0f}"


def over_peer(key: str, ours: str) -> Callable[[Result], str]:
    """Returns what reads an engine's speed over the peer's, all cases."""
    return lambda result: _range(
        median(row[key]) for row in result.rows if row["engine"] == ours
    )


def translation_over(ours: str, other: str) -> Callable[[Result], str]:
    """Returns what computes the speed of an engine over another's."""

    def over(result: Result) -> str:
        # Both ratios of a round are to the base of that round.
        one, two = (
            {
                (row["num_beams"], row["batch_size"]): row["ratio_to_base"]
                for row in result.rows
                if row["engine"] == engine
            }
            for engine in (ours, other)
        )
        return _range(median(ratios(one[case], two[case])) for case in one)

    return over


def _range(values: Iterable[float]) -> str:
    found = list(values)
    low, high = min(found), max(found)
    return f"{low:.2f}" if low == high else f"{low:.2f} to {high:.2f}"


def bleu_beside_the_tutorial(engine: str) -> Callable[[Result], str]:
    """Returns lowercased BLEU of the tutorial's model or of ours."""

    def bleu(result: Result) -> str:
        (row,) = (row for row in result.rows if row["engine"] == engine)
        return f"{row['lowercased_bleu']:.1f}"

    return bleu


_Figure = tuple[Callable[..., str], Sequence[str]]

# A sentence has one of these, and the results it is made of.
FIGURES: dict[str, _Figure] = {
    "layer_over_keras": (layer_over(KERAS), ["attention_speed"]),
    "layer_over_keras_in_bfloat16": (
        layer_over(KERAS),
        ["attention_speed_bfloat16"],
    ),
    **{
        f"long_layer_{name}": (
            long_layer_over(figure, base),
            ["attention_speed_long"],
        )
        for name, figure, base in (
            ("over_keras", "backward", KERAS),
            ("memory_over_keras", "memory", KERAS),
            ("over_plain", "backward", PLAIN),
        )
    },
    "gpu_layer_over_keras": (gpu_layer_over_keras, ["gpu"]),
    "tutorial_bleu": (
        bleu_beside_the_tutorial("tutorial"),
        ["keras_tutorial_90"],
    ),
    "our_bleu": (bleu_beside_the_tutorial("ours"), ["keras_tutorial_90"]),
    "layer_over_plain": (layer_over(PLAIN), ["attention_speed"]),
    **{
        f"step_over_sinusoidal{end}": (
            step_over_sinusoidal(precision),
            ["training_speed"],
        )
        for end, precision in (
            ("", "float32"),
            ("_in_bfloat16", "mixed_bfloat16"),
        )
    },
    "first_translation_over_import": (
        first_translation_over_import,
        ["first_translation"],
    ),
    **{
        f"engine_{key}": (engine_over_keras(key), ["first_translation"])
        for key in ("processor_seconds", "peak_mb")
    },
    "sentences_per_second": (sentences_per_second, ["translation_speed"]),
    "training_over_opennmt_tf": (
        over_peer("ratio_to_peer", "relative, float32"),
        ["training_speed"],
    ),
    **{
        f"translation_over_opennmt_tf{end}": (
            over_peer("ratio_to_base", _OURS),
            [f"translation_speed{file}"],
        )
        for end, file in (("", ""), ("_on_avx2", "_avx2"))
    },
    **{
        name: (translation_over(*engines), ["translation_speed"])
        for name, engines in {
            "ctranslate2_engine_over_direct": (_ENGINE, _DIRECT),
            "ctranslate2_engine_over_direct_in_int8": _INT8,
            "translation_over_ctranslate2": (_OURS, _DIRECT),
            "ctranslate2_engine_over_keras": (_ENGINE, _OURS),
        }.items()
    },
    **{
        f"hours_{name}": (_hours_on_h200(name), ["training_speed_h200"])
        for name in _PAPER_MODELS
    },
    **{
        f"memory_{name}": (paper_memory(name), ["paper_models"])
        for name in _PAPER_MODELS
    },
}

TABLES: dict[str, _Figure] = {
    "attention_speed": (
        speed.attention_table,
        ["attention_speed", "attention_speed_bfloat16"],
    ),
    "attention_speed_long": (
        speed.long_table,
        ["attention_speed_long", "attention_memory"],
    ),
    "gpu_layer": (speed.gpu_layer_table, ["gpu"]),
    "position_encodings": (speed.encodings_table, ["position_encodings"]),
    "position_encodings_long": (
        speed.long_encodings_table,
        ["position_encodings_long"],
    ),
    "translation_speed": (speed.translation_table, ["translation_speed"]),
    "output_length": (speed.output_length_table, ["output_length"]),
    "training_speed": (speed.training_table, ["training_speed"]),
    "keras_tutorial": (
        speed.keras_tutorial_table,
        ["keras_tutorial", "keras_tutorial_90"],
    ),
    "growth": (speed.growth_table, ["growth"]),
    "paper_models": (
        paper_models_table,
        ["training_speed_h200", "paper_models"],
    ),
    "small_corpora": (
        speed.small_corpora_table,
        ["small_corpora_2000", "small_corpora_20000", "small_corpora_160000"],
    ),
    "opennmt_tf_quality": (speed.quality_table, ["opennmt_tf_quality"]),
    "positions": (speed.positions_table, ["joined_lines_positions"]),
    "positions_tatoeba": (speed.positions_table, ["joined_lines_tatoeba"]),
    "joined_captions": (speed.joined_table, ["joined_lines_captions"]),
    "positions_gain": (positions_gain_table, []),
    "scores": (scores_table, []),
    "study_table1": (lambda: study_columns("table1", "german_english"), []),
    **{
        f"study_{name}": (functools.partial(study_columns, name), [])
        for name in ("table2", "table3", "ablation")
    },
    **{
        f"study_{name}": (
            functools.partial(study_columns, name, is_sorted=True),
            [],
        )
        for name in ("positions", "positions_tatoeba")
    },
    "int8_quality": (int8_quality.describe, ["int8_quality"]),
    "load": (speed.load_table, ["load"]),
    **{
        f"everyday_tatoeba_{pair}": (
            everyday_card,
            [f"everyday_tatoeba_{pair}"],
        )
        for pair in (
            *("en_de", "de_en", "en_fr", "fr_en"),
            *("en_es", "es_en", "ja_en"),
        )
    },
    "models": (lambda: models_table(""), []),
    "presets": (presets_table, []),
    **{
        f"card_{name}": (functools.partial(card_table, name), [])
        for name in dict.fromkeys(name for name, *_ in _SCORED)
    },
    "models_of_the_guide": (lambda: models_table("../../models/"), []),
}
