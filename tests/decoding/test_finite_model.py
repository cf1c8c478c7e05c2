"""A model whose weights or logits are no numbers."""

import numpy as np
import pytest

import relative_attention as ra

# What is not finite is the same as a graph.
pytestmark = pytest.mark.usefixtures("eagerly")

SOURCES = ["5 11", "3", "4 9 9"]


@pytest.fixture(scope="module")
def shared_translator(numbers):
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=12,
        intermediate_dim=14,
        num_heads=2,
    )
    return ra.Translator(model, numbers(), num_beams=2, max_length=5)


@pytest.fixture
def translator(shared_translator):
    """A translator whose weights are put back after the test."""
    weights = shared_translator.model.get_weights()
    yield shared_translator
    shared_translator.model.set_weights(weights)


USES = {
    "translate": lambda translator: translator.translate(SOURCES),
    "sample": lambda translator: translator.sample(SOURCES, seed=1),
    "score": lambda translator: ra.score_translations(
        translator, SOURCES, SOURCES
    ),
}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_weight_that_is_not_finite_is_named(translator, use, value):
    weight = translator.model.decoder_blocks[0].feed_forward.output_dense.bias
    array = np.zeros(weight.shape)
    array[3] = value
    weight.assign(array)
    with pytest.raises(ra.InputError) as raised:
        use(translator)
    assert f"{weight.path.split('/', 1)[1]} holds nan or inf" in str(
        raised.value
    )


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_logits_that_overflow_are_an_error(translator, use):
    embeddings = translator.model.target_embedding.embeddings
    # Row 4 alone: a logit is infinite, every weight is finite.
    array = np.ones(embeddings.shape)
    array[4] = 3e38
    embeddings.assign(array)
    norm = translator.model.decoder_norm
    norm.beta.assign(np.full(12, 5.0))
    with pytest.raises(ra.InputError, match="logits .* must be finite"):
        use(translator)


def test_one_broken_sentence_is_enough(translator):
    embeddings = translator.model.source_embedding.embeddings
    array = np.asarray(embeddings).copy()
    array[9] = np.nan
    embeddings.assign(array)
    shared = translator.model.source_embedding
    assert shared is translator.model.target_embedding
    with pytest.raises(ra.InputError, match="embeddings holds nan"):
        translator.translate(SOURCES)
