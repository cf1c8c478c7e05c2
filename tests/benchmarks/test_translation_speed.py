"""The benchmark of translation beside other engines."""

import pytest

pytestmark = pytest.mark.only_on("tensorflow", reason="graphs of TensorFlow")
OURS = "relative-attention"


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
