"""Names each weight of a `Transformer` as tensor2tensor does."""

from typing import Any

import keras

from relative_attention.models import Transformer


def body_variables(model: Transformer, scope: str) -> dict[str, keras.Variable]:
    """Returns the weights of encoder and decoder by tensor2tensor's names.

    Args:
        model: `Transformer`.
        scope: string. The scope of the body, such as `"transformer/body"`.

    Returns:
        Dict of variable name -> Keras variable. A kernel with a head axis has
        its head and size axes joined in tensor2tensor.
    """
    # The scope of a layer normalization is that of the step it belongs to.
    first = model.config.normalize_first
    process = "layer_prepostprocess" if first else "layer_postprocess"
    variables: dict[str, keras.Variable] = {}
    for side in ("encoder", "decoder"):
        for index, block in enumerate(getattr(model, f"{side}_blocks")):
            variables |= _block(f"{scope}/{side}/layer_{index}", block, process)
        norm = getattr(model, f"{side}_norm")
        if norm is not None:
            variables |= _norm(f"{scope}/{side}/{process}", norm)
    return variables


def _block(scope: str, block: Any, process: str) -> dict[str, keras.Variable]:
    """Returns the weights of a layer of the encoder or of the decoder."""
    attentions = {"self_attention": block.self_attention}
    norms = {
        "self_attention": block.self_attention_norm,
        "ffn": block.feed_forward_norm,
    }
    if hasattr(block, "cross_attention"):
        attentions["encdec_attention"] = block.cross_attention
        norms["encdec_attention"] = block.cross_attention_norm
    dense = block.feed_forward
    variables = {
        f"{scope}/ffn/conv1/kernel": dense.intermediate_dense.kernel,
        f"{scope}/ffn/conv1/bias": dense.intermediate_dense.bias,
        f"{scope}/ffn/conv2/kernel": dense.output_dense.kernel,
        f"{scope}/ffn/conv2/bias": dense.output_dense.bias,
    }
    for name, layer in attentions.items():
        variables |= _attention(f"{scope}/{name}/multihead_attention", layer)
    for name, layer in norms.items():
        variables |= _norm(f"{scope}/{name}/{process}", layer)
    return variables


def _attention(scope: str, layer: Any) -> dict[str, keras.Variable]:
    """Returns the weights of an attention, relation tables included."""
    variables = {
        f"{scope}/q/kernel": layer.query_dense.kernel,
        f"{scope}/k/kernel": layer.key_dense.kernel,
        f"{scope}/v/kernel": layer.value_dense.kernel,
        f"{scope}/output_transform/kernel": layer.output_dense.kernel,
    }
    if getattr(layer, "key_relation_embeddings", None) is not None:
        tables = f"{scope}/dot_product_attention_relative/relative_positions"
        variables |= {
            f"{tables}_keys/embeddings": layer.key_relation_embeddings,
            f"{tables}_values/embeddings": layer.value_relation_embeddings,
        }
    return variables


def _norm(scope: str, layer: Any) -> dict[str, keras.Variable]:
    """Returns the weights of a layer normalization."""
    return {
        f"{scope}/layer_norm/layer_norm_scale": layer.gamma,
        f"{scope}/layer_norm/layer_norm_bias": layer.beta,
    }
