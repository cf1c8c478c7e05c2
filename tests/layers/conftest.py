"""A reference for attention, and what every layer owes to Keras."""

import json

import keras
import numpy as np
import pytest


@pytest.fixture(autouse=True)
def seed():
    """The same initial values whenever a test runs, and in any order."""
    keras.utils.set_random_seed(1803)


@pytest.fixture
def randomize(rng):
    """`randomize(layer)`: all weights random, biases and tables too."""

    def assign(layer):
        for weight in layer.trainable_weights:
            weight.assign(rng.normal(size=weight.shape) / 2)
        return layer

    return assign


@pytest.fixture
def weights_of():
    """`weights_of(layer)`: by name (`query/kernel`, ...), in float64."""

    def weights(layer):
        return {
            "/".join(weight.path.split("/")[1:]): np.array(weight, "float64")
            for weight in layer.trainable_weights
        }

    return weights


@pytest.fixture
def paper_attention():
    """Attention with edges (Shaw et al. 2018, section 3.1) in float64.

    `paper_attention(weights, inputs, rows, mask)`, where `weights` is what
    `weights_of` gives, `rows` int `(T, T)` or `(B, T, T)` the row of the
    relation tables for each edge, negative for none, and `mask` bool, to be
    broadcast to `(B, T, T)`. Returns outputs and scores.
    """
    return _paper_attention


def _paper_attention(weights, inputs, rows, mask=True):
    def project(name):
        heads = np.einsum("btd,dnh->bnth", inputs, weights[f"{name}/kernel"])
        bias = weights.get(f"{name}/bias")
        return heads if bias is None else heads + bias[:, None]

    batch_size, length, _ = inputs.shape
    rows = np.broadcast_to(rows, (batch_size, length, length))

    def edges(kind):
        """The representation of each edge, `(B, N, T, T, H)`."""
        table = weights.get(f"{kind}_relation_embeddings")
        if table is None:
            return 0
        table = table if table.ndim == 3 else table[None]
        chosen = table[:, np.maximum(rows, 0)].swapaxes(0, 1)
        return np.where(rows[:, None, :, :, None] < 0, 0, chosen)

    query, key, value = map(project, ("query", "key", "value"))
    keys = key[:, :, None] + edges("key")  # x_j W^K + a_ij^K
    values = value[:, :, None] + edges("value")  # x_j W^V + a_ij^V
    logits = (query[:, :, :, None] * keys).sum(-1) / query.shape[-1] ** 0.5
    mask = np.broadcast_to(mask, rows.shape)[:, None]
    exponents = np.where(mask, np.exp(logits), 0)
    scores = exponents / exponents.sum(-1, keepdims=True)
    context = (scores[..., None] * values).sum(-2)
    outputs = np.einsum("bnth,nhd->btd", context, weights["output/kernel"])
    return outputs + weights.get("output/bias", 0), scores


@pytest.fixture
def assert_gradients_of_paper(rng, gradients, weights_of):
    """Compares gradients with finite differences of `paper_attention`.

    `assert_gradients_of_paper(call, layer, inputs, rows, mask)`, where `call`
    takes the inputs. Returns the gradients of weights by name.
    """

    def check(call, layer, inputs, rows, mask=True, step=1e-5):
        upstream = rng.normal(size=inputs.shape).astype("float32")
        of_inputs, *results = gradients(
            lambda x: keras.ops.sum(keras.ops.multiply(call(x), upstream)),
            [inputs],
            layer.trainable_weights,
        )
        weights = weights_of(layer)
        results = dict(zip(weights, results, strict=True))
        for name, result in {"inputs": of_inputs, **results}.items():
            direction = rng.normal(size=result.shape)
            losses = []
            for moved in (step * direction, -step * direction):
                outputs, _ = _paper_attention(
                    {**weights, name: weights.get(name, 0) + moved},
                    inputs + (moved if name == "inputs" else 0),
                    rows,
                    mask,
                )
                losses.append((outputs * upstream).sum())
            np.testing.assert_allclose(
                (result * direction).sum(),
                (losses[0] - losses[1]) / (2 * step),
                rtol=1e-4,
                atol=1e-4,
                err_msg=name,
            )
        return results

    return check


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

        _check_half_precision(layer, inputs, arguments, expected)

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


def _check_half_precision(layer, inputs, arguments, expected):
    # Processors without bfloat16 round every partial sum to its 8 bits.
    for dtype, tolerance in (("float16", 1e-2), ("bfloat16", 4e-2)):
        config = {**layer.get_config(), "dtype": f"mixed_{dtype}"}
        half = _with_policy(type(layer), config)
        half(*inputs, **arguments)
        half.set_weights(layer.get_weights())
        assert all(
            weight.dtype == "float32" for weight in half.trainable_weights
        )
        half_outputs = half(*inputs, **arguments)
        for output in keras.tree.flatten(half_outputs):
            assert keras.backend.standardize_dtype(output.dtype) == dtype
        # Of the largest where it is over 1: the error of a sum is that of its
        # largest terms.
        for result, wanted in zip(
            keras.tree.flatten(half_outputs), keras.tree.flatten(expected)
        ):
            result = np.array(keras.ops.cast(result, "float32"))
            wanted = np.array(wanted)
            largest = max(1, np.abs(wanted).max())
            assert np.abs(result - wanted).max() < tolerance * largest
