"""A model of our layers in LiteRT, by `export(format="litert")` of Keras."""

import keras
import numpy as np
import pytest

import relative_attention as ra

pytestmark = [
    pytest.mark.only_on("tensorflow", reason="its converter is TensorFlow's"),
    pytest.mark.skipif(
        tuple(map(int, keras.__version__.split(".")[:2])) < (3, 13),
        reason="`export` knows LiteRT since Keras 3.13",
    ),
    # TensorFlow's interpreter is deprecated for one in a package of its own.
    pytest.mark.filterwarnings("ignore::UserWarning"),
]

V, D, N, H, K = 11, 6, 2, 4, 3
ATTENTION = {
    "no relations": lambda: ra.SelfAttention(N, H),
    "relative": lambda: ra.RelativeSelfAttention(N, H, K),
    "a table for each head": lambda: ra.RelativeSelfAttention(
        N, H, K, share_relations_across_heads=False
    ),
    "global": lambda: ra.RelativeGlobalAttention(
        N, H, K, use_value_relations=True
    ),
}


@pytest.mark.parametrize("length", [None, 9])
@pytest.mark.parametrize("name", ATTENTION)
def test_numbers_are_those_of_the_model(rng, tmp_path, name, length):
    import tensorflow as tf

    attention = ATTENTION[name]()
    token_ids = keras.Input((length,), dtype="int32")
    hidden = ra.TokenEmbedding(V, D)(token_ids)
    outputs = ra.TransformerEncoderBlock(attention, ra.layers.FeedForward(7))(
        hidden
    )
    model = keras.Model(token_ids, outputs)
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    # By `"auto"`, which LiteRT cannot run.
    lengths = [1, 2, K + 1, 9, 40] if length is None else [length]
    batches = [rng.integers(0, V, (2, n)).astype("int32") for n in lengths]
    expected = [np.array(model(batch)) for batch in batches]

    attention.implementation = "transpose"
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
