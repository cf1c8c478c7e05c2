"""A model of our layers in LiteRT, by `export(format="litert")` of Keras."""

import keras
import numpy as np
import pytest

import relative_attention as ra

pytestmark = [
    pytest.mark.large,
    pytest.mark.only_on("tensorflow", reason="its converter is TensorFlow's"),
    pytest.mark.skipif(
        tuple(map(int, keras.__version__.split(".")[:2])) < (3, 13),
        reason="`export` knows LiteRT since Keras 3.13",
    ),
    # TensorFlow's interpreter is deprecated for one in a package of its own.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

V, D, N, H, K = 11, 6, 2, 4, 3


@pytest.mark.parametrize("length", [None, 9])
def test_numbers_are_those_of_the_model(rng, tmp_path, length):
    import tensorflow as tf

    layers = [
        ra.SelfAttention(N, H),
        ra.RelativeSelfAttention(N, H, K),
        ra.RelativeSelfAttention(N, H, K, share_relations_across_heads=False),
        ra.RelativeGlobalAttention(N, H, K, use_value_relations=True),
    ]
    token_ids = keras.Input((length,), dtype="int32")
    hidden = ra.TokenEmbedding(V, D)(token_ids)
    outputs = []
    for layer in layers:
        block = ra.TransformerEncoderBlock(layer, ra.layers.FeedForward(7))
        outputs.append(block(hidden))
    model = keras.Model(token_ids, keras.ops.stack(outputs))
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    # By `"auto"`, which LiteRT cannot run.
    lengths = [1, 2, K + 1, 9, 40] if length is None else [length]
    batches = [rng.integers(0, V, (2, n)).astype("int32") for n in lengths]
    expected = [np.array(model(batch)) for batch in batches]

    for layer in layers:
        layer.implementation = "transpose"
    path = str(tmp_path / "model.tflite")
    model.export(path, format="litert", verbose=False)
    interpreter = tf.lite.Interpreter(path)
    (given,) = interpreter.get_input_details()
    (result,) = interpreter.get_output_details()
    for batch, wanted in zip(batches, expected):
        interpreter.resize_tensor_input(given["index"], batch.shape)
        interpreter.allocate_tensors()
        interpreter.set_tensor(given["index"], batch)
        interpreter.invoke()
        np.testing.assert_allclose(
            interpreter.get_tensor(result["index"]),
            wanted,
            rtol=1e-4,
            atol=1e-4,
        )
