"""Graphs of a model, and when they are traced."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.compiled import compiled_functions
from relative_attention.decoding.compiled import run_compiled

SOURCE = np.array([[5, 11, 2, 8, 1]])


def make_small_model(seed=53):
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=12,
        intermediate_dim=14,
        num_heads=2,
        max_relative_position=2,
        normalize_first=False,
    )
    rng = np.random.default_rng(seed)
    for weight in model.weights:
        weight.assign(rng.normal(0, 0.5, weight.shape))
    return model


@pytest.fixture
def model():
    return make_small_model()


def score_with(model, vocabulary):
    (score,) = ra.score_translations(
        ra.Translator(model, vocabulary), ["5 11 2 8"], ["7 3 9"]
    )
    return score.log_probability


@pytest.fixture
def score(numbers):
    return lambda model: score_with(model, numbers())


def search(model):
    return float(ra.beam_search(model, SOURCE, max_length=3)["scores"][0, 0])


def draw(model):
    """The likeliest tokens, so that no number is on the edge of another."""
    results = ra.sample(model, SOURCE, seed=3, max_length=3, top_k=1)
    return float(results["scores"][0, 0])


class Model:
    """Anything to keep graphs with."""

    factor = 2


class Inputs(NamedTuple):
    values: tf.Tensor
    missing: tf.Tensor | None = None


def test_function_is_traced_once_for_a_structure_and_options():
    num_traces = []

    def double(model, inputs, more):
        num_traces.append(1)
        if inputs.missing is not None:
            more = more + inputs.missing
        return inputs.values * model.factor + more

    def run(*tensors, more=1):
        inputs = Inputs(*map(tf.constant, tensors))
        return run_compiled(double, model, inputs, more=more).numpy().tolist()

    model = Model()
    assert run([3, 4]) == [7, 9]
    # Another number of another length, not of another graph.
    assert run([5]) == [11]
    assert len(num_traces) == 1
    assert run([5], 100) == [111]
    assert run([5], more=2) == [12]
    assert len(num_traces) == 3
    # The graphs are those of this model alone.
    model = Model()
    assert run([3, 4]) == [7, 9]
    assert len(num_traces) == 4


def test_graphs_of_many_models_bring_no_warning(monkeypatch):
    messages = []
    monkeypatch.setattr(
        tf.get_logger(), "warning", lambda *args: messages.append(args)
    )
    for _ in range(7):
        inputs = Inputs(tf.constant([3, 4]))
        run_compiled(lambda model, inputs: inputs.values, Model(), inputs)
    assert messages == []


@pytest.fixture(scope="module")
def searched_model(numbers):
    """A model that has a graph of its scores."""
    model = make_small_model()
    return model, score_with(model, numbers())


def test_weights_that_changed_are_used(searched_model, score):
    model, before = searched_model
    weights = model.get_weights()
    model.set_weights([weight + 0.1 for weight in weights])
    assert abs(score(model) - before) > 1e-3
    model.set_weights(weights)
    assert score(model) == pytest.approx(before, abs=1e-6)


def test_model_can_be_saved_after_a_search(
    searched_model, score, tmp_path, eagerly
):
    model, before = searched_model
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert score(loaded) == pytest.approx(before, abs=1e-5)


# === A model that changes ===


def adapted_layers(model):
    return (
        model.encoder_blocks[0].self_attention.query_dense,
        model.decoder_blocks[0].self_attention.value_dense,
        model.decoder_blocks[0].feed_forward.output_dense,
    )


def enable_lora(model):
    rng = np.random.default_rng(7)
    for layer in adapted_layers(model):
        layer.enable_lora(2)
        layer.lora_kernel_b.assign(rng.normal(size=layer.lora_kernel_b.shape))


def quantize(model):
    model.decoder_blocks[0].feed_forward.output_dense.quantize("int8")


def set_a_dtype_policy(model):
    model.decoder_blocks[0].feed_forward.output_dense.dtype_policy = "bfloat16"


@pytest.mark.parametrize(
    "change",
    [quantize, enable_lora, set_a_dtype_policy],
    ids=lambda change: change.__name__,
)
@pytest.mark.parametrize("wrap", [lambda m: m, lambda m: ra.Ensemble([m])])
def test_compiled_functions_go_when_the_model_changed(model, change, wrap):
    wrapped = wrap(model)
    kept = compiled_functions(wrapped)
    kept["search"] = "compiled"
    assert compiled_functions(wrapped) is kept
    change(model)
    assert compiled_functions(wrapped) == {}


def check(model, change, functions):
    before = [function(model) for function in functions]
    change(model)
    after = [function(model) for function in functions]
    tf.config.run_functions_eagerly(True)
    try:
        expected = [function(model) for function in functions]
    finally:
        tf.config.run_functions_eagerly(False)
    assert after == pytest.approx(expected, abs=1e-5)
    assert all(abs(a - b) > 1e-4 for a, b in zip(after, before))


@pytest.mark.large
@pytest.mark.parametrize(
    "change",
    [quantize, enable_lora],
    ids=lambda change: change.__name__,
)
def test_change_is_honoured_in_search_sampling_and_scores(model, score, change):
    check(model, change, [search, draw, score])


def test_what_training_keeps_with_a_model_is_no_change(model):
    ids = np.array([[5, 11, 1]])
    batch = {"source_token_ids": ids, "target_token_ids": ids}
    kept = compiled_functions(model)
    model.compile(
        optimizer="sgd", loss=ra.MaskedCrossEntropy(), run_eagerly=True
    )
    model.fit(batch, ids, verbose=0)
    model.stop_training = True
    assert compiled_functions(model) is kept
