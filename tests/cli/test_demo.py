"""The whole line: a model that understands numbers it has never seen."""

import contextlib
import io

import pytest

import relative_attention as ra
from relative_attention.cli import main

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    """Folder of the demo's model, and what the command printed."""
    folder = tmp_path_factory.mktemp("demo")
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        assert main(["demo", "--output", str(folder)]) == 0
    return folder, output.getvalue()


def test_demo_reaches_bleu_90_on_held_out_values(demo):
    folder, output = demo
    score = float(output.split("held-out BLEU ")[1].split()[0])
    assert score >= 90
    assert "tok:13a" in output
    assert output.count("translation  ") == 10
    assert (folder / "attention.png").read_bytes()[:4] == b"\x89PNG"


@pytest.mark.parametrize("num_beams", [1, 4])
def test_translations_depend_on_neither_batch_nor_order(
    demo, tmp_path, num_beams
):
    folder, _ = demo
    ra.write_spoken_numbers(
        tmp_path, train_pairs=50, validation_pairs=10, test_pairs=40
    )
    sentences = (tmp_path / "test.en").read_text().splitlines()
    assert len({len(sentence) for sentence in sentences}) > 10
    translator = ra.load_translator(folder / "model", num_beams=num_beams)
    expected = translator.search(sentences)
    assert len({translation.text for translation in expected}) > 30
    # One sentence at a time, a few, and all of them from the last to the first.
    for batch_tokens, order in ((1, 1), (100 * num_beams, 1), (8192, -1)):
        translator.batch_tokens = batch_tokens
        found = translator.search(sentences[::order])[::order]
        for translation, other in zip(expected, found):
            assert translation.token_ids == other.token_ids
            assert translation.score == pytest.approx(other.score, abs=1e-4)
