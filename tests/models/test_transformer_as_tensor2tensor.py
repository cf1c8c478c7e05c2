"""A whole model against tensor2tensor's: logits, attention, gradients."""

import numpy as np
import pytest

from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.training import MaskedCrossEntropy

PREFIX = "transformer/body/"


def build_model(info):
    overrides, problem = info["overrides"], info["problem"]
    is_v1 = info["base_hparams"] == "transformer_base_v1"
    is_relative = "max_relative_position" in overrides
    vocabularies = problem["vocab_in"], problem["vocab_out"]
    return Transformer(
        TransformerConfig(
            vocabulary_size=vocabularies[1],
            source_vocabulary_size=vocabularies[0],
            share_embeddings=(
                "all" if vocabularies[0] == vocabularies[1] else "none"
            ),
            num_encoder_layers=overrides["num_hidden_layers"],
            num_decoder_layers=overrides["num_hidden_layers"],
            hidden_dim=overrides["hidden_size"],
            intermediate_dim=overrides["filter_size"],
            num_heads=overrides["num_heads"],
            position_encoding="relative" if is_relative else "sinusoidal",
            max_relative_position=overrides.get("max_relative_position", 0),
            normalize_first=not is_v1,
            dropout=0.0,
            use_target_space_embedding=True,
        )
    )


def norm_weights(scope, layer):
    return {
        f"{scope}/layer_norm/layer_norm_scale": layer.gamma,
        f"{scope}/layer_norm/layer_norm_bias": layer.beta,
    }


def attention_weights(scope, layer):
    weights = {
        f"{scope}/q/kernel": layer.query_dense.kernel,
        f"{scope}/k/kernel": layer.key_dense.kernel,
        f"{scope}/v/kernel": layer.value_dense.kernel,
        f"{scope}/output_transform/kernel": layer.output_dense.kernel,
    }
    if getattr(layer, "key_relation_embeddings", None) is not None:
        tables = f"{scope}/dot_product_attention_relative/relative_positions"
        weights |= {
            f"{tables}_keys/embeddings": layer.key_relation_embeddings,
            f"{tables}_values/embeddings": layer.value_relation_embeddings,
        }
    return weights


def block_weights(scope, block, process):
    sublayers = {"self_attention": block.self_attention}
    norms = {
        "self_attention": block.self_attention_norm,
        "ffn": block.feed_forward_norm,
    }
    if hasattr(block, "cross_attention"):
        sublayers["encdec_attention"] = block.cross_attention
        norms["encdec_attention"] = block.cross_attention_norm
    dense = block.feed_forward
    weights = {
        f"{scope}/ffn/conv1/kernel": dense.intermediate_dense.kernel,
        f"{scope}/ffn/conv1/bias": dense.intermediate_dense.bias,
        f"{scope}/ffn/conv2/kernel": dense.output_dense.kernel,
        f"{scope}/ffn/conv2/bias": dense.output_dense.bias,
    }
    for name, layer in sublayers.items():
        weights |= attention_weights(
            f"{scope}/{name}/multihead_attention", layer
        )
    for name, layer in norms.items():
        weights |= norm_weights(f"{scope}/{name}/layer_{process}", layer)
    return weights


def body_weights(model):
    """The model's weights by tensor2tensor's names, but the embeddings."""
    first = model.config.normalize_first
    process = "prepostprocess" if first else "postprocess"
    weights = {}
    for side in ("encoder", "decoder"):
        for index, block in enumerate(getattr(model, f"{side}_blocks")):
            scope = f"{PREFIX}{side}/layer_{index}"
            weights |= block_weights(scope, block, process)
        norm = getattr(model, f"{side}_norm")
        if norm is not None:
            scope = f"{PREFIX}{side}/layer_prepostprocess"
            weights |= norm_weights(scope, norm)
    return weights


def embedding_scopes(model):
    """tensor2tensor's scope of each embedding matrix."""
    config = model.config
    scope = "transformer/symbol_modality_{}_{}/{}".format
    target, dim = config.vocabulary_size, config.hidden_dim
    if config.share_embeddings == "all":
        return {scope(target, dim, "shared"): model.source_embedding}
    source = config.source_vocabulary_size
    return {
        scope(source, dim, "input_emb"): model.source_embedding,
        scope(target, dim, "target_emb"): model.target_embedding,
        scope(target, dim, "softmax"): model.output_embedding,
    }


