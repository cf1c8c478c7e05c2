"""The Transformer, with relative or absolute positions.

Which positions there may be, and how to add others, is in
`positions/__init__.py`; the layers are made in `transformer_layers.py`; how it
decodes a position at a time is in `decoding_steps.py`.
"""

from typing import Any

import keras
from keras import ops

from relative_attention.layers.attention_parts import AttentionParts
from relative_attention.models.decoding_steps import DecodingSteps
from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.models.transformer_inputs import check_inputs
from relative_attention.models.transformer_inputs import check_token_ids
from relative_attention.models.transformer_layers import TransformerLayers
from relative_attention.ops.masks import padding_mask
from relative_attention.tensor_type import Tensor


@keras.saving.register_keras_serializable(package="relative_attention")
class Transformer(DecodingSteps):
    """Encoder and decoder for translation, by token ids.

    Ids: padding 0, end of sentence 1. An id 0 embeds to the zero vector. The
    decoder's inputs are the target ids shifted right; they start with
    `start_token_id`, which is 0 unless the config has another:

        source_token_ids  [12, 7, 31,  1,  0]
        target_token_ids  [ 0,  9, 22, 14]      what the decoder is given
        labels            [ 9, 22, 14,  1]      what it should answer

    `model.fit` takes batches `({"source_token_ids", "target_token_ids"},
    labels)`; `MaskedCrossEntropy` is the loss. How a step works on several
    replicas, and what `fit` shows, is in `TrainableModel`.

    Args:
        config: `TransformerConfig`.
        **kwargs: arguments of `keras.Model`: `name`, `dtype`.

    Call arguments:
        inputs: dict of `"source_token_ids"` int `(B, S)` and
            `"target_token_ids"` int `(B, T)`.
        training: A boolean to indicate whether dropout is active.

    Returns:
        Float tensor `(B, T, V)`, the logits of the next token.

    Raises:
        TypeError: if `config` is no `TransformerConfig`.
        ValueError: if the inputs are no such dict, are of different numbers
            of sentences, or hold what is no id of the vocabulary.

    Example:
    >>> model = Transformer.from_preset(
    ...     "transformer_tiny_relative", vocabulary_size=1000
    ... )
    >>> ids = np.array([[5, 6, 1]])
    >>> model({"source_token_ids": ids, "target_token_ids": ids}).shape
    (1, 3, 1000)

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155)
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """

    def __init__(self, config: TransformerConfig, **kwargs: Any) -> None:
        super().__init__(config, **kwargs)
        layers = TransformerLayers(config, self.dtype_policy)
        self.source_embedding, self.target_embedding, self.output_embedding = (
            layers.embeddings()
        )
        self.target_space_embedding = layers.target_space()
        self.encoder_positions = layers.positions("encoder_positions")
        self.decoder_positions = layers.positions("decoder_positions")
        self.embedding_dropout = layers.dropout()
        self.encoder_blocks = [
            layers.encoder_block(f"encoder_block_{index}")
            for index in range(config.num_encoder_layers)
        ]
        self.decoder_blocks = [
            layers.decoder_block(f"decoder_block_{index}")
            for index in range(config.num_decoder_layers)
        ]
        self.encoder_norm = layers.final_norm("encoder_norm")
        self.decoder_norm = layers.final_norm("decoder_norm")
        # Every size is known, so the weights are there at once: to count, to
        # load, and to be created inside a distribution strategy's scope.
        self.build()

    def build(self, input_shape: Any = None) -> None:
        shape = (None, None, self.config.hidden_dim)
        for embedding in (
            self.source_embedding,
            self.target_embedding,
            self.output_embedding,
        ):
            if not embedding.built:
                embedding.build((None, None))
        for layer in (
            self.target_space_embedding,
            self.encoder_positions,
            self.decoder_positions,
            self.encoder_norm,
            self.decoder_norm,
            *self.encoder_blocks,
        ):
            if layer is not None:
                layer.build(shape)
        for block in self.decoder_blocks:
            block.build(shape, shape)
        self.output_bias = None
        if self.config.output_bias:
            self.output_bias = self.add_weight(
                name="output_bias",
                shape=(self.config.vocabulary_size,),
                initializer="zeros",
            )
        self.built = True

    # === Equations ===

    def call(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> Tensor:
        return self.logits(self.decoder_outputs(inputs, training=training))

    def decoder_outputs(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        encoder_outputs: Tensor | None = None,
    ) -> Tensor:
        """Computes the hidden states that the logits are products of.

        Args:
            inputs: as of a call.
            training: A boolean to indicate whether dropout is active.
            encoder_outputs: float tensor `(B, S, D)`, what `encode` returned
                for the source. Defaults to `None`, where it is called here.

        Returns:
            Float tensor `(B, T, D)`.
        """
        check_inputs(inputs)
        source_token_ids = inputs["source_token_ids"]
        if encoder_outputs is None:
            encoder_outputs = self.encode(source_token_ids, training=training)
        hidden, _, _ = self._decode(
            inputs["target_token_ids"],
            encoder_outputs,
            padding_mask(source_token_ids),
            training=training,
        )
        return hidden

    def logits(
        self, decoder_outputs: Tensor, transposed_matrix: Tensor | None = None
    ) -> Tensor:
        """Computes the logits of what `decoder_outputs` returned.

        Args:
            decoder_outputs: float tensor `(B, T, D)`.
            transposed_matrix: float tensor `(D, V)`, what
                `output_embedding.transposed_matrix` returned, where that is
                at hand. Defaults to `None`.

        Returns:
            Float tensor `(B, T, V)`.
        """
        logits = self.output_embedding.logits(
            decoder_outputs, transposed_matrix
        )
        if self.output_bias is not None:
            logits = logits + ops.cast(self.output_bias, logits.dtype)
        return logits

    def encode(
        self,
        source_token_ids: Tensor,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes the encoder's outputs of source ids.

        Args:
            source_token_ids: int tensor `(B, S)`.
            return_attention_scores: A boolean to indicate whether to return
                the scores, too. Defaults to `False`.
            training: A boolean to indicate whether dropout is active.

        Returns:
            Encoder outputs, float tensor `(B, S, D)`, or the pair of them
            and a list of scores `(B, N, S, S)`, one for each block.
        """
        check_token_ids("source_token_ids", source_token_ids)
        mask = padding_mask(source_token_ids)[:, None, :]
        hidden = self._embed_source(source_token_ids, training=training)
        scores = []
        for block in self.encoder_blocks:
            hidden = block(
                hidden,
                attention_mask=mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                hidden, block_scores = hidden
                scores.append(block_scores)
        if self.encoder_norm is not None:
            hidden = self.encoder_norm(hidden)
        return (hidden, scores) if return_attention_scores else hidden

    def decode(
        self,
        target_token_ids: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> Any:
        """Computes the logits of target ids, given the encoder's outputs.

        Args:
            target_token_ids: int tensor `(B, T)`; rows start with
                `start_token_id`.
            encoder_outputs: float tensor `(B, S, D)`.
            source_padding_mask: bool tensor `(B, S)`. `True` = real token.
            return_attention_scores: A boolean to indicate whether to return
                the scores, too. Defaults to `False`.
            training: A boolean to indicate whether dropout is active.

        Returns:
            Logits, float tensor `(B, T, V)`, or a triple of them and two
            lists of scores, one for each block: of self-attention
            `(B, N, T, T)`, and of attention to the source `(B, N, T, S)`.
        """
        hidden, self_scores, cross_scores = self._decode(
            target_token_ids,
            encoder_outputs,
            source_padding_mask,
            return_attention_scores=return_attention_scores,
            training=training,
        )
        logits = self.logits(hidden)
        if return_attention_scores:
            return logits, self_scores, cross_scores
        return logits

    def _decode(
        self,
        target_token_ids: Tensor,
        encoder_outputs: Tensor,
        source_padding_mask: Tensor,
        return_attention_scores: bool = False,
        training: bool | None = None,
    ) -> tuple[Tensor, list[Tensor], list[Tensor]]:
        """Computes what `decode` projects, and scores if asked for."""
        check_token_ids("target_token_ids", target_token_ids)
        hidden = self._embed_target(target_token_ids, training=training)
        self_scores, cross_scores = [], []
        for block in self.decoder_blocks:
            hidden = block(
                hidden,
                encoder_outputs,
                source_padding_mask=source_padding_mask,
                return_attention_scores=return_attention_scores,
                training=training,
            )
            if return_attention_scores:
                hidden, *block_scores = hidden
                self_scores.append(block_scores[0])
                cross_scores.append(block_scores[1])
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        return hidden, self_scores, cross_scores

    def attention_scores(
        self, inputs: dict[str, Tensor]
    ) -> dict[str, list[Tensor]]:
        """Computes what every head attends to, for looking at.

        Args:
            inputs: as of a call.

        Returns:
            Dict of lists with a float tensor for each block: `"encoder"`
            `(B, N, S, S)`, `"decoder"` `(B, N, T, T)` and `"cross"`
            `(B, N, T, S)`.
        """
        check_inputs(inputs)
        source_token_ids = inputs["source_token_ids"]
        encoder_outputs, encoder_scores = self.encode(
            source_token_ids, return_attention_scores=True
        )
        _, self_scores, cross_scores = self.decode(
            inputs["target_token_ids"],
            encoder_outputs,
            padding_mask(source_token_ids),
            return_attention_scores=True,
        )
        return {
            "encoder": encoder_scores,
            "decoder": self_scores,
            "cross": cross_scores,
        }

    def attention_parts(
        self, inputs: dict[str, Tensor]
    ) -> dict[str, list[AttentionParts]]:
        """Computes how much of attention is content and how much position.

        Args:
            inputs: as of a call.

        Returns:
            Dict of lists with `AttentionParts` for each block: `"encoder"`,
            `"decoder"` and `"cross"`, whose `scores` are those of
            `attention_scores`.
        """
        check_inputs(inputs)
        source_mask = padding_mask(inputs["source_token_ids"])
        parts: dict[str, list[AttentionParts]]
        parts = {"encoder": [], "decoder": [], "cross": []}
        source = self._embed_source(inputs["source_token_ids"])
        for block in self.encoder_blocks:
            source, block_parts = block.attention_parts(
                source, source_mask[:, None, :]
            )
            parts["encoder"].append(block_parts)
        if self.encoder_norm is not None:
            source = self.encoder_norm(source)
        hidden = self._embed_target(inputs["target_token_ids"])
        for block in self.decoder_blocks:
            hidden, self_parts, cross_parts = block.attention_parts(
                hidden, source, source_mask
            )
            parts["decoder"].append(self_parts)
            parts["cross"].append(cross_parts)
        return parts

    def _embed_source(self, token_ids: Tensor, **options: Any) -> Tensor:
        return self._embed(
            self.source_embedding,
            self.encoder_positions,
            token_ids,
            space=self.target_space_embedding,
            **options,
        )

    def _embed_target(self, token_ids: Tensor, **options: Any) -> Tensor:
        return self._embed(
            self.target_embedding, self.decoder_positions, token_ids, **options
        )

    def _embed(
        self,
        embedding: keras.layers.Layer,
        positions: keras.layers.Layer | None,
        token_ids: Tensor,
        space: keras.layers.Layer | None = None,
        start_position: int | Tensor = 0,
        training: bool | None = None,
    ) -> Tensor:
        # tensor2tensor's order: scaled embedding, target space, positions.
        hidden = embedding(token_ids)
        if space is not None:
            hidden = space(hidden)
        if positions is not None:
            hidden = positions(
                hidden,
                start_position=start_position + self.config.first_position,
            )
        return self.embedding_dropout(hidden, training=training)
