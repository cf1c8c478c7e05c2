import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.zoo import zoo_models

NAME = "multi30k_en_de_tiny_relative"


@pytest.fixture(scope="module")
def trained():
    return ra.Transformer.from_preset(NAME)


def test_model_of_the_zoo_has_its_weights(trained):
    other = ra.load_translator(NAME).model
    assert other.config == trained.config
    for weight, expected in zip(trained.weights, other.weights, strict=True):
        np.testing.assert_array_equal(
            keras.ops.convert_to_numpy(weight),
            keras.ops.convert_to_numpy(expected),
        )


def test_field_that_leaves_weights_alone_may_differ(trained):
    model = ra.Transformer.from_preset(NAME, 10_000, dropout=0.1)
    assert model.config.dropout == 0.1
    np.testing.assert_array_equal(
        keras.ops.convert_to_numpy(model.weights[0]),
        keras.ops.convert_to_numpy(trained.weights[0]),
    )


def test_weights_of_another_shape_are_refused():
    with pytest.raises(InputError, match="does not fit the model"):
        ra.Transformer.from_preset(NAME, vocabulary_size=99)
    with pytest.raises(ValueError, match="Unknown field 'hiden_dim'"):
        ra.Transformer.from_preset(NAME, hiden_dim=8)


def test_misspelt_name_is_told_presets_and_what_has_weights():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset("multi30k_en_de_tiny_relativ")
    assert str(error.value) == (
        "Unknown preset 'multi30k_en_de_tiny_relativ'. Did you mean "
        f"'{NAME}'? With weights: {', '.join(zoo_models())}. Known: "
        f"{', '.join(ra.presets())}."
    )


def test_recipe_without_weights_is_no_preset():
    with pytest.raises(ValueError, match="Unknown preset 'small_relative'"):
        ra.Transformer.from_preset("small_relative")


def test_architecture_needs_the_size_of_a_vocabulary():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset("transformer_tiny")
    assert str(error.value) == (
        "`vocabulary_size` must be given: 'transformer_tiny' is an "
        "architecture, whose weights are to be learnt."
    )
