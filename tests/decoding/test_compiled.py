"""Graphs of a model, and when they are traced."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
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


class Counted:
    """A model that counts the steps that Python takes: those of a graph once.

    It writes what `change` is, and its source never ends.
    """

    def __init__(self, change=2):
        self.change, self.num_steps = change, 0

    def start_cache(self, source_token_ids):
        return source_token_ids

    def decode_step(self, token_ids, cache, position, ancestors=None):
        self.num_steps += 1
        return 9.0 * tf.one_hot(0 * token_ids + self.change, 5), cache


def test_search_is_traced_once_for_its_inputs_and_options():
    model = Counted()

    def found(length, model=model, **options):
        rows = np.array([[3] * length + [1]])
        results = ra.beam_search(model, rows, max_extra_length=0, **options)
        ids = results["token_ids"].numpy()[0, 0, :length].tolist()
        return ids, model.num_steps

    ids, once = found(3)
    assert ids == [2] * 3
    # Another length, not another graph.
    assert found(5) == ([2] * 5, once)
    assert found(5, length_penalty=0.3) == ([2] * 5, once)
    _, more = found(3, num_beams=2)
    assert more > once
    assert found(3, target_prefix=[[4, 3]])[0][:2] == [4, 3]
    assert model.num_steps > more
    # The graphs are those of one model alone.
    assert found(3, model=Counted(4))[0] == [4] * 3
    assert found(3)[0] == [2] * 3


@pytest.mark.large
def test_graphs_of_many_models_bring_no_warning(monkeypatch):
    messages = []
    monkeypatch.setattr(
        tf.get_logger(), "warning", lambda *args: messages.append(args)
    )
    for _ in range(7):
        ra.beam_search(Counted(), [[3, 1]], num_beams=1, max_extra_length=0)
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
    "change, is_ensemble",
    [
        (enable_lora, False),
        pytest.param(enable_lora, True, marks=pytest.mark.large),
        pytest.param(quantize, False, marks=pytest.mark.large),
        pytest.param(quantize, True, marks=pytest.mark.large),
        pytest.param(set_a_dtype_policy, False, marks=pytest.mark.large),
        pytest.param(set_a_dtype_policy, True, marks=pytest.mark.large),
    ],
)
def test_search_is_of_the_model_as_it_is_when_it_changed(
    model, change, is_ensemble, as_graph
):
    wrapped = ra.Ensemble([model]) if is_ensemble else model

    def scores():
        settings = {"num_beams": 1, "max_extra_length": 0}
        return ra.beam_search(wrapped, SOURCE, **settings)["scores"].numpy()

    before = scores()
    # What training keeps with a model is no change.
    model.compile("sgd", ra.MaskedCrossEntropy())
    model.stop_training = True
    np.testing.assert_array_equal(scores(), before)
    change(model)
    found = scores()
    assert (found != before).all()
    tf.config.run_functions_eagerly(True)
    np.testing.assert_allclose(found, scores(), atol=1e-2)
