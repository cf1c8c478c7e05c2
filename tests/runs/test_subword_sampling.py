"""Runs whose training text is spelt at random in every epoch."""

import io
import shutil

import numpy as np
import pytest
import sentencepiece

import relative_attention as ra
from relative_attention.models.weights import load_arrays
from tests.data.piece_models import model_of
from tests.export.tiny_models import make_model

# Four updates are a pass over the corpus.
SAMPLED = (
    "vocabulary.sampling=0.2",
    "training.batch_tokens=4096",
    "training.steps=6",
    "training.validate_every=6",
)


def assert_same_weights(folder, expected, step):
    for name in ("model", "training"):
        file = f"checkpoints/step-{step:08}/{name}.safetensors"
        arrays, others = (
            load_arrays(folder / file),
            load_arrays(expected / file),
        )
        assert arrays.keys() == others.keys()
        for key, array in arrays.items():
            np.testing.assert_array_equal(array, others[key], err_msg=key)


def test_resumed_run_sees_what_it_would_have_seen(quickly, tmp_path):
    lines = []
    quickly(tmp_path / "whole", *SAMPLED, report=lines.append)
    (steps,) = [line for line in lines if "updates a pass" in line]
    assert "; 4 updates a pass" in steps
    # After a pass, and in the middle of one.
    for stop in (4, 5):
        output = tmp_path / str(stop)
        quickly(output, *SAMPLED, f"training.steps={stop}")
        quickly(output, *SAMPLED, resume=True)
        assert_same_weights(output, tmp_path / "whole", 6)


def test_sampling_changes_what_is_learnt_from(quickly, quick_run, tmp_path):
    quickly(tmp_path / "run", "vocabulary.sampling=0.2")
    name = "checkpoints/step-00000004/model.safetensors"
    arrays, plain = (
        load_arrays(x / name) for x in (tmp_path / "run", quick_run)
    )
    assert any((array != plain[key]).any() for key, array in arrays.items())
    # The ids on disk are the plain ones.
    for side in ("source_ids", "target_ids"):
        file = f"cache/train/{side}.npy"
        np.testing.assert_array_equal(
            np.load(tmp_path / "run" / file), np.load(quick_run / file)
        )
    files = {
        path.relative_to(quick_run)
        for path in quick_run.rglob("*")
        if "events" not in path.name
    }
    found = {
        path.relative_to(tmp_path / "run")
        for path in (tmp_path / "run").rglob("*")
        if "events" not in path.name
    }
    assert found == files


def test_rate_of_a_run_stays(quickly, quick_run):
    with pytest.raises(ra.InputError, match="`vocabulary.sampling` 0.0, now"):
        quickly(quick_run, "vocabulary.sampling=0.1", resume=True)


def test_tokens_are_not_sampled(recipe):
    with pytest.raises(ra.InputError, match="`vocabulary.sampling` breaks"):
        recipe.override(["data.tokenized=true", "vocabulary.sampling=0.1"])


@pytest.mark.parametrize("rate", ["1", "-0.1", "nan", "a"])
def test_rate_is_checked(rate, recipe):
    with pytest.raises(ra.InputError, match="`vocabulary.sampling` must be"):
        recipe.override([f"vocabulary.sampling={rate}"])


def test_vocabulary_of_another_kind_loses_nothing(
    recipe, corpus, quick_run, tmp_path
):
    folder = shutil.copytree(corpus, tmp_path / "texts")
    model = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter((folder / "train.en").read_text().splitlines()),
        model_writer=model,
        vocab_size=120,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    (folder / "mine.model").write_bytes(model.getvalue())
    output = shutil.copytree(quick_run, tmp_path / "run")
    own = recipe.override(
        ["vocabulary.model=mine.model", "vocabulary.sampling=0.1"]
    )
    with pytest.raises(ra.InputError, match="byte pairs.*UNIGRAM"):
        ra.train(own, output, data_directory=folder, overwrite=True)
    assert (output / "model.safetensors").exists()


def test_teachers_vocabulary_is_asked_before_they_translate(
    recipe, corpus, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        ra.Translator, "search", lambda *_, **__: pytest.fail("it translates")
    )
    vocabulary = model_of(list("abcdefgh"), "UNIGRAM")
    rng = np.random.default_rng(1)
    model = make_model(rng, vocabulary_size=len(vocabulary))
    teacher = tmp_path / "teacher"
    ra.save_translator(ra.Translator(model, vocabulary), teacher)
    output = tmp_path / "student"
    for override, message in (
        ("vocabulary.sampling=0.1", "byte pairs.*UNIGRAM"),
        ("data.target_language=xx", "Received: 'xx'"),
    ):
        with pytest.raises(ra.InputError, match=message):
            ra.distill(
                recipe.override([override]),
                [teacher],
                output,
                data_directory=corpus,
            )
        assert not output.exists()
