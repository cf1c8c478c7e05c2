"""The sizes and options of a Transformer, and the cost of a training step."""

import dataclasses
from typing import Any

from relative_attention.layers.positions import arguments_of
from relative_attention.layers.positions import encoding_of
from relative_attention.layers.positions import find_names
from relative_attention.layers.positions import to_string
from relative_attention.schema import check_fields
from relative_attention.schema import field_value
from relative_attention.schema import key
from relative_attention.schema import keys_of

# The end of sentence in every target vocabulary.
END_ID = 1
# A file may come from anywhere, and ask for more than any machine has. Beyond
# the largest that are known: a thousand layers, a few million words.
_MOST_LAYERS = 1000
_MOST_FEATURES = 2**18
_MOST_ROWS = 10_000_000
_MOST_POSITIONS = 100_000


@dataclasses.dataclass(frozen=True)
class TransformerConfig:
    """The architecture of a `Transformer`; every field is checked.

    Attributes:
        vocabulary_size: Size `V` of the target vocabulary, and of the source
            vocabulary unless `source_vocabulary_size` is given.
        num_encoder_layers: Blocks of the encoder.
        num_decoder_layers: Blocks of the decoder.
        hidden_dim: Model width `D` (d_x in the paper).
        intermediate_dim: Width `F` of the feed-forward layers.
        num_heads: Attention heads `N`.
        key_dim: Size `H` of a head (d_z in the paper). `None`:
            `hidden_dim / num_heads`.
        value_dim: Size `H_v` of a head's values. `None`: `key_dim`.
        position_encoding: The name of a position encoding, such as
            `"relative"`, `"rotary"` or `"sinusoidal"`; or `None` for no
            positions. The guide to position encodings has all names.
            Or an object of `ra.positions` or of your own subclass of
            `PositionEncoding`, which is kept as its name, such as
            `"mymodule:LogBias"`; its arguments that are fields of the config
            replace those.
        max_relative_position: Clipping distance `K` of `"relative"`, in
            tokens. For `"relative_global"`, the first distance without an
            embedding.
        share_relations_across_heads: Of `"relative"`: one relation table per
            layer (the paper's big model, tensor2tensor) or one per head (its
            base model).
        use_key_relations: Of `"relative"`: whether to add relations to the
            keys (eq. 4).
        use_value_relations: Of `"relative"`: whether to add relations to the
            values (eq. 3).
        normalize_first: Layer normalization before each sublayer and after
            the last block (pre-norm), or after each residual (post-norm).
        layer_norm_epsilon: Added to the variance in layer normalization.
        dropout: Dropout rate on embeddings and on each sublayer's output.
        attention_dropout: Dropout rate on attention scores.
        intermediate_dropout: Dropout rate after the feed-forward ReLU.
        share_embeddings: `"all"`: source, target and logits are one matrix;
            `"target"`: target and logits; `"source_target"`: source and
            target; `"none"`: three matrices.
        source_vocabulary_size: Size of a separate source vocabulary, or
            `None`. If it is another, `share_embeddings` must be `"target"` or
            `"none"`.
        attention_bias: Whether all attention projections have biases, as in
            OpenNMT-tf.
        output_bias: Whether the logits have a bias, as in OpenNMT-tf.
        start_token_id: First input of the decoder: `0` for the zero vector, as
            in tensor2tensor, or the id of a token, as in OpenNMT-tf.
        first_position: The number that a sinusoidal or learned encoding
            gives to the first token: `0`, or `1` as in OpenNMT-tf.
        use_target_space_embedding: Whether a learned vector is added to the
            source embeddings, as in tensor2tensor.
        max_length: Number of positions of a learned encoding.
        implementation: How attention is computed; see `SelfAttention`.
            `"recompute"` is for long texts: its memory grows with the length.

    Example:
    >>> config = ra.TransformerConfig(
    ...     vocabulary_size=8000, hidden_dim=256, position_encoding="rotary"
    ... )
    >>> config.num_encoder_layers, config.num_heads
    (6, 8)
    """

    vocabulary_size: int = key(at_least=1, at_most=_MOST_ROWS)
    num_encoder_layers: int = key(6, at_least=1, at_most=_MOST_LAYERS)
    num_decoder_layers: int = key(6, at_least=1, at_most=_MOST_LAYERS)
    hidden_dim: int = key(512, at_least=1, at_most=_MOST_FEATURES)
    intermediate_dim: int = key(2048, at_least=1, at_most=_MOST_FEATURES)
    num_heads: int = key(8, at_least=1, at_most=_MOST_LAYERS)
    key_dim: int | None = key(None, at_least=1, at_most=_MOST_FEATURES)
    value_dim: int | None = key(None, at_least=1, at_most=_MOST_FEATURES)
    position_encoding: str | None = key("relative")
    max_relative_position: int = key(16, at_least=0, at_most=_MOST_POSITIONS)
    share_relations_across_heads: bool = key(True)
    use_key_relations: bool = key(True)
    use_value_relations: bool = key(True)
    normalize_first: bool = key(False)
    layer_norm_epsilon: float = key(1e-6, is_positive=True)
    dropout: float = key(0.1, is_fraction=True)
    attention_dropout: float = key(0.0, is_fraction=True)
    intermediate_dropout: float = key(0.0, is_fraction=True)
    share_embeddings: str = key(
        "all", choices=("all", "target", "source_target", "none")
    )
    source_vocabulary_size: int | None = key(
        None, at_least=1, at_most=_MOST_ROWS
    )
    attention_bias: bool = key(False)
    output_bias: bool = key(False)
    start_token_id: int = key(0, at_least=0)
    first_position: int = key(0, at_least=0, at_most=_MOST_POSITIONS)
    use_target_space_embedding: bool = key(False)
    max_length: int = key(1024, at_least=1, at_most=_MOST_POSITIONS)
    implementation: str = key(
        "auto", choices=("auto", "recompute", "transpose")
    )

    def __post_init__(self) -> None:
        encoding: Any = self.position_encoding
        if not isinstance(encoding, str | None):
            object.__setattr__(self, "position_encoding", to_string(encoding))
            for name in encoding.config_fields:
                object.__setattr__(self, name, getattr(encoding, name))
        check_fields(self)
        for name, value in arguments_of(self.position_encoding).items():
            # Those that replace fields have their bounds.
            if name in keys_of(TransformerConfig):
                where = "position_encoding: "
                field_value(TransformerConfig, where, name, value)
        if self.start_token_id >= self.vocabulary_size:
            raise ValueError(
                "`start_token_id` must be an id of the target vocabulary, "
                f"below {self.vocabulary_size}. "
                f"Received: start_token_id={self.start_token_id}."
            )
        if self.key_dim is None and self.hidden_dim % self.num_heads:
            raise ValueError(
                "`hidden_dim` must be a multiple of `num_heads` unless "
                "`key_dim` is given. Received: "
                f"hidden_dim={self.hidden_dim}, num_heads={self.num_heads}."
            )
        has_arguments = "(" in (self.position_encoding or "")
        if find_names(self.position_encoding).is_checked or has_arguments:
            encoding_of(self).check(self.head_dim)
        is_shared = self.share_embeddings in ("all", "source_target")
        source_size = self.source_vocabulary_size
        if is_shared and source_size not in (None, self.vocabulary_size):
            raise ValueError(
                '`share_embeddings` must be "target" or "none" where the '
                "vocabularies differ. Received: "
                f"share_embeddings={self.share_embeddings!r}, "
                f"source_vocabulary_size={source_size}, "
                f"vocabulary_size={self.vocabulary_size}."
            )

    @property
    def head_dim(self) -> int:
        """The size `H` of a head."""
        return self.key_dim or self.hidden_dim // self.num_heads


def saved_fields(fields: dict[str, Any]) -> dict[str, Any]:
    """Returns the fields that a file has, with today's names of values."""
    if fields.get("implementation") == "blocks":
        return {**fields, "implementation": "auto"}
    return fields


def training_flops(
    config: TransformerConfig, source_length: int, target_length: int
) -> int:
    """Counts the operations of a training step per sentence pair.

    Counts the matrix products, two operations per multiplication, and twice as
    many backward as forward. Relative positions are not counted, so their cost
    shows as a lower utilization.

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

    def attention(num_queries: int, num_keys: int) -> int:
        # Projections: query and output per query, key and value per key. Then
        # two products per pair of query and key.
        per_pair = num_queries * num_keys
        return (key_width + value_width) * (
            width * (num_queries + num_keys) + per_pair
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
