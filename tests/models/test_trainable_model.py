"""What `fit`, `evaluate` and `save` do with a model, whatever it computes."""

import warnings

import keras
import numpy as np
import pytest

import relative_attention as ra
from tests.words_model import Words
from tests.words_model import batch_of


@pytest.fixture
def data():
    return batch_of(4)[:2]


def compiled(**options):
    keras.utils.set_random_seed(1)
    model = Words()
    model.compile(keras.optimizers.SGD(0.1), ra.MaskedCrossEntropy(), **options)
    return model


# === What is shown ===

SHOWN = {"loss", "tokens"}
OF_UPDATES = {"gradient_norm", "skipped"}


def shown_of_training():
    has_own_step = keras.backend.backend() in ("tensorflow", "jax")
    return SHOWN | (OF_UPDATES if has_own_step else set())


def test_validation_says_nothing_of_updates(data):
    model = compiled(run_eagerly=True)
    history = model.fit(
        *data, validation_data=data, epochs=2, verbose=0
    ).history
    assert history.keys() == shown_of_training() | {
        f"val_{name}" for name in SHOWN
    }
    assert history["val_tokens"] == history["tokens"]


@pytest.mark.parametrize("run_eagerly", [False, True])
def test_evaluation_says_nothing_of_updates(data, run_eagerly):
    model = compiled(run_eagerly=run_eagerly)
    model.train_on_batch(*data)
    for logs in (
        model.evaluate(*data, batch_size=3, verbose=0, return_dict=True),
        model.test_on_batch(*data, return_dict=True),
    ):
        assert logs.keys() == SHOWN
    # Of all batches, not of the last one.
    logs = model.evaluate(*data, batch_size=1, verbose=0, return_dict=True)
    inputs, labels = data
    assert logs["tokens"] == sum(
        (ids != 0).sum() for ids in (inputs["source_token_ids"], labels)
    )
    np.testing.assert_allclose(
        logs["loss"],
        model.evaluate(*data, verbose=0, return_dict=True)["loss"],
        rtol=1e-5,
    )


# === What a saved model is compiled with ===


def reloaded(model, tmp_path):
    model.save(tmp_path / "model.keras")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return keras.saving.load_model(tmp_path / "model.keras")


@pytest.mark.only_on("tensorflow", "jax", reason="parts of a batch")
def test_saved_model_takes_as_many_parts(data, tmp_path):
    model = compiled(accumulation_steps=3, run_eagerly=True)
    loaded = reloaded(model, tmp_path)
    assert loaded.accumulation_steps == 3
    # And when it is saved and loaded again.
    assert reloaded(loaded, tmp_path).accumulation_steps == 3
    for each in (model, loaded):
        each.fit(*data, verbose=0)
    for weight, expected in zip(loaded.get_weights(), model.get_weights()):
        np.testing.assert_array_equal(weight, expected)


def test_saved_model_is_compiled_as_it_was(data, tmp_path):
    model = compiled(
        loss_weights=0.5, steps_per_execution=2, auto_scale_loss=False
    )
    config = reloaded(model, tmp_path).get_compile_config()
    assert config == model.get_compile_config()
    assert config["auto_scale_loss"] is False
    assert config["steps_per_execution"] == 2
    assert config["loss_weights"] == 0.5


@pytest.mark.parametrize("jit_compile", ["auto", False, True])
def test_saved_model_chooses_xla_anew_where_it_is_loaded(jit_compile, tmp_path):
    if keras.backend.backend() == "torch" and jit_compile is True:
        pytest.skip("torch.compile takes a while")
    model = compiled(jit_compile=jit_compile)
    config = model.get_compile_config()
    assert config["jit_compile"] == jit_compile
    loaded = reloaded(model, tmp_path)
    assert loaded.get_compile_config()["jit_compile"] == jit_compile
    assert loaded.jit_compile == model.jit_compile


def test_model_that_was_not_compiled_is_saved_so(tmp_path):
    assert Words().get_compile_config() == {}
    assert not reloaded(Words(), tmp_path).compiled


@pytest.mark.only_on("torch", reason="the others take parts")
def test_model_of_another_backend_trains_whole_batches(data, tmp_path):
    model = compiled()
    config = {**model.get_compile_config(), "accumulation_steps": 3}
    with pytest.warns(UserWarning, match="accumulation_steps=3"):
        model.compile_from_config(config)
    assert model.accumulation_steps == 1


def test_option_that_is_gone_is_dropped_with_a_warning():
    model = compiled()
    two_views = {"kind": "r_drop", "weight": 5.0}
    config = {**model.get_compile_config(), "consistency": two_views}
    with pytest.warns(UserWarning, match="51ab9de"):
        model.compile_from_config(config)
    assert "consistency" not in model.get_compile_config()
