"""Benchmarks of decoding, at tiny sizes."""

import pytest

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
