"""The benchmark of translation beside other engines."""

import pytest

from benchmarks.decoding import translation_speed
from benchmarks.harness import opennmt_tf

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")
OURS = "relative-attention"


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "test.en"
    path.write_text("a man runs now\ntwo dogs\n")
    return path


def turn(speed, *translations):
    return {"speed": speed, "sentences": 2, "translations": [*translations]}


def test_ratios_and_translations_are_compared_with_the_package():
    turns = {
        (OURS, 1, 2): [turn(2.0, "a", "b"), turn(4.0, "a", "b")],
        ("other", 1, 2): [turn(4.0, "a", "c"), turn(4.0, "a", "c")],
    }
    memory = {OURS: 10, "other": 20}
    first, second = translation_speed._rows(turns, memory, mean_tokens=5.0)
    assert first["ratio_to_base"] == [1.0, 1.0]
    assert first["output_tokens_per_second"] == 3.0 * 5
    assert second["ratio_to_base"] == [2.0, 1.0]
    assert second["same_as_ours"] == 1
    assert second["base"] == OURS
    assert second["peak_memory_bytes"] == 20


def test_the_peer_is_the_base_where_it_runs():
    turns = {
        (OURS, 1, 2): [turn(6.0)],
        (opennmt_tf.NAME, 1, 2): [{"speed": 2.0, "sentences": 2}],
    }
    memory = {OURS: 10, opennmt_tf.NAME: 20}
    first, second = translation_speed._rows(turns, memory, mean_tokens=1.0)
    assert first["ratio_to_base"] == [3.0]
    # It gives ids, which are not compared.
    assert second["same_as_ours"] is None


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


def test_an_empty_text_is_refused(tmp_path):
    (tmp_path / "empty").write_text("")
    arguments = ["any_model", "--source", str(tmp_path / "empty")]
    with pytest.raises(SystemExit, match="^error: There is no line in"):
        translation_speed.main(arguments)


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
        "CTranslate2, int8",
    ]
    assert result.rows[1]["same_as_ours"] == 2
    assert "2 of 2 translations of its SavedModel" in printed
