"""Every benchmark runs at a tiny size, and stores what it prints."""

import os
import unicodedata

import pytest

import relative_attention as ra
from benchmarks.attention.attention_speed import KINDS
from benchmarks.decoding import first_translation
from benchmarks.decoding.first_translation import Used
from benchmarks.harness.engine import EngineError

pytestmark = pytest.mark.only_on("tensorflow", reason="TensorFlow's graphs")

# === Attention ===


@pytest.mark.large
def test_attention_speed_compares_layers(run_benchmark):
    result, printed = run_benchmark(
        "attention.attention_speed",
        *("--lengths", 2, 4, "--precision", "float32", "--memory-length", 4),
        *("--batch-tokens", 8, "--rounds", 1, "--processes", 1),
        *("--num-heads", 1, "--key-dim", 2, "--distance", 1),
        *("--unknown", "--onednn", "off"),
        is_apart=True,
    )
    short, long = result.rows
    assert (short["graph"], short["onednn"]) == ("unknown", "off")
    assert [short["tokens"], long["tokens"]] == [2, 4]
    assert "memory" not in short
    assert set(long["memory"]["median"]) == set(KINDS)
    times = short["backward"]["median"]
    assert short["backward"]["over"]["none"] == pytest.approx(
        [times["relative"][0] / times["none"][0]]
    )
    assert "off, float32, unknown, relative, 4, memory: " in printed


# === Decoding ===


def test_first_translation_compares_times_of_one_round(
    run_benchmark, monkeypatch
):
    class NoModel:
        export_ctranslate2 = load_translator = lambda *_: None

    # The first round goes forward and does not count, the second backward.
    clock = map(lambda t: Used(t, t / 2, 100 * t), [9.0] * 4 + [1, 2, 6, 4])
    monkeypatch.setattr(first_translation, "ra", NoModel)
    monkeypatch.setattr(first_translation, "used_by", lambda _: next(clock))
    result, printed = run_benchmark("decoding.first_translation", "--rounds", 1)
    assert [row["seconds"] for row in result.rows] == [[4], [6], [2], [1]]
    (line,) = [x for x in printed.splitlines() if "--engine" in x]
    assert [x.strip() for x in line.split("|")[2:-1]] == [
        *("2.00", "1.00", "200", "0.33"),
    ]


def test_used_by_a_process_is_its_own():
    block = "x = bytearray(10**8)"
    large = first_translation.used_by(["-c", block])
    small = first_translation.used_by(["-c", "print(input())"])
    assert large.peak_mb > 100 > small.peak_mb > 1
    assert 0 < small.processor_seconds
    with pytest.raises(EngineError, match="ModuleNotFoundError"):
        first_translation.used_by(["-c", "import absent_module"])


@pytest.mark.large
def test_output_length_measures_each_length(run_benchmark, model_folder):
    result, printed = run_benchmark(
        "decoding.output_length",
        model_folder,
        *("--lengths", 1, 2, "--beams", 1, "--batch-size", 1, "--rounds", 1),
    )
    assert [row["output_tokens"] for row in result.rows] == [1, 2]
    assert "| beam 1 " in printed


