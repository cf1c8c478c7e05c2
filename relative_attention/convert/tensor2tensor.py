"""Converts checkpoints of tensor2tensor's Transformer."""

import re
from collections.abc import Callable
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from relative_attention.convert.checkpoint import StoredWeight
from relative_attention.convert.checkpoint import TensorFlowCheckpoint
from relative_attention.convert.checkpoint import VariableNames
from relative_attention.convert.checkpoint import body_weights
from relative_attention.convert.checkpoint import build_model
from relative_attention.convert.checkpoint import reshaped
from relative_attention.convert.checkpoint import restore
from relative_attention.convert.checkpoint import save_converted
from relative_attention.data import SubwordVocabulary
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.errors import nearest_name
from relative_attention.files import AnyPath
from relative_attention.files import check_is_free
from relative_attention.files import read_json_object
from relative_attention.models import Transformer

# beam_size, alpha and extra_length of tensor2tensor's decode_hparams.
_DECODING = DecodingSection(
    num_beams=4, length_penalty=0.6, max_extra_length=100
)

# Training state in a checkpoint, by the names of its variables.
_TRAINING_STATE = {
    "state of the optimizer": r"training/.*|.*/Adam(_1)?|beta[12]_power",
    "count of steps": r"global_step",
    "bookkeeping of the training": r"(losses_avg|train_stats)/.*",
}

_REQUIRED = ("hidden_size", "filter_size", "num_heads", "num_hidden_layers")

# Hyperparameters that change the function of a model, with the supported
# values. The first value is tensor2tensor's default. A missing hyperparameter
# did not exist yet when the model was trained.
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

# tensor2tensor's letters for the steps around a sublayer: `n` normalizes, `d`
# is dropout and `a` adds the residual. Pre-norm is `n` before the sublayer and
# `da` after it; post-norm is `dan` after it.
_PROCESSING = ("layer_preprocess_sequence", "layer_postprocess_sequence")
_PRE_NORM, _POST_NORM = ("n", "da"), ("none", "dan")

# An embedding matrix is stored as shards of its rows (16 by default). Their
# scope has the size of the vocabulary, the width and the use, such as
# `transformer/symbol_modality_32768_512/shared/weights_3`.
_SHARD = re.compile(
    r"(?P<scope>(?P<model>.+)/symbol_modality_(?P<rows>\d+)_(?P<columns>\d+)"
    r"/(?P<use>shared|input_emb|target_emb|softmax))/weights_(?P<index>\d+)"
)
# Which embeddings are shared, by the matrices that a checkpoint has.
_SHARING = {
    ("shared",): "all",
    ("shared", "softmax"): "source_target",
    ("input_emb", "softmax", "target_emb"): "none",
}

_TABLES = "dot_product_attention_relative/relative_positions"
_ATTENTION_NAMES: VariableNames = {
    "query_dense": "q",
    "key_dense": "k",
    "value_dense": "v",
    "output_dense": "output_transform",
    "key_relation_embeddings": f"{_TABLES}_keys/embeddings",
    "value_relation_embeddings": f"{_TABLES}_values/embeddings",
}
_NORM_NAMES: VariableNames = {
    "gamma": "layer_norm/layer_norm_scale",
    "beta": "layer_norm/layer_norm_bias",
}


