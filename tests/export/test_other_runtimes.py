"""Models with our layers in ONNX and LiteRT, by `export` of Keras.

Only TensorFlow has the operations that other runtimes lack.
"""

import keras
import numpy as np
import pytest

import relative_attention as ra

pytestmark = [
    pytest.mark.large,
    pytest.mark.only_on("tensorflow", reason="others have no such operations"),
    pytest.mark.skipif(
        tuple(map(int, keras.__version__.split(".")[:2])) < (3, 13),
        reason="`export` knows LiteRT since Keras 3.13",
    ),
    # Of both converters.
    pytest.mark.filterwarnings("ignore"),
]

V, D, N, H, K = 11, 6, 2, 4, 3
RUNTIMES = pytest.mark.parametrize("runtime", ["onnx", "litert"])


def computed_by(runtime, path, batches):
    """Computes the outputs of a file in its runtime, by the inputs' names."""
    if runtime == "onnx":
        onnxruntime = pytest.importorskip("onnxruntime")
        session = onnxruntime.InferenceSession(path)
        return [session.run(None, batch)[0] for batch in batches]
    interpreter = pytest.importorskip("ai_edge_litert.interpreter")
    runner = interpreter.Interpreter(path).get_signature_runner()
    return [[*runner(**batch).values()][0] for batch in batches]


def assert_exported(model, runtime, tmp_path, batches):
    expected = [np.array(model(batch)) for batch in batches]
    suffix = "tflite" if runtime == "litert" else "onnx"
    path = str(tmp_path / f"model.{suffix}")
    if runtime == "onnx":
        pytest.importorskip("tf2onnx")
    model.export(path, format=runtime, verbose=False)
    results = computed_by(runtime, path, batches)
    for result, wanted in zip(results, expected, strict=True):
        np.testing.assert_allclose(result, wanted, rtol=1e-4, atol=1e-4)


@RUNTIMES
@pytest.mark.parametrize("length", [None, 9])
def test_layers_equal_keras(rng, tmp_path, length, runtime):
    layers = [
        ra.SelfAttention(N, H),
        ra.RelativeSelfAttention(N, H, K),
        ra.RelativeSelfAttention(N, H, K, share_relations_across_heads=False),
        ra.RelativeSelfAttention(N, H, K, implementation="transpose"),
        ra.RelativeGlobalAttention(N, H, K, use_value_relations=True),
        ra.RelativeGlobalAttention(N, H, K, causal=True),
        *(ra.SelfAttention(N, H, name) for name in ("rotary", "alibi", "t5")),
    ]
    token_ids = keras.Input((length,), dtype="int32", name="token_ids")
    masked = keras.layers.Embedding(V, D, mask_zero=True)(token_ids)
    hidden = ra.TokenEmbedding(V, D)(token_ids)
    outputs = [ra.SinusoidalPositions()(hidden), ra.LearnedPositions(5)(hidden)]
    for layer in layers:
        block = ra.TransformerEncoderBlock(layer, ra.FeedForward(7))
        outputs += [block(masked), layer(hidden)]
    decoder = ra.TransformerDecoderBlock(
        ra.RelativeSelfAttention(N, H, K),
        ra.CrossAttention(N, H),
        ra.FeedForward(7),
    )
    outputs.append(decoder(hidden, masked))
    model = keras.Model(token_ids, keras.ops.stack(outputs))
    for weight in model.trainable_weights:
        weight.assign(rng.normal(size=weight.shape))
    lengths = [1, 2, K + 1, 9, 40] if length is None else [length]
    batches = [
        {"token_ids": rng.integers(0, V, (2, n)).astype("int32")}
        for n in lengths
    ]
    # No sentence without a token: what it attends to is of no use.
    for batch in batches:
        batch["token_ids"][:, 0] = 3
    assert_exported(model, runtime, tmp_path, batches)


@RUNTIMES
def test_transformer_equals_keras(rng, tmp_path, runtime):
    model = ra.Transformer(
        ra.TransformerConfig(
            V,
            num_encoder_layers=1,
            num_decoder_layers=1,
            hidden_dim=D,
            intermediate_dim=7,
            num_heads=N,
            max_relative_position=K,
        )
    )
    batches = [
        {
            "source_token_ids": rng.integers(1, V, (2, n)).astype("int32"),
            "target_token_ids": rng.integers(1, V, (2, n + 2)).astype("int32"),
        }
        for n in (3, 8)
    ]
    batches[1]["source_token_ids"][0, 5:] = 0
    assert_exported(model, runtime, tmp_path, batches)
