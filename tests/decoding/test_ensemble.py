"""An ensemble gives the mean of its models' probabilities, everywhere.

The reference is the formula in float64, of one pass of each whole model, and
searches that look at every translation there is.
"""

import itertools

import keras
import numpy as np
import pytest

import relative_attention as ra

SENTENCES = [[5, 11, 2, 8, 1], [3, 1], [12, 4, 4, 9, 7, 6, 1]]
# Most searches here are shorter than their graph takes to be made.
pytestmark = pytest.mark.usefixtures("eagerly")


# All translations of so many tokens or fewer are looked at.
LONGEST = 3


SIZE = 13


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
def models(peaked_model, make_model):
    return [peaked_model, *(make_model(**fields) for fields in OTHERS)]


@pytest.fixture(scope="module")
def ensemble(models):
    return ra.Ensemble(models)


@pytest.fixture(scope="module")
def mean_log_probs(models, log_probs):
    """As `log_probs`, by the formula: the logarithm of the mean."""

    def mean_log_probs(sentence, prefixes):
        probabilities = [
            np.exp(log_probs(model, sentence, prefixes)) for model in models
        ]
        return np.log(np.mean(probabilities, axis=0))

    return mean_log_probs


@pytest.fixture(scope="module")
def all_translations(mean_log_probs):
    """`(log-probability, ids)` of every translation that ends in time."""

    def all_translations(sentence):
        found = []
        tokens = [token for token in range(SIZE) if token != 1]
        prefixes = list(itertools.product(tokens, repeat=LONGEST - 1))
        rows = mean_log_probs(sentence, prefixes)
        for prefix, row in zip(prefixes, rows):
            totals = [
                0.0,
                *np.cumsum([row[i, t] for i, t in enumerate(prefix)]),
            ]
            for length in range(LONGEST):
                # A shorter one is the start of many prefixes; once is enough.
                if not any(prefix[length:]):
                    found.append(
                        (totals[length] + row[length, 1], [*prefix[:length], 1])
                    )
        return found

    return all_translations


def numbers(results):
    return {name: np.asarray(value) for name, value in results.items()}


def search(model, rows, **settings):
    settings = {"num_beams": 3, "num_results": 3, "max_length": 10, **settings}
    return numbers(ra.beam_search(model, rows, **settings))


def test_logits_are_the_logarithm_of_the_mean_probability(
    ensemble, mean_log_probs, padded
):
    prefix = [7, 9, 2]
    inputs = {
        "source_token_ids": padded(SENTENCES),
        "target_token_ids": np.array([[4, *prefix]] * 3),
    }
    logits = np.asarray(ensemble(inputs))
    for sentence, row in zip(SENTENCES, logits):
        (wanted,) = mean_log_probs(sentence, [prefix])
        np.testing.assert_allclose(row, wanted, atol=1e-5)
    # It is no mean of logarithms, which another ensemble would have.
    geometric = np.mean(
        [keras.ops.log_softmax(m(inputs)) for m in ensemble.models], axis=0
    )
    assert np.abs(logits - geometric).max() > 0.1


def test_next_to_impossible_tokens_keep_their_digits(make_model):
    extreme = []
    for scale in (40.0, 80.0):
        model = make_model()
        model.output_embedding.embeddings.assign(
            model.output_embedding.embeddings * scale
        )
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


def test_wide_search_finds_the_best_of_all_translations(
    ensemble, all_translations, penalty, padded, until_end
):
    found = search(
        ensemble,
        padded(SENTENCES),
        # As many beams as there are prefixes: none is ever dropped.
        num_beams=(SIZE - 1) ** (LONGEST - 1),
        max_length=LONGEST,
    )
    for sentence, rows, scores in zip(
        SENTENCES, found["token_ids"], found["scores"]
    ):
        wanted = sorted(
            (
                (total / penalty(len(ids)), ids)
                for total, ids in all_translations(sentence)
            ),
            reverse=True,
        )[:3]
        assert [until_end(row) for row in rows] == [ids for _, ids in wanted]
        np.testing.assert_allclose(scores, [s for s, _ in wanted], atol=1e-4)


