"""Presets: their numbers, those of tensor2tensor, and bundled models."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.models import preset_config
from relative_attention.zoo import zoo_models


def config_of(name):
    return preset_config(name, vocabulary_size=11)


PAIRS = {
    "transformer_base": "transformer_base_relative",
    "transformer_big": "transformer_big_relative",
    "t2t_transformer_base": "t2t_transformer_relative",
    "t2t_transformer_big": "t2t_transformer_relative_big",
    "transformer_small": "transformer_small_relative",
    "transformer_tiny": "transformer_tiny_relative",
}


def test_relative_preset_differs_only_in_positions():
    assert {*PAIRS, *PAIRS.values()} == set(ra.presets())
    for absolute, relative in PAIRS.items():
        config = config_of(relative)
        assert config.position_encoding == "relative"
        assert config_of(absolute).position_encoding == "sinusoidal"
        assert config == preset_config(
            absolute,
            vocabulary_size=11,
            position_encoding="relative",
            max_relative_position=config.max_relative_position,
            share_relations_across_heads=config.share_relations_across_heads,
        )


PAPER = {
    "vocabulary_size": 11,
    "num_encoder_layers": 6,
    "num_decoder_layers": 6,
    "use_key_relations": True,
    "use_value_relations": True,
    "attention_dropout": 0.0,
    "intermediate_dropout": 0.0,
    "normalize_first": False,
}


def test_presets_have_the_numbers_of_the_paper():
    # Section 4.1 of the paper.
    assert config_of("transformer_base_relative") == ra.TransformerConfig(
        **PAPER,
        hidden_dim=512,
        intermediate_dim=1024,
        num_heads=8,
        max_relative_position=16,
        share_relations_across_heads=False,
        dropout=0.1,
    )
    assert config_of("transformer_big_relative") == ra.TransformerConfig(
        **PAPER,
        hidden_dim=1024,
        intermediate_dim=4096,
        num_heads=16,
        max_relative_position=8,
        share_relations_across_heads=True,
        dropout=0.3,
    )


OF_TENSOR2TENSOR = [
    ("transformer_base", "t2t_transformer_base"),
    ("transformer_big", "t2t_transformer_big"),
    ("transformer_relative", "t2t_transformer_relative"),
    ("transformer_relative_big", "t2t_transformer_relative_big"),
]


@pytest.mark.parametrize("hparams, name", OF_TENSOR2TENSOR)
def test_preset_has_the_numbers_of_tensor2tensor(golden, hparams, name):
    hparams = golden(f"E_hparams/{hparams}").info
    is_relative = hparams["self_attention_type"] == "dot_product_relative"
    if is_relative:
        assert hparams["pos"] in (None, "none")
    assert hparams["use_target_space_embedding"]
    assert hparams["shared_embedding_and_softmax_weights"]
    assert config_of(name) == ra.TransformerConfig(
        vocabulary_size=11,
        num_encoder_layers=hparams["num_hidden_layers"],
        num_decoder_layers=hparams["num_hidden_layers"],
        hidden_dim=hparams["hidden_size"],
        intermediate_dim=hparams["filter_size"],
        num_heads=hparams["num_heads"],
        dropout=hparams["layer_prepostprocess_dropout"],
        attention_dropout=hparams["attention_dropout"],
        intermediate_dropout=hparams["relu_dropout"],
        layer_norm_epsilon=hparams["norm_epsilon"],
        normalize_first=hparams["layer_preprocess_sequence"] == "n",
        use_target_space_embedding=True,
        share_embeddings="all",
        position_encoding="relative" if is_relative else "sinusoidal",
        max_relative_position=(
            hparams["max_relative_position"] if is_relative else 16
        ),
    )


def test_unknown_field_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset(
            "transformer_tiny", vocabulary_size=11, num_head=3
        )
    assert str(error.value).startswith(
        "Unknown field 'num_head' of preset 'transformer_tiny'. Did you mean "
        "'num_heads'? Known: vocabulary_size, "
    )

    with pytest.raises(ValueError, match="Did you mean 'transformer_base'"):
        ra.preset_training("transformer_bas")


@pytest.mark.parametrize(
    "hparams, name",
    [
        *OF_TENSOR2TENSOR,
        # The set of the paper's time, of whose numbers Shaw et al. speak.
        ("transformer_base_v1", "transformer_base_relative"),
        ("transformer_base_v1", "transformer_big_relative"),
    ],
)
def test_training_of_preset_is_that_of_tensor2tensor(golden, hparams, name):
    hparams = golden(f"E_hparams/{hparams}").info
    training = ra.preset_training(name)
    assert training["warmup_steps"] == hparams["learning_rate_warmup_steps"]
    assert training["adam_beta_2"] == hparams["optimizer_adam_beta2"]
    assert training["label_smoothing"] == hparams["label_smoothing"]
    is_legacy = hparams["learning_rate_schedule"] == "legacy"
    assert training["zero_first_step"] != is_legacy
    scale = hparams["learning_rate_constant"]
    if is_legacy:
        # tensor2tensor's legacy schedule multiplies by these two.
        scale = hparams["learning_rate"] * 0.002 * 5000
    assert training["learning_rate_scale"] == scale
    assert hparams["optimizer_adam_beta1"] == 0.9
    assert hparams["optimizer_adam_epsilon"] == 1e-9


# === Bundled models ===

NAME = "multi30k_en_de_tiny_relative"


@pytest.fixture(scope="module")
def trained():
    return ra.Transformer.from_preset(NAME)


def test_model_of_the_zoo_has_its_weights(trained):
    others = (
        ra.load_translator(NAME).model,
        # A field that leaves weights alone may differ.
        ra.Transformer.from_preset(NAME, 10_000, dropout=0.1),
    )
    assert others[0].config == trained.config
    assert others[1].config.dropout == 0.1
    for other in others:
        for one, two in zip(trained.weights, other.weights, strict=True):
            np.testing.assert_array_equal(
                keras.ops.convert_to_numpy(one), keras.ops.convert_to_numpy(two)
            )


def test_weights_of_another_shape_are_refused():
    with pytest.raises(InputError, match="does not fit the model"):
        ra.Transformer.from_preset(NAME, vocabulary_size=99)


def test_error_lists_presets_and_models_when_a_name_is_unknown():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset("multi30k_en_de_tiny_relativ")
    assert str(error.value) == (
        "Unknown preset 'multi30k_en_de_tiny_relativ'. Did you mean "
        f"'{NAME}'? With weights: {', '.join(zoo_models())}. Known: "
        f"{', '.join(ra.presets())}."
    )


def test_architecture_needs_the_size_of_a_vocabulary():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset("transformer_tiny")
    assert str(error.value) == (
        "`vocabulary_size` must be given: 'transformer_tiny' is an "
        "architecture, whose weights are to be learned."
    )
