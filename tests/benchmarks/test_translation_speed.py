"""The benchmark of translation beside other engines."""

import pytest

from benchmarks.decoding import translation_speed
from benchmarks.harness import opennmt_tf

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")
OURS = "relative-attention"


def turn(speed, *translations):
    return {"speed": speed, "sentences": 2, "translations": [*translations]}


@pytest.mark.parametrize("has_peer", [False, True])
def test_ratios_and_translations_are_compared_with_the_base(has_peer):
    other = opennmt_tf.NAME if has_peer else "other"
    turns = {
        (OURS, 1, 2): [turn(2.0, "a", "b"), turn(4.0, "a", "b")],
        (other, 1, 2): [turn(4.0, "a", "c"), turn(4.0, "a", "c")],
    }
    if has_peer:
        # It gives ids, which are not compared.
        for each in turns[other, 1, 2]:
            del each["translations"]
    memory = {OURS: 10, other: 20}
    first, second = translation_speed._rows(turns, memory, mean_tokens=5.0)
    assert first["base"] == second["base"] == (other if has_peer else OURS)
    assert first["ratio_to_base"] == ([0.5, 1.0] if has_peer else [1.0, 1.0])
    assert second["ratio_to_base"] == ([1.0, 1.0] if has_peer else [2.0, 1.0])
    assert first["output_tokens_per_second"] == 3.0 * 5
    assert second["same_as_ours"] == (None if has_peer else 1)
    assert second["peak_memory_bytes"] == 20


def test_a_model_of_another_size_is_refused_before_any_work(
    monkeypatch, model_folder, source
):
    pytest.importorskip("ctranslate2", reason="the extra is missing")
    # What a new process would do, in this one.
    monkeypatch.setattr(
        translation_speed, "in_fresh_process", lambda f, *args: f(*args)
    )
    monkeypatch.setattr(opennmt_tf, "prepare_environment", pytest.fail)
    arguments = [str(model_folder), "--source", str(source)]
    with pytest.raises(SystemExit) as error:
        translation_speed.main([*arguments, "--peer", "opennmt-tf"])
    (line,) = str(error.value).splitlines()
    assert line.startswith("error: With `--peer`, the model must have the")
    assert "hidden_dim=4 instead of 256" in line
    assert "dropout" not in line and "vocabulary_size" not in line


@pytest.mark.large
def test_translation_speed(run_command, model_folder, source):
    pytest.importorskip("ctranslate2", reason="the extra is missing")
    result, printed = run_command(
        "decoding.translation_speed",
        model_folder,
        *("--source", source, "--rounds", 1, "--threads", 1),
        *("--batch-sizes", 2, "--beams", 1),
    )
    assert [row["engine"] for row in result.rows] == [
        OURS,
        "its SavedModel",
        "CTranslate2, float32",
        "--engine ctranslate2, float32",
        "CTranslate2, int8",
        "--engine ctranslate2, int8",
    ]
    assert result.rows[1]["same_as_ours"] == 2
    assert "2 of 2 translations of its SavedModel" in printed
    assert "beam 1, batch 2, int8: --engine ctranslate2 takes" in printed