@pytest.mark.large
def test_cached_search_of_long_translations_scores_as_one_pass(
    ensemble, mean_log_probs, penalty, padded, until_end, as_graph
):
    # Longer than the 32 steps after which caches are merged.
    found = search(ensemble, padded(SENTENCES), min_length=36, max_length=40)
    for sentence, rows, scores in zip(
        SENTENCES, found["token_ids"], found["scores"]
    ):
        for row, score in zip(rows, scores):
            ids = until_end(row)
            assert len(ids) >= 36
            (log_probs,) = mean_log_probs(sentence, [ids[:-1]])
            total = log_probs[np.arange(len(ids)), ids].sum()
            if ids[-1] == 1:
                total /= penalty(len(ids))
            assert abs(score - total) < 1e-3


def test_one_model_is_itself_to_the_last_digit(peaked_model, padded):
    alone = ra.Ensemble([peaked_model])
    for one, other in zip(
        (search(alone, padded(SENTENCES)), draw(alone, padded(SENTENCES))),
        (
            search(peaked_model, padded(SENTENCES)),
            draw(peaked_model, padded(SENTENCES)),
        ),
    ):
        for name in one:
            np.testing.assert_array_equal(one[name], other[name])


def draw(model, rows):
    return numbers(ra.sample(model, rows, num_results=3, seed=2, max_length=10))


def test_copies_of_a_model_are_the_model(peaked_model, padded):
    copies = ra.Ensemble([peaked_model] * 3)
    assert len(copies.weights) == len(peaked_model.weights)
    one = search(copies, padded(SENTENCES))
    other = search(peaked_model, padded(SENTENCES))
    np.testing.assert_array_equal(one["token_ids"], other["token_ids"])
    np.testing.assert_allclose(one["scores"], other["scores"], atol=1e-5)


def test_scores_are_those_of_the_mean(
    ensemble, mean_log_probs, numbers_vocabulary
):
    translator = ra.Translator(ensemble, numbers_vocabulary())
    sources, targets = ["5 11 2 8", "3"], ["7 9", "2 2 2 10"]
    found = ra.score_translations(translator, sources, targets)
    for source, target, score in zip(sources, targets, found):
        ids = [*map(int, target.split()), 1]
        (rows,) = mean_log_probs([*map(int, source.split()), 1], [ids[:-1]])
        assert score.num_tokens == len(ids)
        wanted = rows[np.arange(len(ids)), ids].sum()
        assert abs(score.log_probability - wanted) < 1e-4


@pytest.fixture
def numbers_vocabulary(request):
    return request.getfixturevalue("numbers")


# === What is refused ===


@pytest.mark.parametrize(
    "fields, message",
    [
        ({"vocabulary_size": 14}, "one `vocabulary_size`.* 13 of model 1, 14"),
        ({"source_vocabulary_size": 9}, "`source_vocabulary_size`.* 9 of"),
        (
            {"start_token_id": 2},
            "`start_token_id`.* 4 of model 1, 2 of model 2",
        ),
    ],
    ids=str,
)
def test_models_of_other_vocabularies_are_refused(
    peaked_model, make_model, fields, message
):
    if "source_vocabulary_size" in fields:
        fields = {**fields, "share_embeddings": "none"}
    with pytest.raises(ValueError, match=message) as error:
        ra.Ensemble([peaked_model, make_model(**fields)])
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    "models, error, message",
    [
        ([], ValueError, r"at least one `Transformer`. Received: \[\]"),
        ("runs/a", TypeError, "a list of `Transformer`. Received: str"),
        ([None, 3], TypeError, r"Received: \[NoneType, int\]"),
    ],
    ids=str,
)
def test_what_is_no_model_is_named(models, error, message):
    with pytest.raises(error, match=message):
        ra.Ensemble(models)


def test_attention_is_refused_before_any_search(ensemble, padded):
    for decode in (ra.beam_search, ra.sample):
        with pytest.raises(ra.InputError, match="Attention .* `models`"):
            decode(ensemble, padded(SENTENCES), return_attention=True)


def test_broken_member_is_named_by_its_number(make_model, padded):
    models = [make_model(1), make_model(2)]
    weight = models[1].decoder_blocks[0].feed_forward.output_dense.bias
    weight.assign(np.full(weight.shape, np.nan))
    with pytest.raises(ra.InputError, match="feed_forward.* of model 2 holds"):
        search(ra.Ensemble(models), padded(SENTENCES))


def test_folder_of_an_ensemble_is_refused(
    ensemble, numbers_vocabulary, tmp_path
):
    translator = ra.Translator(ensemble, numbers_vocabulary())
    with pytest.raises(ra.InputError, match="one `Transformer`.* of 3"):
        ra.save_translator(translator, tmp_path / "model")
    assert not list(tmp_path.iterdir())
