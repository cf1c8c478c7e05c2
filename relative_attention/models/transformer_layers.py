"""Makes the layers that a config asks for."""

from typing import Any

import keras

from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.attention import SelfAttention
from relative_attention.layers.blocks import LayerNormalization
from relative_attention.layers.blocks import TransformerDecoderBlock
from relative_attention.layers.blocks import TransformerEncoderBlock
from relative_attention.layers.dense import FeedForward
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.embeddings import TargetSpaceEmbedding
from relative_attention.layers.embeddings import TokenEmbedding
from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.positions import POSITION_ENCODINGS


class TransformerLayers:
    """Makes the layers of a `Transformer`; every call makes new ones.

    Args:
        config: `TransformerConfig`.
        dtype: dtype policy of the layers.
    """

    def __init__(
        self, config: TransformerConfig, dtype: keras.DTypePolicy
    ) -> None:
        self.config = config
        self.dtype = dtype

    def embeddings(self) -> tuple[TokenEmbedding, ...]:
        """Makes source, target and output embedding; some may be the same."""
        config = self.config
        if config.share_embeddings == "all":
            shared = self._embedding("embedding", config.vocabulary_size)
            return shared, shared, shared
        if config.share_embeddings == "source_target":
            shared = self._embedding("embedding", config.vocabulary_size)
            output = self._embedding("output_embedding", config.vocabulary_size)
            return shared, shared, output
        source = self._embedding(
            "source_embedding",
            config.source_vocabulary_size or config.vocabulary_size,
        )
        target = self._embedding("target_embedding", config.vocabulary_size)
        if config.share_embeddings == "target":
            return source, target, target
        output = self._embedding("output_embedding", config.vocabulary_size)
        return source, target, output

    def _embedding(self, name: str, vocabulary_size: int) -> TokenEmbedding:
        return TokenEmbedding(
            vocabulary_size,
            self.config.hidden_dim,
            dtype=self.dtype,
            name=name,
        )

    def target_space(self) -> TargetSpaceEmbedding | None:
        """Makes the embedding of the target space, if there is to be one."""
        if not self.config.use_target_space_embedding:
            return None
        return TargetSpaceEmbedding(
            dtype=self.dtype, name="target_space_embedding"
        )

    def positions(self, name: str) -> keras.layers.Layer | None:
        """Makes the layer of absolute positions, if there is to be one."""
        names = POSITION_ENCODINGS[self.config.position_encoding]
        layer = names.embedding_class()
        if layer is None:
            return None
        fields = {
            field: getattr(self.config, field) for field in layer.config_fields
        }
        return layer(**fields, dtype=self.dtype, name=name)

    def dropout(self) -> Dropout:
        """Makes the dropout on embeddings."""
        return Dropout(self.config.dropout, dtype=self.dtype)

    def encoder_block(self, name: str) -> TransformerEncoderBlock:
        """Makes a block of the encoder."""
        return TransformerEncoderBlock(
            self._self_attention(bidirectional=True),
            self._feed_forward(),
            name=name,
            **self._block_arguments(),
        )

    def decoder_block(self, name: str) -> TransformerDecoderBlock:
        """Makes a block of the decoder."""
        return TransformerDecoderBlock(
            self._self_attention(bidirectional=False),
            CrossAttention(
                self.config.num_heads,
                self.config.head_dim,
                value_dim=self.config.value_dim,
                dropout=self.config.attention_dropout,
                use_bias=self.config.attention_bias,
                dtype=self.dtype,
                name="cross_attention",
            ),
            self._feed_forward(),
            name=name,
            **self._block_arguments(),
        )

    def final_norm(self, name: str) -> LayerNormalization | None:
        """Makes the normalization after the last block, with pre-norm."""
        if not self.config.normalize_first:
            return None
        return LayerNormalization(
            epsilon=self.config.layer_norm_epsilon,
            dtype=self.dtype,
            name=name,
        )

    def _self_attention(self, bidirectional: bool) -> SelfAttention:
        config = self.config
        names = POSITION_ENCODINGS[config.position_encoding]
        return SelfAttention(
            config.num_heads,
            config.head_dim,
            names.attention_class().from_transformer(config),
            value_dim=config.value_dim,
            bidirectional=bidirectional,
            dropout=config.attention_dropout,
            use_bias=config.attention_bias,
            implementation=config.implementation,
            dtype=self.dtype,
            name="self_attention",
        )

    def _feed_forward(self) -> FeedForward:
        return FeedForward(
            self.config.intermediate_dim,
            dropout=self.config.intermediate_dropout,
            dtype=self.dtype,
            name="feed_forward",
        )

    def _block_arguments(self) -> dict[str, Any]:
        return {
            "dropout": self.config.dropout,
            "normalize_first": self.config.normalize_first,
            "layer_norm_epsilon": self.config.layer_norm_epsilon,
            "dtype": self.dtype,
        }
