"""Graphs of a model, and when they are traced."""

from typing import NamedTuple

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.compiled import compiled_functions
from relative_attention.decoding.compiled import run_compiled
from tests.decoding.known_models import Numbers
from tests.decoding.known_models import make_model

SOURCE = np.array([[5, 11, 2, 8, 1]])


@pytest.fixture
def model():
    return make_model(normalize_first=False)


def score(model):
    (score,) = ra.score_translations(
        ra.Translator(model, Numbers()), ["5 11 2 8"], ["7 3 9"]
    )
    return score.log_probability


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


def test_weights_that_changed_are_used_and_a_file_holds_no_graph(
    model, tmp_path, eagerly, as_graph
):
    before = score(model)
    weights = model.get_weights()
    model.set_weights([weight + 0.1 for weight in weights])
    assert abs(score(model) - before) > 1e-3
    model.set_weights(weights)
    assert score(model) == pytest.approx(before, abs=1e-6)
    model.save(tmp_path / "model.keras")
    tf.config.run_functions_eagerly(True)
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert score(loaded) == pytest.approx(before, abs=1e-5)


# === A model that changes ===


def enable_lora(model):
    rng = np.random.default_rng(7)
    for layer in (
        model.encoder_blocks[0].self_attention.query_dense,
        model.decoder_blocks[0].feed_forward.output_dense,
    ):
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
@pytest.mark.parametrize("is_ensemble", [False, True])
def test_compiled_functions_go_when_the_model_changed(
    model, change, is_ensemble
):
    wrapped = ra.Ensemble([model]) if is_ensemble else model
    kept = compiled_functions(wrapped)
    kept["search"] = "compiled"
    # What training keeps with a model is no change.
    model.compile("sgd", ra.MaskedCrossEntropy())
    model.stop_training = True
    assert compiled_functions(wrapped) is kept
    change(model)
    assert compiled_functions(wrapped) == {}
