"""Several folders are loaded as one translator."""

import shutil

import numpy as np
import pytest

import relative_attention as ra
from tests.small_models import make_model

pytestmark = pytest.mark.usefixtures("eagerly")


def test_list_of_folders_is_an_ensemble_with_the_settings_of_the_first(
    several, joined
):
    assert isinstance(joined.model, ra.Ensemble)
    assert (joined.num_beams, joined.max_extra_length) == (2, 4)
    for model, name in zip(joined.model.models, "abc", strict=True):
        alone = ra.load_translator(several / name).model
        assert model.config == alone.config
        for weight, expected in zip(model.weights, alone.weights, strict=True):
            np.testing.assert_array_equal(weight, expected)
    assert joined.translate(["dogs", ""])[1] == ""


def test_given_settings_replace_those_of_the_first_folder(several):
    translator = ra.load_translator(
        (several / "b", str(several / "a")), num_beams=1
    )
    assert translator.num_beams == 1
    assert len(translator.model.models) == 2
    # A list of one is that model.
    translator = ra.load_translator([several / "c"])
    assert isinstance(translator.model, ra.Transformer)


def test_vocabularies_of_two_files_are_compared_side_by_side(
    several, rng, tmp_path
):
    """The same pieces, once as a joint vocabulary and once as two files."""
    joint = ra.load_translator(several / "a")
    pieces = joint.vocabulary
    model = make_model(
        rng, source_vocabulary_size=len(pieces), share_embeddings="none"
    )
    two = ra.Translator(model, pieces, ra.Vocabulary(pieces.model))
    ra.save_translator(two, tmp_path / "two")
    assert (tmp_path / "two" / "source_vocabulary.model").exists()
    together = ra.load_translator([several / "a", tmp_path / "two"])
    assert together.translate([""]) == [""]


# === What is refused ===


def test_models_whose_vocabularies_differ_are_both_named(several):
    with pytest.raises(
        ra.InputError, match="must have the same vocabulary"
    ) as error:
        ra.load_translator([several / n for n in ("a", "b", "stranger")])
    message = str(error.value)
    assert f"{several / 'a'} and {several / 'stranger'}" in message
    assert str(several / "b") not in message
    assert "\n" not in message


def test_models_that_start_with_other_ids_are_both_named(several, tmp_path):
    folder = shutil.copytree(several / "b", tmp_path / "other_start")
    config = (folder / "config.json").read_text()
    assert '"start_token_id": 0' in config
    (folder / "config.json").write_text(
        config.replace('"start_token_id": 0', '"start_token_id": 3')
    )
    with pytest.raises(ra.InputError, match="start .* with 0, .* with 3"):
        ra.load_translator([several / "a", folder])


def test_missing_folders_are_refused(several):
    with pytest.raises(ra.InputError, match="at least one trained model"):
        ra.load_translator([])
    with pytest.raises(ra.InputError, match="No model directory at .*absent"):
        ra.load_translator([several / "a", several / "absent"])


def test_scores_of_one_member_in_half_precision_stay_finite(several):
    models = [
        ra.load_translator(several / "a").model,
        ra.load_translator(several / "b", dtype="float16").model,
    ]
    vocabulary = ra.load_translator(several / "a").vocabulary
    scores = ra.score_translations(
        ra.Translator(ra.Ensemble(models), vocabulary),
        ["two red dogs"],
        ["a man"],
    )
    wanted = ra.score_translations(
        ra.load_translator([several / "a", several / "b"]),
        ["two red dogs"],
        ["a man"],
    )
    np.testing.assert_allclose(
        scores[0].log_probability, wanted[0].log_probability, rtol=1e-2
    )


def test_settings_out_of_range_are_not_saved(several, tmp_path):
    translator = ra.load_translator(several / "a")
    translator.max_extra_length = 200_000
    with pytest.raises(ValueError, match="`max_extra_length` must be at most"):
        ra.save_translator(translator, tmp_path / "saved")
    assert not (tmp_path / "saved").exists()
