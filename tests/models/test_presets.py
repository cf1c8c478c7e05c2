"""Presets: their numbers, those of tensor2tensor, and the zoo's models."""

import keras
import numpy as np
import pytest

import relative_attention as ra
from relative_attention.errors import InputError
from relative_attention.models import preset_config
from relative_attention.zoo import zoo_models

NAMES = [
    "transformer_base",
    "transformer_base_relative",
    "transformer_big",
    "transformer_big_relative",
    "t2t_transformer_base",
    "t2t_transformer_big",
    "t2t_transformer_relative",
    "t2t_transformer_relative_big",
    "transformer_small",
    "transformer_small_relative",
    "transformer_tiny",
    "transformer_tiny_relative",
]


def config_of(name):
    return preset_config(name, vocabulary_size=11)


def test_presets_are_those_promised():
    assert set(NAMES) <= set(ra.presets())
    assert len(set(ra.presets())) == len(ra.presets())


@pytest.mark.parametrize("name", ra.presets())
def test_preset_is_relative_by_its_name(name):
    config = config_of(name)
    assert config.vocabulary_size == 11
    assert config.position_encoding == (
        "relative" if "relative" in name else "sinusoidal"
    )


@pytest.mark.parametrize(
    "name", ["base", "big", "small", "tiny", "t2t_base", "t2t_big"]
)
def test_relative_preset_differs_in_positions_alone(name):
    pairs = {
        "t2t_base": ("t2t_transformer_base", "t2t_transformer_relative"),
        "t2t_big": ("t2t_transformer_big", "t2t_transformer_relative_big"),
    }
    absolute, relative = pairs.get(
        name, (f"transformer_{name}", f"transformer_{name}_relative")
    )
    fields = (
        "position_encoding",
        "max_relative_position",
        "share_relations_across_heads",
    )
    config = config_of(relative)
    assert config == preset_config(
        absolute,
        vocabulary_size=11,
        **{field: getattr(config, field) for field in fields},
    )


@pytest.mark.parametrize(
    "name, sizes, limit, shared, dropout",
    [
        # Section 4.1 of the paper.
        ("transformer_base_relative", (6, 512, 1024, 8, 64), 16, False, 0.1),
        ("transformer_big_relative", (6, 1024, 4096, 16, 64), 8, True, 0.3),
    ],
)
def test_preset_has_the_numbers_of_the_paper(
    name, sizes, limit, shared, dropout
):
    config = config_of(name)
    assert config.num_encoder_layers == config.num_decoder_layers
    assert sizes == (
        config.num_encoder_layers,
        config.hidden_dim,
        config.intermediate_dim,
        config.num_heads,
        config.head_dim,
    )
    assert config.max_relative_position == limit
    assert config.share_relations_across_heads == shared
    assert config.dropout == dropout
    assert config.attention_dropout == config.intermediate_dropout == 0
    assert not config.normalize_first
    assert config.use_key_relations and config.use_value_relations


@pytest.mark.parametrize(
    "hparams, name",
    [
        ("transformer_base", "t2t_transformer_base"),
        ("transformer_big", "t2t_transformer_big"),
        ("transformer_relative", "t2t_transformer_relative"),
        ("transformer_relative_big", "t2t_transformer_relative_big"),
    ],
)
def test_preset_has_the_numbers_of_tensor2tensor(golden, hparams, name):
    hparams = golden(f"E_hparams/{hparams}").info
    config = config_of(name)
    assert hparams["num_hidden_layers"] == config.num_encoder_layers
    assert hparams["num_hidden_layers"] == config.num_decoder_layers
    assert hparams["hidden_size"] == config.hidden_dim
    assert hparams["filter_size"] == config.intermediate_dim
    assert hparams["num_heads"] == config.num_heads
    assert config.head_dim == config.hidden_dim // config.num_heads
    assert hparams["layer_prepostprocess_dropout"] == config.dropout
    assert hparams["attention_dropout"] == config.attention_dropout
    assert hparams["relu_dropout"] == config.intermediate_dropout
    assert hparams["norm_epsilon"] == config.layer_norm_epsilon
    assert (hparams["layer_preprocess_sequence"] == "n") == (
        config.normalize_first
    )
    assert hparams["use_target_space_embedding"]
    assert config.use_target_space_embedding
    assert hparams["shared_embedding_and_softmax_weights"]
    assert config.share_embeddings == "all"
    is_relative = hparams["self_attention_type"] == "dot_product_relative"
    encoding = "relative" if is_relative else "sinusoidal"
    assert config.position_encoding == encoding
    if is_relative:
        assert hparams["max_relative_position"] == 20
        assert config.max_relative_position == 20
        assert config.share_relations_across_heads
        assert hparams["pos"] in (None, "none")


def test_unknown_preset_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset("transformer_bge", vocabulary_size=11)
    message = str(error.value)
    assert message.startswith(
        "Unknown preset 'transformer_bge'. Did you mean 'transformer_big'? "
    )
    assert message.endswith(f"Known: {', '.join(ra.presets())}.")


def test_unknown_field_is_refused_with_the_nearest_name():
    with pytest.raises(ValueError) as error:
        ra.Transformer.from_preset(
            "transformer_tiny", vocabulary_size=11, num_head=3
        )
    assert str(error.value).startswith(
        "Unknown field 'num_head' of preset 'transformer_tiny'. Did you mean "
        "'num_heads'? Known: vocabulary_size, "
    )


def test_overrides_are_checked_and_applied():
    with pytest.raises(ValueError, match="`dropout` must be a rate"):
        preset_config("transformer_tiny", dropout=2)
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=11,
        num_encoder_layers=1,
        num_decoder_layers=2,
        max_relative_position=3,
    )
    assert len(model.encoder_blocks) == 1
    assert len(model.decoder_blocks) == 2
    table = model.decoder_blocks[1].self_attention.key_relation_embeddings
    assert tuple(table.shape) == (7, 32)
    assert tuple(model.source_embedding.embeddings.shape) == (11, 128)


@pytest.mark.parametrize(
    "hparams, name",
    [
        ("transformer_base", "t2t_transformer_base"),
        ("transformer_big", "t2t_transformer_big"),
        ("transformer_relative", "t2t_transformer_relative"),
        ("transformer_relative_big", "t2t_transformer_relative_big"),
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


def test_training_of_the_paper():
    for name in ("transformer_base_relative", "transformer_big_relative"):
        assert ra.preset_training(name) == {
            "learning_rate_scale": 1.0,
            "warmup_steps": 4000,
            "zero_first_step": False,
            "adam_beta_2": 0.98,
            "label_smoothing": 0.1,
        }
    with pytest.raises(ValueError, match="Did you mean 'transformer_base'"):
        ra.preset_training("transformer_bas")


# === Models of the zoo ===

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
        "architecture, whose weights are to be learned."
    )
