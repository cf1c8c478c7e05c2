"""A new model's weights are drawn as tensor2tensor draws them."""

import re

import numpy as np

import relative_attention as ra

# From tensor2tensor's names to ours, in this order.
RENAMINGS = {
    r"^transformer/(body/)?": "",
    r"symbol_modality_.*": "embedding/embeddings",
    r"target_space_embedding/kernel": "target_space_embedding/embedding",
    r"coder/layer_0": "coder_block_0",
    r"encdec": "cross",
    r"ffn": "feed_forward",
    r"/layer_prepostprocess/layer_norm/layer_norm_scale": "_norm/gamma",
    r"/layer_prepostprocess/layer_norm/layer_norm_bias": "_norm/beta",
    r"multihead_attention/": "",
    r"dot_product.*_keys/embeddings": "key_relation_embeddings",
    r"dot_product.*_values/embeddings": "value_relation_embeddings",
    r"/q/": "/query/",
    r"/k/": "/key/",
    r"/v/": "/value/",
    r"output_transform|conv2": "output",
    r"conv1": "intermediate",
}


def test_initial_values_are_distributed_as_tensor2tensors(golden):
    model = ra.Transformer.from_preset(
        "t2t_transformer_relative",
        vocabulary_size=2000,
        num_encoder_layers=1,
        num_decoder_layers=1,
    )
    weights = {
        weight.path.split("/", 1)[1]: np.array(weight, "float64")
        for weight in model.trainable_weights
    }
    sizes = {}
    for name, theirs in (
        golden("E_initial_values_stats").info["variables"].items()
    ):
        for pattern, replacement in RENAMINGS.items():
            name = re.sub(pattern, replacement, name)
        values = weights[name]
        sizes[name] = sizes.get(name, 0) + np.prod(theirs["shape"])
        if theirs["std"] == 0:
            assert (values == theirs["mean"]).all(), name
            continue
        _assert_same_distribution(values, theirs, name)
    # We have the one row of 32 that is used.
    sizes["target_space_embedding/embedding"] //= 32
    assert sizes == {name: values.size for name, values in weights.items()}


def _assert_same_distribution(values, theirs, name):
    # Five standard errors; that of the deviation is at most 0.71 / sqrt(n) of
    # it, and there are two of them.
    num_values = min(values.size, np.prod(theirs["shape"]))
    np.testing.assert_allclose(
        values.std(), theirs["std"], rtol=5 / num_values**0.5, err_msg=name
    )
    np.testing.assert_allclose(
        values.mean() / values.std(), 0, atol=5 / values.size**0.5, err_msg=name
    )
    largest, limit = np.abs(values).max(), theirs["glorot_limit"]
    if theirs["max"] <= limit:
        # Uniform: that no value lies above has a probability of e^-15.
        assert largest <= limit * (1 + 1e-6), name
        assert largest > limit * np.exp(-15 / values.size), name
    else:
        # Normal, and not cut off at two deviations.
        assert largest > 4 * values.std(), name
        kurtosis = (values**4).mean() / values.std() ** 4
        np.testing.assert_allclose(kurtosis, 3, rtol=0.05, err_msg=name)
