"""The model of OpenNMT-tf; imported in its own environment alone."""

from typing import Any

import opennmt


def make_model(**sizes: Any) -> opennmt.models.Transformer:
    """Returns a model of the architecture of `transformer_small_relative`.

    Attention and output have no bias there, so they have none here.

    Args:
        **sizes: Arguments of `Transformer` that differ.
    """
    arguments = {
        "num_layers": 3,
        "num_units": 256,
        "num_heads": 4,
        "ffn_inner_dim": 1024,
        "maximum_relative_position": 16,
        "dropout": 0.1,
        "attention_dropout": 0.1,
        "ffn_dropout": 0.1,
        **sizes,
    }
    width = arguments["num_units"]
    return opennmt.models.Transformer(
        source_inputter=opennmt.inputters.WordEmbedder(embedding_size=width),
        target_inputter=opennmt.inputters.WordEmbedder(embedding_size=width),
        mha_bias=False,
        output_layer_bias=False,
        position_encoder_class=None,
        share_embeddings=opennmt.models.EmbeddingsSharingLevel.ALL,
        **arguments,
    )