def convert_tensor2tensor(
    checkpoint_path: AnyPath,
    hparams: AnyPath | Mapping[str, Any],
    output: AnyPath,
    vocabulary: Path | str | None = None,
    source_vocabulary: Path | str | None = None,
    target_space_id: int = 0,
    report: Callable[[str], Any] | None = None,
) -> None:
    """Converts a checkpoint to a folder that `load_translator` reads.

    With the subword vocabulary the folder translates strings, by default like
    tensor2tensor's decoder (beam 4, alpha 0.6, at most 100 tokens more than the
    source). `conversion.txt` in the folder says where each variable of the
    checkpoint went.

    Args:
        checkpoint_path, hparams, target_space_id: see `load_tensor2tensor`.
        output: path of the folder to make, whole or not at all.
        vocabulary: path of the `*.subwords` file of the target, and of the
            source unless `source_vocabulary` is given. Defaults to `None`: the
            folder cannot translate strings.
        source_vocabulary: path of the `*.subwords` file of the source.
            Defaults to `vocabulary`.
        report: function to call with each line about the conversion. Defaults
            to `None`.

    Raises:
        InputError: if an input is missing, damaged or contradictory, the size
            of a vocabulary differs from its embedding, or `output` is not
            empty. Nothing is written then.
    """
    check_is_free(output)
    if source_vocabulary is not None and vocabulary is None:
        raise InputError(
            "A source vocabulary was given without `--vocabulary`, that of "
            "the target."
        )
    vocabularies = None
    if vocabulary is not None:
        target = source = SubwordVocabulary.load(vocabulary)
        if source_vocabulary is not None:
            source = SubwordVocabulary.load(source_vocabulary)
        vocabularies = (source, target)
    lines: list[str] = []
    model = load_tensor2tensor(
        checkpoint_path, hparams, target_space_id, report=lines.append
    )
    save_converted(
        output,
        model,
        vocabularies,
        _DECODING,
        lines,
        "subwords (one that `vocab_divisor` padded is not supported)",
    )
    if report is not None:
        for line in lines:
            report(line)


def load_tensor2tensor(
    checkpoint_path: AnyPath,
    hparams: AnyPath | Mapping[str, Any],
    target_space_id: int = 0,
    report: Callable[[str], Any] | None = None,
) -> Transformer:
    """Loads the `Transformer` of a tensor2tensor checkpoint with its weights.

    It computes the same logits as tensor2tensor. The hparams sets
    `transformer_base*`, `transformer_big*` and `transformer_relative*` are
    supported, also with other sizes, dropout, pre- or post-norm, vocabularies
    (shared or not) and positions. Settings and state of training (optimizer,
    schedule, shape of dropout noise) are left out; `TransformerSchedule` and
    `MaskedCrossEntropy` compute the same numbers here.

    Args:
        checkpoint_path: path. The prefix of the checkpoint, such as
            `model.ckpt-250000`, or its folder, for the latest checkpoint.
        hparams: dict of tensor2tensor's hyperparameters, or the path of its
            `hparams.json`.
        target_space_id: int. The row of the target-space embedding that the
            problem uses; 0 for translation. The other rows are left out.
        report: function to call with each line of a report about the variables
            that were used and those that were not. Defaults to `None`.

    Returns:
        `Transformer`, float32.

    Raises:
        InputError: if the checkpoint is missing or damaged, a hyperparameter
            has a value that is not supported or contradicts the variables, or
            a variable is missing, unknown or of another shape (the message
            names it).

    Reference:
     - [Vaswani et al., 2018](https://arxiv.org/abs/1803.07416), tensor2tensor
    """
    hparams = _read_hparams(hparams)
    fields = _config_fields(hparams)
    checkpoint = TensorFlowCheckpoint(checkpoint_path)
    sharing, embeddings = _find_embeddings(checkpoint)
    source_size = int(embeddings["source"]["rows"])
    target_size = int(embeddings["target"]["rows"])
    scope = f"{embeddings['source']['model']}/body"
    space = f"{scope}/target_space_embedding/kernel"
    space_shape = checkpoint.shape(space)
    _check_target_space(target_space_id, space_shape)
    model = build_model(
        {
            **fields,
            "vocabulary_size": target_size,
            "source_vocabulary_size": (
                None if source_size == target_size else source_size
            ),
            "share_embeddings": sharing,
            "use_target_space_embedding": space_shape is not None,
        },
        "The hparams",
        checkpoint,
    )

    # A layer normalization has the scope of its step.
    first = model.config.normalize_first
    norm = "layer_prepostprocess" if first else "layer_postprocess"
    weights = body_weights(
        model, scope, "layer_", _block_names(norm), (norm, _NORM_NAMES)
    )
    for side, matrix in embeddings.items():
        layer = getattr(model, f"{side}_embedding")
        weights[matrix["scope"]] = reshaped(layer.embeddings)
    notes = []
    space_layer = model.target_space_embedding
    if space_shape is not None and space_layer is not None:
        notes.append(f"of {space}, row {target_space_id} alone")
        weights[space] = StoredWeight(
            space_layer.embedding,
            (space_shape[0], model.config.hidden_dim),
            lambda rows: rows[target_space_id],
        )
    restore(
        checkpoint,
        weights,
        _TRAINING_STATE,
        model_name="the model of these hparams",
        evidence="the hparams",
        notes=notes,
        report=report,
    )
    return model


