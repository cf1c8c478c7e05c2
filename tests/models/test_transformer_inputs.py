"""What a Transformer is given, and what Keras can tell of that."""

import numpy as np
import pytest

import relative_attention as ra
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig


@pytest.fixture
def model(shared_model):
    return shared_model()


def ids(*shape):
    return np.full(shape, 5, "int32")


def inputs(source, target):
    return {"source_token_ids": source, "target_token_ids": target}


def test_shapes_are_known_without_a_call(model):
    assert model.input_shape == inputs((None, None), (None, None))
    assert model.output_shape == (None, None, 23)


@pytest.mark.only_on("tensorflow", reason="it is a SavedModel")
def test_export_needs_no_call_and_no_signature(model, batch, tmp_path, capfd):
    import tensorflow as tf

    model.export(tmp_path / "exported", verbose=False)
    served = tf.saved_model.load(str(tmp_path / "exported"))
    np.testing.assert_allclose(
        served.serve(batch[0]), model(batch[0]), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize(
    "wrong, message",
    [
        ((ids(2, 3), ids(2, 3)), "Received: a tuple."),
        (ids(2, 3), "but it received 1 input tensors"),
        ({"source_token_ids": ids(2, 3)}, '"target_token_ids"'),
        (inputs(ids(3), ids(2, 3)), "expected ndim=2, found ndim=1"),
        (inputs(ids(2, 3), ids(2, 3, 1)), "expected ndim=2, found ndim=3"),
        (
            inputs(ids(1, 3), ids(2, 3)),
            "`source_token_ids` and `target_token_ids` must be of as many "
            "sentences. Received shapes: (1, 3) and (2, 3).",
        ),
        (inputs(ids(2, 3), -ids(2, 3)), "Token ids must be from 0 to 22"),
        (inputs(ids(2, 3), 0.5 * ids(2, 3)), "Token ids must be integers"),
    ],
    ids=[
        "tuple",
        "tensor",
        "no_target",
        "one_axis",
        "three_axes",
        "other_batch",
        "negative",
        "float",
    ],
)
def test_wrong_inputs_are_refused_with_what_is_allowed(model, wrong, message):
    with pytest.raises(ValueError) as error:
        model(wrong)
    assert message in str(error.value)


def test_encoder_names_ids_of_another_rank(model):
    with pytest.raises(ValueError) as error:
        model.encode(ids(3))
    assert str(error.value) == (
        "`source_token_ids` must have two axes, a row for each sentence. "
        "Received shape: (3,)."
    )
    with pytest.raises(ValueError, match="Received: a tuple."):
        model.attention_scores((ids(2, 3), ids(2, 3)))


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize(
    "source, received",
    [
        ([5, 6, 1], "int64 of shape (3,)"),
        (np.array([[5.5, 1.0]]), "float64 of shape (1, 2)"),
        ([[5, -6, 1]], "-6 to 5"),
        ([[5, 23, 1]], "1 to 23"),
    ],
    ids=["one_axis", "float", "negative", "large"],
)
def test_search_names_source_ids_that_are_wrong(
    model, search, source, received
):
    with pytest.raises(ValueError) as error:
        search(model, source)
    assert str(error.value).startswith("`source_token_ids` must ")
    assert str(error.value).endswith(f"Received: {received}.")


def test_search_holds_source_ids_against_the_source_vocabulary(build_model):
    model = build_model(source_vocabulary_size=29, share_embeddings="target")
    ra.beam_search(model, [[28, 1]], max_length=1)
    with pytest.raises(ValueError, match="ids from 0 to 28"):
        ra.beam_search(model, [[29, 1]])


@pytest.mark.parametrize("config", [1000, None, {"vocabulary_size": 9}])
def test_what_is_no_config_is_refused_with_the_way_out(config):
    with pytest.raises(TypeError) as error:
        Transformer(config)
    assert str(error.value) == (
        f"`config` must be a TransformerConfig. Received: config={config!r}. "
        "For a preset, call `Transformer.from_preset(name, "
        "vocabulary_size=...)`."
    )


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        ("dropout", "0.1", "a rate in [0, 1)"),
        ("dropout", True, "a rate in [0, 1)"),
        ("hidden_dim", (8,), "an int of at least 1"),
        ("layer_norm_epsilon", "1e-6", "> 0"),
        ("normalize_first", "false", "True or False"),
        ("output_bias", 1, "True or False"),
    ],
)
def test_field_of_another_type_is_named(field, value, allowed):
    with pytest.raises(ValueError) as error:
        TransformerConfig(**{"vocabulary_size": 11, field: value})
    assert str(error.value) == (
        f"`{field}` must be {allowed}. Received: {field}={value!r}."
    )


def test_numbers_of_numpy_become_pythons():
    config = TransformerConfig(
        np.int64(11),
        num_heads=np.int32(2),
        hidden_dim=np.int64(8),
        dropout=np.float32(0.5),
        normalize_first=np.True_,
    )
    assert config == TransformerConfig(
        11, num_heads=2, hidden_dim=8, dropout=0.5, normalize_first=True
    )
    assert {type(config.vocabulary_size), type(config.num_heads)} == {int}
    assert (type(config.dropout), config.normalize_first) == (float, True)