def joined_shards(golden, kind, scope):
    prefix = f"{kind}/{scope}/weights_"
    num_shards = sum(key.startswith(prefix) for key in golden)
    return np.concatenate(
        [golden[f"{prefix}{shard}"] for shard in range(num_shards)]
    )


@pytest.fixture
def load(golden):
    def load(name):
        data = golden(f"C_{name}")
        model = build_model(data.info)
        weights = body_weights(model)
        for key, weight in weights.items():
            weight.assign(data[f"vars/{key}"].reshape(weight.shape))
        for scope, layer in embedding_scopes(model).items():
            layer.embeddings.assign(joined_shards(data, "vars", scope))
        spaces = data[f"vars/{PREFIX}target_space_embedding/kernel"]
        model.target_space_embedding.embedding.assign(
            spaces[data.info["problem"]["target_space_id"]]
        )
        # Every weight of ours has one of theirs.
        assert len(model.trainable_weights) == 1 + len(weights) + len(
            embedding_scopes(model)
        )
        inputs = {
            "source_token_ids": data["inputs"],
            "target_token_ids": np.pad(
                data["targets"][:, :-1], ((0, 0), (1, 0))
            ),
        }
        return model, inputs, data

    return load


MODELS = pytest.mark.parametrize(
    "name",
    [
        "base_s2",
        pytest.param("relative_s1", marks=pytest.mark.large),
        "relative_unshared_s1",
        "v1_relative_s1",
    ],
)


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)


@MODELS
def test_logits_and_attention_are_tensor2tensors(load, name):
    model, inputs, data = load(name)
    real = data["inputs"] != 0
    # At padding tensor2tensor's feed-forward layers give 0; no one looks.
    assert_same(
        np.array(model.encode(data["inputs"]))[real],
        data["encoder_output"][real],
    )
    logits = np.array(model(inputs))
    assert_same(logits, data["logits"])
    loss = MaskedCrossEntropy()(data["targets"], logits)
    np.testing.assert_allclose(loss, data["train_loss"], rtol=1e-5)

    kind = "dot_product_attention"
    if model.config.position_encoding == "relative":
        kind += "_relative"
    for side, ours in model.attention_scores(inputs).items():
        for index, scores in enumerate(map(np.array, ours)):
            if side == "cross":
                scope = f"decoder/layer_{index}/encdec_attention"
                key = f"{scope}/multihead_attention/dot_product_attention"
            else:
                scope = f"{side}/layer_{index}/self_attention"
                key = f"{scope}/multihead_attention/{kind}"
            expected = data[f"attention/{PREFIX}{key}"]
            if side == "encoder":
                scores = scores * real[:, None, :, None]
                expected = expected * real[:, None, :, None]
            assert_same(scores, expected)


@MODELS
def test_cached_steps_are_tensor2tensors(load, name):
    model, inputs, data = load(name)
    cache = model.start_cache(data["inputs"])
    for position in range(data["targets"].shape[1]):
        logits, cache = model.decode_step(
            inputs["target_token_ids"][:, position : position + 1],
            cache,
            position,
        )
        assert_same(logits[:, 0], data["logits"][:, position])


@MODELS
def test_gradients_are_tensor2tensors(load, gradients, name):
    model, inputs, data = load(name)
    # Of each side the first block alone, whose gradients come through the next.
    weights = {
        key: weight
        for key, weight in body_weights(model).items()
        if f"grads/{key}" in data
    }
    is_second = ["/layer_1/" in key for key in body_weights(model)]
    assert len(weights) == is_second.count(False)
    scopes = embedding_scopes(model)
    results = gradients(
        lambda: MaskedCrossEntropy()(
            data["targets"], model(inputs, training=True)
        ),
        variables=[
            *weights.values(),
            *(layer.embeddings for layer in scopes.values()),
        ],
    )
    expected = [
        *(data[f"grads/{key}"] for key in weights),
        *(joined_shards(data, "grads", scope) for scope in scopes),
    ]
    for key, result, wanted in zip([*weights, *scopes], results, expected):
        np.testing.assert_allclose(
            result,
            wanted.reshape(result.shape),
            rtol=1e-4,
            atol=1e-5 * max(1, np.abs(wanted).max()),
            err_msg=key,
        )
