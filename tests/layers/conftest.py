"""What every layer owes to Keras, checked in one way."""

import json

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seed():
    """The same initial values whenever a test runs, and in any order."""
    keras.utils.set_random_seed(1803)


def _assert_close(results, expected, **tolerance):
    results, expected = (
        keras.tree.flatten(structure) for structure in (results, expected)
    )
    assert len(results) == len(expected)
    for result, wanted in zip(results, expected):
        np.testing.assert_allclose(
            keras.ops.cast(result, "float32"), wanted, **tolerance
        )


@pytest.fixture
def run_layer_test(tmp_path):
    """Weights, shapes, config, `.keras` file, half precision, one fit step.

    `run_layer_test(layer, inputs, num_weights)` with a list of arrays; any
    other argument is a call argument.
    """

    def run(layer, inputs, num_weights, **arguments):
        expected = layer(*inputs, **arguments)
        assert layer.built
        assert len(layer.trainable_weights) == num_weights
        assert len({w.path for w in layer.trainable_weights}) == num_weights

        symbols = [
            keras.Input(array.shape[1:], dtype=array.dtype.name)
            for array in inputs
        ]
        symbolic = layer(*symbols, **arguments)
        for symbol, eager in zip(
            keras.tree.flatten(symbolic),
            keras.tree.flatten(expected),
            strict=True,
        ):
            assert symbol.shape == (None, *eager.shape[1:])
            assert symbol.dtype == keras.backend.standardize_dtype(eager.dtype)

        config = layer.get_config()
        clone = type(layer).from_config(json.loads(json.dumps(config)))
        # Called first: the config of a layer inside tells whether it is built.
        clone(*inputs, **arguments)
        assert json.dumps(clone.get_config()) == json.dumps(config)
        clone.set_weights(layer.get_weights())
        _assert_close(clone(*inputs, **arguments), expected, rtol=0)

        model = keras.Model(symbols, symbolic)
        path = tmp_path / "model.keras"
        model.save(path)
        loaded = keras.saving.load_model(path)
        _assert_close(loaded(inputs), expected, rtol=0)

        # Processors without bfloat16 round every partial sum to its 8 bits.
        for dtype, tolerance in (("float16", 1e-2), ("bfloat16", 4e-2)):
            half_config = {**config, "dtype": f"mixed_{dtype}"}
            half = _with_policy(type(layer), half_config)
            half_outputs = half(*inputs, **arguments)
            half.set_weights(layer.get_weights())
            assert all(
                weight.dtype == "float32" for weight in half.trainable_weights
            )
            half_outputs = half(*inputs, **arguments)
            for output in keras.tree.flatten(half_outputs):
                assert keras.backend.standardize_dtype(output.dtype) == dtype
            # Of the largest where it is over 1: the error of a sum is that
            # of its largest terms.
            for result, wanted in zip(
                keras.tree.flatten(half_outputs), keras.tree.flatten(expected)
            ):
                result = np.array(keras.ops.cast(result, "float32"))
                wanted = np.array(wanted)
                largest = max(1, np.abs(wanted).max())
                assert np.abs(result - wanted).max() < tolerance * largest

        if num_weights:
            model.compile(keras.optimizers.SGD(1.0), "mse", run_eagerly=True)
            before = layer.get_weights()
            rows = keras.tree.map_structure(
                lambda output: np.ones(output.shape, "float32"), expected
            )
            model.fit(inputs, rows, batch_size=len(inputs[0]), verbose=0)
            for old, weight in zip(before, layer.weights):
                if weight.trainable:
                    assert (old != np.array(weight)).any(), weight.path

    return run


def _with_policy(cls, config):
    """A layer of that config, its sublayers of the same dtype policy."""
    dtype = config["dtype"]

    def replace(value):
        if isinstance(value, dict):
            return {
                key: dtype if key == "dtype" else replace(item)
                for key, item in value.items()
            }
        return value

    return cls.from_config(replace(config))
