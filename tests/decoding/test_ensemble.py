"""An ensemble gives the mean of its models' probabilities, everywhere.

The reference is the formula in float64, of one pass of each whole model.
"""

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import SENTENCES
from tests.decoding.known_models import Numbers
from tests.decoding.known_models import arrays
from tests.decoding.known_models import beam_search
from tests.decoding.known_models import log_probs
from tests.decoding.known_models import make_model
from tests.decoding.known_models import padded
from tests.decoding.test_beam_search_definition import assert_is_the_definition

# Most searches here are shorter than their graph takes to be made.
pytestmark = pytest.mark.usefixtures("eagerly")

# Of other widths, depths, positions and clipping distances than the first.
OTHERS = (
    {"seed": 7, "max_relative_position": 5, "num_decoder_layers": 2},
    {
        "seed": 8,
        "hidden_dim": 12,
        "intermediate_dim": 10,
        "num_heads": 2,
        "position_encoding": "sinusoidal",
    },
)


@pytest.fixture(scope="module")
def ensemble(peaked_model):
    others = (make_model(**fields) for fields in OTHERS)
    return ra.Ensemble([peaked_model, *others])


def test_logits_are_the_logarithm_of_the_mean_probability(ensemble):
    prefix = [7, 9, 2]
    inputs = {
        "source_token_ids": padded(SENTENCES),
        "target_token_ids": np.array([[4, *prefix]] * 3),
    }
    logits = np.asarray(ensemble(inputs))
    for sentence, row in zip(SENTENCES, logits):
        (wanted,) = log_probs(ensemble, sentence, [prefix])
        np.testing.assert_allclose(row, wanted, atol=1e-5)
    # It is no mean of logarithms, which another ensemble would have.
    geometric = np.mean(
        [keras.ops.log_softmax(m(inputs)) for m in ensemble.models], axis=0
    )
    assert np.abs(logits - geometric).max() > 0.1


def test_next_to_impossible_tokens_keep_their_digits():
    extreme = []
    for scale in (40.0, 80.0):
        model = make_model()
        embeddings = model.output_embedding.embeddings
        embeddings.assign(embeddings * scale)
        extreme.append(model)
    inputs = {
        "source_token_ids": np.array([SENTENCES[0]]),
        "target_token_ids": np.array([[4, 7, 9]]),
    }
    logits = [np.asarray(model(inputs), "float64") for model in extreme]
    mean = np.logaddexp.reduce(
        [row - np.logaddexp.reduce(row, -1, keepdims=True) for row in logits]
    ) - np.log(2)
    # Beyond what an exponential in float32 can hold.
    assert mean.min() < -200
    found = np.asarray(ra.Ensemble(extreme)(inputs))
    np.testing.assert_allclose(found, mean, rtol=1e-5, atol=1e-4)


@pytest.mark.large
def test_search_is_the_definition(ensemble, monkeypatch):
    # Caches are merged in between.
    monkeypatch.setattr(
        "relative_attention.decoding.model_steps._MERGE_EVERY", 2
    )
    assert_is_the_definition(ensemble, 3, 1)


@pytest.mark.large
def test_ensemble_of_one_model_is_that_model(peaked_model):
    def results(model):
        drawn = ra.sample(model, padded(SENTENCES), seed=2, max_length=10)
        found = beam_search(model, padded(SENTENCES))
        return [*found.values(), *arrays(drawn).values()]

    alone = ra.Ensemble([peaked_model])
    for one, other in zip(results(alone), results(peaked_model)):
        np.testing.assert_array_equal(one, other)


# === What is refused ===


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"vocabulary_size": 14}, "one `vocabulary_size`.* 13 of model 1, 14"),
        (
            {"source_vocabulary_size": 9, "share_embeddings": "none"},
            "`source_vocabulary_size`.* 9 of",
        ),
        ({"start_token_id": 2}, "`start_token_id`.* 4 of model 1, 2 of"),
    ],
    ids=str,
)
def test_models_of_other_vocabularies_are_refused(
    peaked_model, fields, message
):
    with pytest.raises(ValueError, match=message):
        ra.Ensemble([peaked_model, make_model(**fields)])


@pytest.mark.parametrize(
    "models, error, message",
    [
        ([], ValueError, r"at least one `Transformer`. Received: \[\]"),
        ("runs/a", TypeError, "a list of `Transformer`. Received: str"),
        ([None, 3], TypeError, r"Received: \[NoneType, int\]"),
    ],
    ids=str,
)
def test_wrong_model_is_named(models, error, message):
    with pytest.raises(error, match=message):
        ra.Ensemble(models)


def test_attention_is_refused_before_any_search(ensemble):
    for decode in (ra.beam_search, ra.sample):
        with pytest.raises(ra.InputError, match="Attention .* `models`"):
            decode(ensemble, padded(SENTENCES), return_attention=True)


def test_broken_member_is_named_by_its_number():
    models = [make_model(1), make_model(2)]
    weight = models[1].decoder_blocks[0].feed_forward.output_dense.bias
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(ra.InputError, match="feed_forward.* of model 2 holds"):
        beam_search(ra.Ensemble(models), padded(SENTENCES))


def test_folder_of_an_ensemble_is_refused(ensemble, tmp_path):
    translator = ra.Translator(ensemble, Numbers())
    with pytest.raises(ra.InputError, match="one `Transformer`.* of 3"):
        ra.save_translator(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())
