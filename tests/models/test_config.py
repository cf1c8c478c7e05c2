"""The config of a Transformer: what is refused, and what a step costs."""

import dataclasses
import json

import numpy as np
import pytest

from relative_attention.layers import positions
from relative_attention.layers.positions import POSITION_ENCODINGS
from relative_attention.layers.positions import encoding_of
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.models import training_flops

CHOICES = {
    "position_encoding": (
        f"one of {', '.join(map(repr, POSITION_ENCODINGS))}, an object of "
        "`ra.positions` or of your own class, or its name 'module:class'"
    ),
    "implementation": "one of auto, recompute, transpose",
}


class Linear(positions.PositionEncoding):
    def __init__(self, slope=1.0):
        self.slope = slope

    def get_config(self):
        return {"slope": self.slope}


@pytest.mark.parametrize(
    "field, value, allowed",
    [
        ("vocabulary_size", 0, "at least 1"),
        ("value_dim", 2.0, "int or None"),
        ("num_heads", True, "int"),
        ("max_relative_position", -1, "at least 0"),
        ("start_token_id", 11, "an id of the target vocabulary, below 11"),
        ("dropout", 1.0, "in [0, 1)"),
        ("attention_dropout", np.nan, "a finite number"),
        ("layer_norm_epsilon", 0.0, "positive"),
        ("layer_norm_epsilon", "1e-6", "float"),
        ("output_bias", 1, "bool"),
        ("position_encoding", "rotate", CHOICES["position_encoding"]),
        ("share_embeddings", True, "str"),
        ("implementation", "blocks", CHOICES["implementation"]),
    ],
)
def test_wrong_value_is_named_with_what_is_allowed(field, value, allowed):
    with pytest.raises(ValueError) as error:
        TransformerConfig(**{"vocabulary_size": 11, field: value})
    assert str(error.value) == (
        f"`{field}` must be {allowed}. Received: {field}={value!r}."
    )


def test_key_dim_is_needed_when_heads_do_not_divide_the_width():
    arguments = {"vocabulary_size": 11, "hidden_dim": 13, "num_heads": 3}
    with pytest.raises(ValueError, match="of `num_heads`.*=13, num_heads=3"):
        TransformerConfig(**arguments)
    assert TransformerConfig(**arguments, key_dim=5).head_dim == 5
    with pytest.raises(ValueError, match="even with rotary .*=5."):
        TransformerConfig(**arguments, key_dim=5, position_encoding="rotary")


def test_relative_global_needs_a_positive_distance():
    fields = {"vocabulary_size": 11, "max_relative_position": 0}
    with pytest.raises(ValueError, match="a positive int. Received: max"):
        TransformerConfig(**fields, position_encoding="relative_global")


def test_encoding_may_be_an_object():
    def config_of(encoding, **fields):
        config = TransformerConfig(11, position_encoding=encoding, **fields)
        # As a file has it.
        again = json.loads(json.dumps(dataclasses.asdict(config)))
        assert TransformerConfig(**again) == config
        assert encoding_of(config).get_config() == encoding.get_config()
        return config

    for encoding, name in (
        (positions.PositionEncoding(), None),
        (positions.Relative(), "relative"),
        (positions.Rotary(), "rotary"),
        (positions.Rotary(500), "rotary(max_wavelength=500)"),
        (Linear(), f"{__name__}:Linear"),
        (Linear(0.5), f"{__name__}:Linear(slope=0.5)"),
    ):
        assert config_of(encoding).position_encoding == name
    # Arguments that a config has, too.
    relative = positions.Relative(7, use_value_relations=False)
    config = config_of(relative, max_relative_position=3)
    assert config.position_encoding == "relative"
    assert config.max_relative_position == 7
    assert not config.use_value_relations
    with pytest.raises(ValueError, match="must be numbers.*_initializer="):
        config_of(positions.Relative(relation_initializer="zeros"))


@pytest.mark.parametrize(
    "encoding, problem",
    [
        ("nomodule:Linear", "needs the module nomodule.*`--module nomodule`"),
        ("os:system", "must name a subclass"),
        (f"{__name__}:Linear(by=3)", "wrong arguments: .*'by'"),
        # An initializer would be of any module that is named.
        ("relative(relation_initializer={'module': 'x'})", "with arguments"),
        ("rotary(max_wavelength=open('x'))", "with arguments"),
        ("rotary(500)", "with arguments"),
    ],
)
def test_wrong_name_of_an_encoding_is_refused(encoding, problem):
    with pytest.raises(ValueError, match=f"`position_encoding` .*{problem}"):
        TransformerConfig(11, position_encoding=encoding)


@pytest.mark.parametrize("shared", ["all", "source_target"])
def test_two_vocabularies_cannot_share_all_embeddings(shared):
    arguments = {"vocabulary_size": 11, "source_vocabulary_size": 13}
    with pytest.raises(ValueError, match='"target" or "none" .*_size=13'):
        TransformerConfig(**arguments, share_embeddings=shared)
    TransformerConfig(11, source_vocabulary_size=11, share_embeddings="all")


def test_numpy_numbers_become_python_numbers():
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


# === Operations of a step, counted again from the weights ===

S, T, V = 7, 5, 11


@pytest.mark.parametrize(
    "positions, sizes",
    [("relative", {"key_dim": 3, "value_dim": 6}), ("sinusoidal", {})],
    ids=["relative-of-its-own", "sinusoidal-equal"],
)
def test_training_flops_count_all_matrix_products(positions, sizes):
    model = Transformer.from_preset(
        "transformer_tiny",
        V,
        position_encoding=positions,
        max_relative_position=2,
        num_encoder_layers=2,
        num_decoder_layers=3,
        **sizes,
    )
    products = 0
    for weight in model.weights:
        name = weight.path
        if not name.endswith("kernel"):
            continue
        # A kernel is multiplied with every token of the side that it reads.
        reads_source = "encoder_block" in name or (
            "cross_attention/" in name and ("key" in name or "value" in name)
        )
        products += np.prod(weight.shape) * (S if reads_source else T)
    head = model.config.head_dim
    both = model.config.num_heads * (head + (sizes.get("value_dim") or head))
    products += both * (2 * S * S + 3 * T * T + 3 * T * S)
    products += model.config.hidden_dim * V * T
    # Two operations each; backward takes twice what forward takes.
    assert training_flops(model.config, S, T) == 6 * products
