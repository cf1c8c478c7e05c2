"""A search whose tensors keep their shapes finds what the other one does."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.decoding.beam_search_loop import BeamInputs
from relative_attention.decoding.beam_search_loop import beam_search_loop
from relative_attention.decoding.columns import FixedColumns
from relative_attention.decoding.constraint_tensors import constraint_tensors

V = 13
SOURCE = np.array([[5, 3, 9, 1], [7, 1, 0, 0], [2, 2, 1, 0]], "int32")


@pytest.fixture(scope="module")
def model():
    keras.utils.set_random_seed(3)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=V,
        num_encoder_layers=1,
        num_decoder_layers=1,
        hidden_dim=8,
        intermediate_dim=8,
        num_heads=2,
        max_relative_position=2,
    )
    for weight in model.weights:
        # Far enough from one another that no two hypotheses score the same.
        weight.assign(weight.value * 4)
    return model


@pytest.mark.only_on("tensorflow", reason="JAX compiles each step of the other")
@pytest.mark.parametrize(
    ("num_beams", "constraints"),
    [
        (3, {}),
        (1, {}),
        (2, {"target_prefix": [[4, 6], [0, 0], [8, 0]], "min_length": 3}),
    ],
    ids=["beams", "greedy", "constraints"],
)
def test_results_are_those_of_growing_columns(model, num_beams, constraints):
    inputs = BeamInputs(
        constraints=constraint_tensors(
            SOURCE, max_extra_length=3, **constraints
        ),
        length_penalty=keras.ops.convert_to_tensor(0.6, "float32"),
    )
    expected = beam_search_loop(model, inputs, num_beams, num_beams)
    found = beam_search_loop(
        model, inputs, num_beams, num_beams, FixedColumns(11)
    )
    width = expected["token_ids"].shape[2]
    assert int(found["num_steps"]) == width
    np.testing.assert_array_equal(
        found["token_ids"][..., :width], expected["token_ids"]
    )
    np.testing.assert_allclose(
        found["scores"], expected["scores"], rtol=1e-5, atol=1e-5
    )