def _read_hparams(hparams: AnyPath | Mapping[str, Any]) -> Mapping[str, Any]:
    """Returns the hyperparameters as a dict that has the required sizes."""
    if not isinstance(hparams, Mapping):
        hparams = _load_hparams(hparams)
    for name in _REQUIRED:
        if name not in hparams:
            close = nearest_name(name, hparams)
            nearest = f" There is {close!r}." if close else ""
            raise InputError(
                f"The hparams lack {name!r}.{nearest} They must be those the "
                "model was trained with: tensor2tensor writes them to "
                "`hparams.json` beside its checkpoints."
            )
        _check_int(hparams, name, minimum=1)
    for name in (
        "num_encoder_layers",
        "num_decoder_layers",
        "attention_key_channels",
        "attention_value_channels",
        "max_relative_position",
    ):
        # For tensor2tensor, 0 or a missing value is the default.
        if hparams.get(name) is not None:
            _check_int(hparams, name, minimum=0)
    return hparams


def _load_hparams(path: AnyPath) -> dict[str, Any]:
    try:
        return read_json_object(path)
    except OSError as error:
        raise InputError(f"No hparams at {path}: {error}.") from error
    except ValueError as error:
        raise InputError(
            f"{path} must hold the hparams as a JSON object: {error}."
        ) from error


def _check_int(hparams: Mapping[str, Any], name: str, minimum: int) -> None:
    value = hparams[name]
    if isinstance(value, bool) or not isinstance(value, int) or value < minimum:
        kind = "positive" if minimum else "non-negative"
        raise InputError(
            f"hparam {name!r} must be a {kind} int. Received: {value!r}."
        )


