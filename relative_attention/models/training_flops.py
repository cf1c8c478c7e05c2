"""The number of floating-point operations of a training step."""

from relative_attention.models.transformer_config import TransformerConfig


def training_flops(
    config: TransformerConfig, source_length: int, target_length: int
) -> int:
    """Counts the operations of a training step, for each sentence pair.

    The matrix products of the model without relative positions, two
    operations for each multiplication, forward and twice that backward; what
    relative positions add is not counted, so that the utilisation of a model
    with them shows what they cost. Nor is what is not a matrix product.

    Args:
        config: `TransformerConfig`.
        source_length, target_length: int. Tokens.

    Returns:
        int.
    """
    width = config.hidden_dim
    key_width = config.num_heads * config.head_dim
    value_width = config.num_heads * (config.value_dim or config.head_dim)
    feed_forward = 2 * width * config.intermediate_dim
    # Queries, keys, values and outputs, once for each token of their side.
    by_query = width * (key_width + value_width)
    by_key = width * (key_width + value_width)

    def attention(num_queries: int, num_keys: int) -> int:
        return (
            by_query * num_queries
            + by_key * num_keys
            + (key_width + value_width) * num_queries * num_keys
        )

    encoder = config.num_encoder_layers * (
        attention(source_length, source_length) + feed_forward * source_length
    )
    decoder = config.num_decoder_layers * (
        attention(target_length, target_length)
        + attention(target_length, source_length)
        + feed_forward * target_length
    )
    logits = width * config.vocabulary_size * target_length
    return 3 * 2 * (encoder + decoder + logits)
