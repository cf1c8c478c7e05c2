"""Reads tensor2tensor's hyperparameters as the architecture they stand for."""

import json
import pathlib
from collections.abc import Mapping
from typing import Any

from relative_attention.atomic_files import AnyPath
from relative_attention.did_you_mean import nearest_name
from relative_attention.errors import InputError

_REQUIRED = ("hidden_size", "filter_size", "num_heads", "num_hidden_layers")

# These hyperparameters change the function that a model computes, and this
# package knows one value of them, or a few; the first is tensor2tensor's
# default. One that is missing was not there yet when the model was trained.
_SUPPORTED: dict[str, tuple] = {
    "self_attention_type": ("dot_product", "dot_product_relative"),
    "pos": ("timing", "none", "", None),
    "ffn_layer": ("dense_relu_dense",),
    "norm_type": ("layer",),
    "multiply_embedding_mode": ("sqrt_depth",),
    "attention_variables_3d": (False,),
    "causal_decoder_self_attention": (True,),
    "unidirectional_encoder": (False,),
    "proximity_bias": (False,),
    "position_features": ("", None),
    "prepend_mode": ("none",),
    "factored_logits": (False,),
    "hard_attention_k": (0,),
    "gumbel_noise_weight": (0,),
    "max_area_width": (1,),
    "max_area_height": (1,),
    "num_area_layers": (0,),
    "split_to_length": (0,),
    "bottom": ("{}", {}, None),
    "top": ("{}", {}, None),
    "modality": ("{}", {}, None),
}

# Pairs of layer_preprocess_sequence and layer_postprocess_sequence, and
# whether layer normalization comes first.
_NORMALIZE_FIRST = {("n", "da"): True, ("none", "dan"): False}


def read_hparams(hparams: AnyPath | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the hyperparameters as a dict.

    Args:
        hparams: dict, or the path of tensor2tensor's `hparams.json`.

    Raises:
        InputError: if the file is missing or no JSON object, or a
            hyperparameter that is needed is not there.
    """
    if not isinstance(hparams, Mapping):
        hparams = _load(pathlib.Path(hparams))
    for name in _REQUIRED:
        if name not in hparams:
            close = nearest_name(name, hparams)
            nearest = f" There is {close!r}." if close else ""
            raise InputError(
                f"The hparams lack {name!r}.{nearest} They must be those the "
                "model was trained with: tensor2tensor writes them to "
                "`hparams.json` beside its checkpoints."
            )
        value = hparams[name]
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise InputError(
                f"hparam {name!r} must be a positive int. Received: {value!r}."
            )
    return hparams


def _load(path: pathlib.Path) -> dict[str, Any]:
    """Reads a JSON object; an `InputError` says what is wrong with another."""
    try:
        hparams = json.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise InputError(f"No hparams at {path}: {error}.") from error
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path} is not JSON: {error}.") from error
    if not isinstance(hparams, dict):
        raise InputError(
            f"{path} must hold a JSON object of hyperparameters. Received: "
            f"{type(hparams).__name__}."
        )
    return hparams


def config_fields(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `TransformerConfig` that hyperparameters decide.

    These are all but the vocabularies, which the variables tell.

    Args:
        hparams: dict of tensor2tensor's hyperparameters.

    Returns:
        Dict.

    Raises:
        InputError: if one asks for what this package does not have.
    """
    for name, supported in _SUPPORTED.items():
        if hparams.get(name, supported[0]) not in supported:
            raise InputError(
                f"hparam {name!r} is not supported with the value "
                f"{hparams[name]!r}. Supported: "
                f"{', '.join(map(repr, supported))}."
            )
    heads = hparams["num_heads"]
    num_layers = hparams["num_hidden_layers"]
    is_relative = hparams.get("self_attention_type") == "dot_product_relative"
    return {
        "num_encoder_layers": hparams.get("num_encoder_layers") or num_layers,
        "num_decoder_layers": hparams.get("num_decoder_layers") or num_layers,
        "hidden_dim": hparams["hidden_size"],
        "intermediate_dim": hparams["filter_size"],
        "num_heads": heads,
        "key_dim": _head_dim(hparams, "attention_key_channels"),
        "value_dim": _head_dim(hparams, "attention_value_channels"),
        "position_encoding": _position_encoding(hparams, is_relative),
        # Where attention is not relative it has no meaning and is 0.
        "max_relative_position": hparams.get("max_relative_position") or 0,
        "share_relations_across_heads": True,
        "normalize_first": _normalize_first(hparams),
        "layer_norm_epsilon": hparams.get("norm_epsilon", 1e-6),
        "dropout": hparams.get("layer_prepostprocess_dropout", 0.0),
        "attention_dropout": hparams.get("attention_dropout", 0.0),
        "intermediate_dropout": hparams.get("relu_dropout", 0.0),
    }


def _head_dim(hparams: Mapping[str, Any], name: str) -> int:
    """Returns the size of a head, of channels that all heads share out."""
    channels = hparams.get(name) or hparams["hidden_size"]
    if channels % hparams["num_heads"]:
        raise InputError(
            f"{channels} channels ({name!r}, or 'hidden_size' where that is "
            "0) must be a multiple of 'num_heads'. Received: "
            f"{hparams['num_heads']}."
        )
    return channels // hparams["num_heads"]


def _position_encoding(
    hparams: Mapping[str, Any], is_relative: bool
) -> str | None:
    """Returns the `position_encoding` of `TransformerConfig`."""
    is_absolute = hparams.get("pos", "timing") == "timing"
    if is_relative:
        return "relative+sinusoidal" if is_absolute else "relative"
    return "sinusoidal" if is_absolute else None


def _normalize_first(hparams: Mapping[str, Any]) -> bool:
    """Returns whether layer normalization comes before a sublayer.

    tensor2tensor spells what is done around a sublayer: `n` normalises, `d`
    drops out and `a` adds the residual. Pre-norm is `n` before it and `da`
    behind it, post-norm is `dan` behind it.
    """
    names = ("layer_preprocess_sequence", "layer_postprocess_sequence")
    sequences = tuple(
        hparams.get(name, default) for name, default in zip(names, ("n", "da"))
    )
    if sequences not in _NORMALIZE_FIRST:
        known = " or ".join(map(repr, _NORMALIZE_FIRST))
        raise InputError(
            f"hparams {names[0]!r} and {names[1]!r} are supported as {known}. "
            f"Received: {sequences!r}."
        )
    return _NORMALIZE_FIRST[sequences]