@pytest.mark.large
def test_joined_lines_score_lines_joined_and_by_words(
    run_benchmark, model_folder, tmp_path
):
    text, picture = tmp_path / "text", tmp_path / "joined.png"
    text.write_text("One.\n" * 5 + "One two three four five six seven.\n")
    files = ("--source", text, "--reference", text, "--picture", picture)
    result, printed = run_benchmark(
        "decoding.joined_lines", model_folder, model_folder, *files
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    joined = [row for row in result.rows if "lines" in row]
    assert [row["lines"] for row in joined] == 2 * [1, 2, 3, 4]
    by_words = [row for row in result.rows if "least_words" in row]
    assert [row["sentences"] for row in by_words] == [6, 6]
    # All lines are in one group, so it has what single lines have.
    assert by_words[0]["bleu"] == joined[0]["bleu"] == joined[0]["bleu_apart"]
    assert "line by line" in printed and "1 words or more" in printed


@pytest.mark.large
def test_int8_quality_has_each_mode(run_benchmark, model_folder, source):
    result, printed = run_benchmark(
        "decoding.int8_quality",
        model_folder,
        *("--source", source, "--reference", source, "--sentences", 2),
    )
    plain, weights, both = result.rows
    assert plain["same_as_float32"] == 2
    # Scales of rows so short weigh a lot.
    assert weights["bytes"] == both["bytes"] < 0.6 * plain["bytes"]
    assert "int8 weights and inputs" in printed


class _Echo:
    """A translator by a function of one text; none may come twice."""

    split_sentences = usual_case = placeholders = True

    def __init__(self, translate):
        self._translate = translate
        self.vocabulary = self
        self.glossary = {}

    def encode(self, texts):
        return [text.split() for text in texts]

    def prepare(self, texts):
        return [[text, *self.glossary.items()] for text in texts]

    def translate(self, texts):
        assert len(set(texts)) == len(texts)
        for term, name in self.glossary.items():
            texts = [text.replace(term, name) for text in texts]
        return [self._translate(text) for text in texts]


@pytest.mark.parametrize("part", ["validation", "test"])
@pytest.mark.parametrize(
    "translate, same, copied, is_long",
    [
        pytest.param(str, 0, 1, False, id="as it is"),
        pytest.param(
            lambda text: " ".join(
                unicodedata.normalize("NFC", text).strip("\ufeff").split()
            ),
            *(1, 1, False),
            id="cleaned",
        ),
        pytest.param(lambda text: "", 1, 0, False, id="nothing"),
        pytest.param(lambda text: f"{text} " * 12, 0, 1, True, id="repeated"),
    ],
)
def test_everyday_measures_what_a_translator_changes(
    run_benchmark, monkeypatch, tmp_path, part, translate, same, copied, is_long
):
    text = tmp_path / "text.en"
    text.write_text('Tom has two cats.\nA "café" is near.\n' * 4)
    (tmp_path / "copy.en").write_bytes(text.read_bytes())
    (tmp_path / "recipe.yaml").write_text(
        "data: {source: text.en, target: copy.en, validation_source: text.en, "
        "validation_target: copy.en, test_source: text.en, "
        "test_target: copy.en}\n"
        "model: {preset: transformer_tiny}\ntraining: {epochs: 1}\n"
    )
    monkeypatch.setattr(ra, "load_translator", lambda _: _Echo(translate))
    result, printed = run_benchmark(
        "decoding.everyday", tmp_path, "--data", tmp_path, "--part", part
    )
    rows = {}
    for row in result.rows:
        rows.setdefault(row["what"], []).append(row)
    (bleu,) = rows["BLEU"]
    # "two", which is the same in the copy.
    in_place, terms = rows["share of BLEU"].pop(), rows["copied"].pop()
    assert in_place["kind"] == "terms of a glossary"
    assert (terms["value"], terms["lines"]) == (copied, 4)
    if translate is str:
        assert bleu["value"] == pytest.approx(100)
        assert in_place["value"] == pytest.approx(1)
        for row in rows["share of BLEU"]:
            assert row["value"] == pytest.approx(1), row["kind"]
    assert len(rows["share of BLEU"]) == 11 and len(rows["the same"]) == 8
    assert {row["value"] for row in rows["the same"]} == {same}
    assert len(rows["copied"]) == 15
    for row in rows["copied"]:
        assert (row["value"], row["lines"]) == (copied, 100), row["kind"]
        assert len(row["missed"]) == (0 if copied else 10)
    alone, greetings = rows["translated"]
    assert greetings["value"] == (copied and not is_long)
    # A word twelve times is not the word.
    assert (alone["value"], alone["lines"]) == (is_long, 50)
    assert len(alone["missed"]) == (0 if is_long else 10)
    (endless,) = rows["endless"]
    assert endless["lines"] >= 60
    assert endless["value"] == len(endless["outputs"])
    assert (endless["value"] > 0.5 * endless["lines"]) == is_long
    (marks,) = rows["marks"]
    assert (marks["value"], marks["lines"]) == (copied and not is_long, 13)
    for row in result.rows:
        assert set(row["without"].values()) == {row["value"]}
    assert "four lines joined" in printed and "odd inputs" in printed


@pytest.mark.large
def test_translation_speed_compares_engines(
    run_benchmark, model_folder, source
):
    pytest.importorskip("ctranslate2", reason="the extra is missing")
    result, printed = run_benchmark(
        "decoding.translation_speed",
        model_folder,
        *("--source", source, "--rounds", 1, "--threads", 1),
        *("--batch-sizes", 2, "--beams", 1),
        is_apart=True,
    )
    assert [row["engine"] for row in result.rows] == [
        "relative-attention",
        "its SavedModel",
        "CTranslate2, float32",
        "--engine ctranslate2, float32",
        "CTranslate2, int8",
        "--engine ctranslate2, int8",
    ]
    assert result.rows[1]["same_as_ours"] == 2
    assert "2 of 2 translations of its SavedModel" in printed


# === Serving ===


@pytest.mark.large
def test_load_compares_the_server_with_a_translator(
    run_benchmark, model_folder
):
    result, output = run_benchmark(
        "serving.load",
        model_folder,
        *("--sentences", 20, "--single", 3, "--clients", 1, 4),
        *("--rounds", 1, "--memory", 10, 20),
        is_apart=True,
    )
    assert [r["who"] for r in result.rows] == [
        *["Translator"] * 2,
        *["server"] * 2,
        "memory",
    ]
    for found in result.rows[:-1]:
        assert found["same_as_translator"] == found["sentences"]
        assert found["sentences_per_second"][0] > 0
    assert "4 clients: " in output and "MB." in output


# === Training ===


@pytest.mark.large
def test_training_speed_without_a_peer(run_benchmark, texts):
    result, printed = run_benchmark(
        "training.training_speed",
        *("--data", texts, "--vocabulary-size", 300, "--batch-tokens", 32),
        *("--precisions", "float32", "--repeats", 1),
        *("--warmup", 5, "--steps", 5, "--window", 5),
        is_apart=True,
    )
    assert [row["engine"] for row in result.rows] == [
        "relative, float32",
        "sinusoidal, float32",
    ]
    assert all(row["ratio_to_peer"] is None for row in result.rows)
    assert "| relative, float32" in printed and "not run" in printed


@pytest.mark.slow
def test_keras_tutorial_scores_both(run_benchmark, texts, tmp_path):
    for part in ("train", "val", "test"):
        for language in ("en", "de"):
            lines = (texts / f"train.{language}").read_text().split("\n")
            content = "\n".join([*lines[:16], ""])
            (tmp_path / f"{part}.{language}").write_text(content)
    result, printed = run_benchmark(
        "training.keras_tutorial",
        *("--data", tmp_path, "--languages", "en", "de"),
        *("--minutes", 0.05, "--runs", tmp_path / "runs"),
        is_apart=True,
    )
    tutorial, ours = result.rows
    # Sizes of 15,000 pieces on each side, as in the tutorial.
    assert tutorial["parameters"] > 2 * 15_000 * 256 > ours["parameters"]
    for row in (tutorial, ours):
        assert row["steps"] > 0 and row["memory"] > 2**27
        assert row["cores"] == max(len(os.sched_getaffinity(0)) // 2, 1)
        assert row["lowercased_bleu"] >= row["bleu"] - 1e-9
        # A model that has hardly learned may write a carriage return.
        path = tmp_path / "runs" / "0.05" / f"{row['engine']}.txt"
        assert path.read_bytes().count(b"\n") == 16
    assert "| the tutorial, 0.05 minutes" in printed


@pytest.mark.slow
def test_growth_has_a_row_for_each_size(run_benchmark, texts):
    result, printed = run_benchmark(
        "training.growth",
        *("--data", texts, "--vocabulary-size", 300, "--batch-tokens", 32),
        *("--widths", 64, "--lengths", 8, "--pairs", 200, "--steps", 2),
        is_apart=True,
    )
    assert [(row["size"], row["grows"]) for row in result.rows] == [
        (64, "model width"),
        (8, "tokens a sentence"),
        (200, "pairs in the corpus"),
    ]
    assert "| 200 pairs in the corpus" in printed


@pytest.mark.large
def test_paper_models_counts_what_a_step_keeps(run_benchmark):
    pytest.importorskip("jax")
    kept = []
    for tokens in (128, 256):
        result, printed = run_benchmark(
            "training.paper_models",
            *("--presets", "transformer_tiny", "--vocabulary-size", 300),
            *("--batch-tokens", tokens, "--precision", "float32"),
        )
        (row,) = result.rows
        assert "| `transformer_tiny` |" in printed
        assert row["state_bytes"] == 16 * row["parameters"]
        kept.append(row["kept_bytes"])
    # It grows with the batch, but for the weights among it.
    assert 1.5 < kept[1] / kept[0] < 2
