"""The harness that Keras runs over its own layers, over ours.

What takes long is its training, by a graph of each layer; `run_layer_test`
trains every layer too, so here that part is left to the large cases.
"""

import pytest
from keras.src import testing

import relative_attention as ra
from relative_attention import layers

# The harness trains on a generator, which Keras cannot shuffle, and trains
# layers without weights too.
pytestmark = [
    pytest.mark.filterwarnings("ignore:.shuffle=True. was passed"),
    pytest.mark.filterwarnings("ignore:The model does not have any trainable"),
]

B, T, S, D, N, H = 2, 5, 7, 12, 3, 4
ONE_INPUT = {"input_shape": (B, T, D), "expected_output_shape": (B, T, D)}
# The harness trains layers of one input only.
TWO_INPUTS = {
    "input_shape": {
        "inputs_shape": (B, T, D),
        "encoder_outputs_shape": (B, S, D),
    },
    "input_dtype": {
        "inputs_shape": "float32",
        "encoder_outputs_shape": "float32",
    },
    "expected_output_shape": (B, T, D),
    "run_training_check": False,
}
DROPOUT = {"dropout": 0.25, "seed": 3}
# The class, its arguments, its input, its weights, its seed generators.
LAYERS = [
    (
        ra.RelativeSelfAttention,
        {"num_heads": N, "key_dim": H, "max_relative_position": 2, **DROPOUT},
        ONE_INPUT,
        6,
        1,
    ),
    (
        ra.RelativeGlobalAttention,
        {"num_heads": N, "key_dim": H, "max_relative_position": 2}
        | {"use_value_relations": True, "use_bias": True, **DROPOUT},
        ONE_INPUT,
        10,
        1,
    ),
    (
        ra.RelationAwareSelfAttention,
        # The labels that the harness draws are 0, 1 and 2.
        {"num_heads": N, "key_dim": H, "num_relations": 3, **DROPOUT},
        {
            "input_shape": {
                "inputs_shape": (B, T, D),
                "relations_shape": (B, T, T),
            },
            "input_dtype": {
                "inputs_shape": "float32",
                "relations_shape": "int32",
            },
            "expected_output_shape": (B, T, D),
            "run_training_check": False,
        },
        6,
        1,
    ),
    (
        ra.CrossAttention,
        {"num_heads": N, "key_dim": H, "value_dim": 7, **DROPOUT},
        TWO_INPUTS,
        4,
        1,
    ),
    (ra.FeedForward, {"intermediate_dim": 17, **DROPOUT}, ONE_INPUT, 4, 1),
    (layers.Dropout, {"rate": 0.25, "seed": 3}, ONE_INPUT, 0, 1),
    (layers.LayerNormalization, {}, ONE_INPUT, 2, 0),
    (ra.LearnedPositions, {"max_length": 9}, ONE_INPUT, 1, 0),
    (ra.SinusoidalPositions, {}, ONE_INPUT, 0, 0),
    (ra.TargetSpaceEmbedding, {}, ONE_INPUT, 1, 0),
    (
        ra.TokenEmbedding,
        {"vocabulary_size": 23, "hidden_dim": D},
        {
            "input_shape": (B, T),
            "input_dtype": "int32",
            "expected_output_shape": (B, T, D),
        },
        1,
        0,
    ),
]
CASES = pytest.mark.parametrize(
    "dtype, trains",
    [
        ("float32", False),
        *(
            pytest.param(dtype, True, marks=pytest.mark.large)
            for dtype in ("float32", "mixed_float16", "mixed_bfloat16")
        ),
    ],
    ids=["quick", "float32", "mixed_float16", "mixed_bfloat16"],
)


def run(
    cls, arguments, inputs, num_weights, num_seeds, dtype, trains, **checks
):
    if not trains:
        inputs = {**inputs, "run_training_check": False}
    testing.TestCase().run_layer_test(
        cls,
        {**arguments, "dtype": dtype},
        **inputs,
        expected_output_dtype=dtype.removeprefix("mixed_"),
        expected_num_trainable_weights=num_weights,
        expected_num_non_trainable_weights=0,
        expected_num_seed_generators=num_seeds,
        expected_num_losses=0,
        supports_masking=cls is not ra.TokenEmbedding,
        **checks,
    )


@CASES
@pytest.mark.parametrize(
    "cls, arguments, inputs, num_weights, num_seeds",
    LAYERS,
    ids=[row[0].__name__ for row in LAYERS],
)
def test_layer_passes_kerass_harness(
    cls, arguments, inputs, num_weights, num_seeds, dtype, trains
):
    run(cls, arguments, inputs, num_weights, num_seeds, dtype, trains)


@CASES
@pytest.mark.parametrize(
    "normalize_first",
    [True, pytest.param(False, marks=pytest.mark.large)],
    ids=["pre", "post"],
)
@pytest.mark.parametrize(
    "cls, inputs, num_weights, num_seeds",
    [
        (ra.TransformerEncoderBlock, ONE_INPUT, 14, 3),
        (ra.TransformerDecoderBlock, TWO_INPUTS, 20, 4),
    ],
    ids=["encoder", "decoder"],
)
def test_block_passes_kerass_harness(
    cls, inputs, num_weights, num_seeds, normalize_first, dtype, trains
):
    arguments = {
        "self_attention": ra.RelativeSelfAttention(
            N, H, 2, dtype=dtype, **DROPOUT
        ),
        "feed_forward": ra.FeedForward(17, dtype=dtype, **DROPOUT),
        "normalize_first": normalize_first,
        **DROPOUT,
    }
    if cls is ra.TransformerDecoderBlock:
        arguments["cross_attention"] = ra.CrossAttention(
            N, H, dtype=dtype, **DROPOUT
        )
    # The harness changes the dtype of the block, and not of what is in it.
    run(
        cls,
        arguments,
        inputs,
        num_weights,
        num_seeds,
        dtype,
        trains,
        run_mixed_precision_check=dtype == "mixed_float16",
    )
