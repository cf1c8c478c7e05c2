"""Symbolic outputs of attention layers, with and without scores."""

from relative_attention.layers.attention import attention_output_spec

SHAPES = [(2, 3, 5, 5), (2, 3, 5, 7)]


def test_outputs_alone_are_one_tensor():
    outputs = attention_output_spec((2, 5, 11), "float16", SHAPES, False)
    assert outputs.shape == (2, 5, 11)
    assert outputs.dtype == "float16"


def test_scores_follow_the_outputs():
    outputs, *scores = attention_output_spec(
        (None, 5, 11), "float32", SHAPES, True
    )
    assert outputs.shape == (None, 5, 11)
    assert [score.shape for score in scores] == SHAPES
    assert {score.dtype for score in scores} == {"float32"}
