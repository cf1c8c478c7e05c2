"""Benchmarks of decoding, at tiny sizes."""

import unicodedata

import pytest

import relative_attention as ra
from benchmarks.decoding import first_translation

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")


def test_first_translation_is_over_the_import_of_the_same_round(
    run_benchmark, monkeypatch
):
    clock = iter([(2.0, 1.0), (3.0, 2.0)] * 2)
    monkeypatch.setattr(first_translation, "_times_of", lambda *_: next(clock))
    result, printed = run_benchmark("decoding.first_translation", "--rounds", 1)
    # The second round, which counts, goes backwards.
    assert [row["seconds"] for row in result.rows] == [[3.0], [2.0]]
    (line,) = [x for x in printed.splitlines() if "`relative-attention" in x]
    assert [x.strip() for x in line.split("|")[2:-1]] == [
        *("2.00", "0.67", "1.00", "0.50"),
    ]


@pytest.mark.large
def test_output_length(run_benchmark, model_folder):
    result, printed = run_benchmark(
        "decoding.output_length",
        model_folder,
        *("--lengths", 1, 2, "--beams", 1, "--batch-size", 1, "--rounds", 1),
    )
    assert [row["output_tokens"] for row in result.rows] == [1, 2]
    assert "ratio to 1 tokens" in printed


@pytest.mark.large
def test_quality_by_length(run_benchmark, model_folder, tmp_path):
    text, picture = tmp_path / "text", tmp_path / "joined.png"
    text.write_text("One.\n" * 5 + "One two three four five six seven.\n")
    files = ("--source", text, "--reference", text, "--picture", picture)
    files += ("--split-sentences", "en")
    result, printed = run_benchmark(
        "decoding.joined_lines", model_folder, model_folder, *files
    )
    assert picture.read_bytes().startswith(b"\x89PNG")
    joined = [row for row in result.rows if "lines" in row]
    assert [row["lines"] for row in joined] == 2 * [1, 2, 3, 4]
    # Where each sentence is split off, single lines are translated.
    assert all(row["bleu_split"] == row["bleu_apart"] for row in joined)
    by_words = [row for row in result.rows if "least_words" in row]
    assert [row["sentences"] for row in by_words] == [6, 6]
    # All lines are in one group, so it has what single lines have.
    assert by_words[0]["bleu"] == joined[0]["bleu"] == joined[0]["bleu_apart"]
    assert "lines joined" in printed and "from 1 (6 lines)" in printed


@pytest.mark.large
def test_quality_in_int8(run_benchmark, model_folder, source):
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

    def __init__(self, translate):
        self._translate = translate

    def translate(self, texts):
        assert len(set(texts)) == len(texts)
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
        pytest.param(lambda text: f"{text} " * 4, 0, 1, True, id="repeated"),
    ],
)
def test_everyday_text(
    run_benchmark, monkeypatch, tmp_path, part, translate, same, copied, is_long
):
    text = tmp_path / "text.en"
    text.write_text('Tom has two cats.\nA "café" is near.\n' * 4)
    (tmp_path / "recipe.yaml").write_text(
        "data: {source: text.en, target: text.en, validation_source: text.en, "
        "validation_target: text.en, test_source: text.en, "
        "test_target: text.en}\n"
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
    if translate is str:
        assert bleu["value"] == pytest.approx(100)
        for row in rows["share of BLEU"]:
            assert row["value"] == pytest.approx(1), row["kind"]
    assert len(rows["share of BLEU"]) == 5 and len(rows["the same"]) == 8
    assert {row["value"] for row in rows["the same"]} == {same}
    assert len(rows["copied"]) == 12
    for row in rows["copied"]:
        assert (row["value"], row["lines"]) == (copied, 100), row["kind"]
        assert len(row["missed"]) == (0 if copied else 10)
    (runaway,) = rows["runaway"]
    assert runaway["lines"] >= 60
    # Short ones are still shorter than 20 characters.
    assert runaway["value"] == len(runaway["outputs"])
    assert (runaway["value"] > 0.7 * runaway["lines"]) == is_long
    assert "four lines joined" in printed and "odd inputs" in printed
