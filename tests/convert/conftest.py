"""Checkpoints as tensor2tensor writes them, to read from."""

import numpy as np
import pytest


def tensor2tensor_shapes(hparams, source_size, target_size, num_shards=3):
    """Names and shapes of the variables that tensor2tensor would make."""
    hidden, filters = hparams["hidden_size"], hparams["filter_size"]
    heads = hparams["num_heads"]
    pre_norm = hparams.get("layer_preprocess_sequence", "n") == "n"
    process = "prepostprocess" if pre_norm else "postprocess"
    relative = hparams.get("self_attention_type") == "dot_product_relative"
    key_dim = hparams.get("attention_key_channels") or hidden
    value_dim = hparams.get("attention_value_channels") or hidden
    body = "transformer/body"
    shapes = {}

    def norm(scope):
        for name in ("scale", "bias"):
            shapes[f"{scope}/layer_norm/layer_norm_{name}"] = (hidden,)

    for side in ("encoder", "decoder"):
        for layer in range(hparams["num_hidden_layers"]):
            scope = f"{body}/{side}/layer_{layer}"
            attentions = ["self_attention"]
            if side == "decoder":
                attentions.append("encdec_attention")
            for attention in attentions:
                inner = f"{scope}/{attention}/multihead_attention"
                shapes[f"{inner}/q/kernel"] = (hidden, key_dim)
                shapes[f"{inner}/k/kernel"] = (hidden, key_dim)
                shapes[f"{inner}/v/kernel"] = (hidden, value_dim)
                shapes[f"{inner}/output_transform/kernel"] = (value_dim, hidden)
                if relative and attention == "self_attention":
                    for kind in ("keys", "values"):
                        shapes[
                            f"{inner}/dot_product_attention_relative/"
                            f"relative_positions_{kind}/embeddings"
                        ] = (
                            2 * hparams["max_relative_position"] + 1,
                            key_dim // heads,
                        )
            shapes[f"{scope}/ffn/conv1/kernel"] = (hidden, filters)
            shapes[f"{scope}/ffn/conv1/bias"] = (filters,)
            shapes[f"{scope}/ffn/conv2/kernel"] = (filters, hidden)
            shapes[f"{scope}/ffn/conv2/bias"] = (hidden,)
            for sublayer in (*attentions, "ffn"):
                norm(f"{scope}/{sublayer}/layer_{process}")
        if pre_norm:
            norm(f"{body}/{side}/layer_prepostprocess")
    if hparams.get("use_target_space_embedding", True):
        shapes[f"{body}/target_space_embedding/kernel"] = (32, hidden)
    for use, size in _embeddings(hparams, source_size, target_size):
        for shard in range(num_shards):
            rows = size // num_shards + (shard < size % num_shards)
            scope = f"transformer/symbol_modality_{size}_{hidden}"
            shapes[f"{scope}/{use}/weights_{shard}"] = (rows, hidden)
    return shapes


def _embeddings(hparams, source_size, target_size):
    if source_size != target_size:
        return (
            ("input_emb", source_size),
            ("target_emb", target_size),
            ("softmax", target_size),
        )
    if hparams.get("shared_embedding_and_softmax_weights", True):
        return (("shared", source_size),)
    if hparams.get("shared_embedding"):
        return (("shared", source_size), ("softmax", target_size))
    uses = ("input_emb", "target_emb", "softmax")
    return tuple((use, source_size) for use in uses)


def save_checkpoint(prefix, arrays):
    """Write a checkpoint as TensorFlow 1's `Saver` does."""
    import tensorflow as tf

    tf.raw_ops.SaveV2(
        prefix=str(prefix),
        tensor_names=list(arrays),
        shape_and_slices=[""] * len(arrays),
        tensors=[tf.constant(array) for array in arrays.values()],
    )
    return prefix


@pytest.fixture
def hparams():
    """The smallest hyperparameters with everything in them."""
    return {
        "hidden_size": 12,
        "filter_size": 20,
        "num_heads": 3,
        "num_hidden_layers": 2,
        "self_attention_type": "dot_product_relative",
        "max_relative_position": 4,
        "pos": None,
        "layer_prepostprocess_dropout": 0.1,
        "attention_dropout": 0.2,
        "relu_dropout": 0.3,
        "shared_embedding_and_softmax_weights": True,
    }


@pytest.fixture
def variables(rng):
    """`variables(hparams, source_size, target_size)`: random values."""

    def draw(hparams, source_size=17, target_size=17, **arguments):
        shapes = tensor2tensor_shapes(
            hparams, source_size, target_size, **arguments
        )
        return {
            name: rng.normal(0, 0.3, shape).astype(np.float32)
            for name, shape in shapes.items()
        }

    return draw


@pytest.fixture
def checkpoint(tmp_path):
    """`checkpoint(arrays)` writes them and returns the prefix."""

    def write(arrays, step=1000):
        return save_checkpoint(tmp_path / f"model.ckpt-{step}", arrays)

    return write


@pytest.fixture
def golden_hparams(golden):
    """`golden_hparams(info)`: the whole set of a golden's model."""

    def merge(info):
        base = golden(f"E_hparams/{info['base_hparams']}").info
        return {**base, **info["overrides"]}

    return merge