def _config_fields(hparams: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the fields of `TransformerConfig` that hyperparameters decide.

    These are all fields except the vocabularies, which the variables show.
    """
    for name, supported in _SUPPORTED.items():
        if hparams.get(name, supported[0]) not in supported:
            raise InputError(
                f"hparam {name!r} is not supported with the value "
                f"{hparams[name]!r}. Supported: "
                f"{', '.join(map(repr, supported))}."
            )
    num_layers = hparams["num_hidden_layers"]
    is_relative = hparams.get("self_attention_type") == "dot_product_relative"
    is_absolute = hparams.get("pos", "timing") == "timing"
    positions: str | None
    if is_relative:
        positions = "relative+sinusoidal" if is_absolute else "relative"
    else:
        positions = "sinusoidal" if is_absolute else None
    return {
        "num_encoder_layers": hparams.get("num_encoder_layers") or num_layers,
        "num_decoder_layers": hparams.get("num_decoder_layers") or num_layers,
        "hidden_dim": hparams["hidden_size"],
        "intermediate_dim": hparams["filter_size"],
        "num_heads": hparams["num_heads"],
        "key_dim": _head_dim(hparams, "attention_key_channels"),
        "value_dim": _head_dim(hparams, "attention_value_channels"),
        "position_encoding": positions,
        # It has no meaning, and is 0, if attention is not relative.
        "max_relative_position": hparams.get("max_relative_position") or 0,
        "share_relations_across_heads": True,
        "normalize_first": _normalize_first(hparams),
        "layer_norm_epsilon": hparams.get("norm_epsilon", 1e-6),
        "dropout": hparams.get("layer_prepostprocess_dropout", 0.0),
        "attention_dropout": hparams.get("attention_dropout", 0.0),
        "intermediate_dropout": hparams.get("relu_dropout", 0.0),
    }


def _head_dim(hparams: Mapping[str, Any], name: str) -> int:
    """Returns the size of a head, from the channels of all heads."""
    channels = hparams.get(name) or hparams["hidden_size"]
    if channels % hparams["num_heads"]:
        raise InputError(
            f"{channels} channels ({name!r}, or 'hidden_size' where that is "
            "0) must be a multiple of 'num_heads'. Received: "
            f"{hparams['num_heads']}."
        )
    return channels // hparams["num_heads"]


def _normalize_first(hparams: Mapping[str, Any]) -> bool:
    """Returns whether layer normalization comes before a sublayer."""
    sequences = tuple(map(hparams.get, _PROCESSING, _PRE_NORM))
    if sequences not in [_PRE_NORM, _POST_NORM]:
        raise InputError(
            f"hparams {_PROCESSING[0]!r} and {_PROCESSING[1]!r} are supported "
            f"as {_PRE_NORM} or {_POST_NORM}. Received: {sequences!r}."
        )
    return sequences == _PRE_NORM


def _find_embeddings(
    checkpoint: TensorFlowCheckpoint,
) -> tuple[str, dict[str, re.Match]]:
    """Finds the embeddings, and registers their shards in the checkpoint.

    Returns:
        Pair of a value of `TransformerConfig.share_embeddings` and the dict of
        `"source"`, `"target"` and `"output"`: matches of `_SHARD` for a shard
        of each matrix. They are equal if one matrix is shared.
    """
    # For each scope, the names of its shards by index, and a match of one.
    shards: dict[str, dict[int, str]] = {}
    matrices: dict[str, re.Match] = {}
    for name, shape in checkpoint.shapes.items():
        match = _SHARD.fullmatch(name)
        # The names of the optimizer's variables end in the names of weights.
        if match and not name.startswith("training/"):
            if len(shape) != 2 or shape[1] != int(match["columns"]):
                raise InputError(
                    f"The variable {name} must have {match['columns']} "
                    f"columns, as its name says. Received shape: {shape}."
                )
            matrices[match["scope"]] = match
            names = shards.setdefault(match["scope"], {})
            names[int(match["index"])] = name
    uses = tuple(sorted(matrix["use"] for matrix in matrices.values()))
    if uses not in _SHARING:
        known = "; ".join(" + ".join(known) for known in _SHARING)
        found = " + ".join(shards)
        raise InputError(
            "The checkpoint must hold the symbol embeddings of tensor2tensor's "
            f"Transformer under .../symbol_modality_VOCABULARY_HIDDEN/: {known}"
            f". Received: {found or 'none'}."
        )
    for scope, names in shards.items():
        # If shards are missing, `restore` finds too few rows.
        checkpoint.shards[scope] = tuple(
            names[index] for index in sorted(names)
        )
    by_use = {matrix["use"]: matrix for matrix in matrices.values()}
    return _SHARING[uses], {
        "source": by_use.get("shared") or by_use["input_emb"],
        "target": by_use.get("shared") or by_use["target_emb"],
        "output": by_use.get("softmax") or by_use["shared"],
    }


def _check_target_space(
    target_space_id: int, shape: tuple[int, ...] | None
) -> None:
    """Refuses a target space that a checkpoint does not have."""
    if shape is None and target_space_id == 0:
        return
    if shape is None or len(shape) != 2 or not 0 <= target_space_id < shape[0]:
        table = f"shape {shape}" if shape else "none, and takes 0 alone"
        raise InputError(
            "`target_space_id` must be a row of the checkpoint's target-space "
            f"embedding; it has {table}. Received: "
            f"target_space_id={target_space_id}."
        )


def _block_names(norm: str) -> VariableNames:
    """Returns tensor2tensor's names of the parts of a block."""
    return {
        "self_attention": (
            "self_attention/multihead_attention",
            _ATTENTION_NAMES,
        ),
        "self_attention_norm": (f"self_attention/{norm}", _NORM_NAMES),
        "cross_attention": (
            "encdec_attention/multihead_attention",
            _ATTENTION_NAMES,
        ),
        "cross_attention_norm": (f"encdec_attention/{norm}", _NORM_NAMES),
        "feed_forward": (
            "ffn",
            {"intermediate_dense": "conv1", "output_dense": "conv2"},
        ),
        "feed_forward_norm": (f"ffn/{norm}", _NORM_NAMES),
    }
