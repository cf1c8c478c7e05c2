"""A whole model against tensor2tensor's: encoder, attention and gradients.

Logits, losses, searches and updates are compared in `tests/convert`.
"""

import numpy as np
import pytest

import relative_attention as ra
from tests.convert.conftest import save_checkpoint

MODELS = pytest.mark.parametrize(
    "name", ["base_s2", "relative_unshared_s1", "v1_relative_s1"]
)


@pytest.fixture
def load(golden, tmp_path):
    """`load(name, kind)`: a model whose weights are variables or gradients."""

    def load(name, kind):
        data = golden(f"C_{name}")
        names = [key[5:] for key in data if key.startswith("vars/")]
        arrays = {
            # Of each side gradients of the first block alone are there; they
            # come through the next.
            name: data.get(
                f"{kind}/{name}", np.zeros_like(data[f"vars/{name}"])
            )
            for name in names
        }
        base = golden(f"E_hparams/{data.info['base_hparams']}").info
        model = ra.load_tensor2tensor(
            save_checkpoint(tmp_path / f"{kind}.ckpt-1", arrays),
            {**base, **data.info["overrides"]},
            data.info["problem"]["target_space_id"],
        )
        inputs = {
            "source_token_ids": data["inputs"],
            "target_token_ids": np.pad(
                data["targets"][:, :-1], ((0, 0), (1, 0))
            ),
        }
        return model, inputs, data

    return load


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=2e-5)


@MODELS
def test_encoder_and_attention_are_tensor2tensors(load, name):
    model, inputs, data = load(name, "vars")
    real = data["inputs"] != 0
    # At padding tensor2tensor's feed-forward layers give 0; no one looks.
    assert_same(
        np.array(model.encode(data["inputs"]))[real],
        data["encoder_output"][real],
    )
    kind = "dot_product_attention"
    if model.config.position_encoding == "relative":
        kind += "_relative"
    for side, ours in model.attention_scores(inputs).items():
        for index, scores in enumerate(map(np.array, ours)):
            scope = f"{side}/layer_{index}/self_attention"
            key = f"{scope}/multihead_attention/{kind}"
            if side == "cross":
                scope = f"decoder/layer_{index}/encdec_attention"
                key = f"{scope}/multihead_attention/dot_product_attention"
            expected = data[f"attention/transformer/body/{key}"]
            if side == "encoder":
                scores = scores * real[:, None, :, None]
                expected = expected * real[:, None, :, None]
            assert_same(scores, expected)


@MODELS
def test_gradients_are_tensor2tensors(load, gradients, name):
    model, inputs, data = load(name, "vars")
    wanted, _, _ = load(name, "grads")
    pairs = [
        (weight, np.array(gradient))
        for weight, gradient in zip(
            model.trainable_weights, wanted.trainable_weights
        )
        if "_block_1/" not in weight.path
    ]
    assert len(pairs) > 20 and all(gradient.any() for _, gradient in pairs)
    results = gradients(
        lambda: ra.MaskedCrossEntropy()(
            data["targets"], model(inputs, training=False)
        ),
        variables=[weight for weight, _ in pairs],
    )
    for result, (weight, expected) in zip(results, pairs):
        np.testing.assert_allclose(
            result,
            expected,
            rtol=1e-4,
            atol=1e-5 * max(1, np.abs(expected).max()),
            err_msg=weight.path,
        )
