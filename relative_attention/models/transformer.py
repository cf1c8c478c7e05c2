"""The Transformer, with relative or absolute positions."""

import dataclasses

import keras
from keras import ops

from relative_attention.models.find_preset import find_preset
from relative_attention.models.token_id_model import TokenIdModel
from relative_attention.models.transformer_config import TransformerConfig
from relative_attention.models.transformer_inputs import check_inputs
from relative_attention.models.transformer_inputs import check_token_ids
from relative_attention.models.transformer_layers import TransformerLayers
from relative_attention.models.weights import load_weights
from relative_attention.ops.masks import padding_mask


@keras.saving.register_keras_serializable(package="relative_attention")
class Transformer(TokenIdModel):
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
        training: bool. Whether dropout is active.

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

    def __init__(self, config, **kwargs):
        if not isinstance(config, TransformerConfig):
            raise TypeError(
                "`config` must be a TransformerConfig. Received: "
                f"config={config!r}. For a preset, call "
                "`Transformer.from_preset(name, vocabulary_size=...)`."
            )
        super().__init__(**kwargs)
        self.config = config
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

    def build(self, input_shape=None):
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

    def call(self, inputs, training=None):
        check_inputs(inputs)
        source_token_ids = inputs["source_token_ids"]
        encoder_outputs = self.encode(source_token_ids, training=training)
        return self.decode(
            inputs["target_token_ids"],
            encoder_outputs,
            padding_mask(source_token_ids),
            training=training,
        )

    def encode(
        self, source_token_ids, return_attention_scores=False, training=None
    ):
        """What the encoder makes of source ids.

        Args:
            source_token_ids: int tensor `(B, S)`.
            return_attention_scores: bool. Also return the scores. Defaults
                to `False`.
            training: bool. Whether dropout is active.

        Returns:
            Encoder outputs, float tensor `(B, S, D)`, or the pair of them
            and a list of scores `(B, N, S, S)`, one for each block.
        """
        check_token_ids("source_token_ids", source_token_ids)
        mask = padding_mask(source_token_ids)[:, None, :]
        hidden = self._embed(
            self.source_embedding,
            self.encoder_positions,
            source_token_ids,
            space=self.target_space_embedding,
            training=training,
        )
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
        target_token_ids,
        encoder_outputs,
        source_padding_mask,
        return_attention_scores=False,
        training=None,
    ):
        """Logits of target ids, given the encoder's outputs.

        Args:
            target_token_ids: int tensor `(B, T)`; rows start with
                `start_token_id`.
            encoder_outputs: float tensor `(B, S, D)`.
            source_padding_mask: bool tensor `(B, S)`. `True` = real token.
            return_attention_scores: bool. Also return the scores. Defaults
                to `False`.
            training: bool. Whether dropout is active.

        Returns:
            Logits, float tensor `(B, T, V)`, or a triple of them and two
            lists of scores, one for each block: of self-attention
            `(B, N, T, T)`, and of attention to the source `(B, N, T, S)`.
        """
        check_token_ids("target_token_ids", target_token_ids)
        hidden = self._embed(
            self.target_embedding,
            self.decoder_positions,
            target_token_ids,
            training=training,
        )
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
        logits = self._logits(hidden)
        if return_attention_scores:
            return logits, self_scores, cross_scores
        return logits

    def attention_scores(self, inputs):
        """What every head attends to, for looking at.

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

    def _embed(
        self,
        embedding,
        positions,
        token_ids,
        space=None,
        start_position=0,
        training=None,
    ):
        hidden = embedding(token_ids)
        if space is not None:
            hidden = space(hidden)
        if positions is not None:
            hidden = positions(
                hidden,
                start_position=start_position + self.config.first_position,
            )
        return self.embedding_dropout(hidden, training=training)

    def _logits(self, hidden, few_rows=False):
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        logits = self.output_embedding.logits(hidden, few_rows)
        if self.output_bias is not None:
            logits = logits + ops.cast(self.output_bias, logits.dtype)
        return logits

    # === Decoding, a position at a time ===

    def start_cache(self, source_token_ids):
        """Encode, and prepare the cache that `decode_step` reads and extends.

        Args:
            source_token_ids: int tensor `(B, S)`.

        Returns:
            Dict: `"source_padding_mask"` `(B, S)` and `"blocks"`, a list of
            what `TransformerDecoderBlock.start_cache` returns. The first axis
            of every tensor is that of the sentences.
        """
        encoder_outputs = self.encode(source_token_ids)
        return {
            "source_padding_mask": padding_mask(source_token_ids),
            "blocks": [
                block.start_cache(encoder_outputs)
                for block in self.decoder_blocks
            ],
        }

    def merge_cache(self, cache):
        """See `RelativeSelfAttention.merge_cache`.

        Args:
            cache: what `start_cache` or `decode_step` returned.
        """
        blocks = [
            block.merge_cache(block_cache)
            for block, block_cache in zip(self.decoder_blocks, cache["blocks"])
        ]
        return {**cache, "blocks": blocks}

    def decode_step(self, token_ids, cache, position, ancestors=None):
        """Logits of the next token, from one token and the cache.

        Args:
            token_ids: int tensor `(B, M)`: the token at `position` of each of
                `M` hypotheses a sentence; `start_token_id` at the first.
            cache: what `start_cache`, `merge_cache` or the step before
                returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`: in which of the `M`
                places each hypothesis, or what it continues, stood at each
                position. Defaults to `None`, in its own at all. See
                `RelativeSelfAttention.decode_step`.

        Returns:
            Pair of logits `(B, M, V)` and the cache, one position longer.
        """
        # Of `M` tokens at the same position, each stands alone in time.
        batch_size, num_places = ops.shape(token_ids)
        hidden = self._embed(
            self.target_embedding,
            self.decoder_positions,
            ops.reshape(token_ids, (-1, 1)),
            start_position=position,
        )
        hidden = ops.reshape(
            hidden, (batch_size, num_places, self.config.hidden_dim)
        )
        blocks = []
        for block, block_cache in zip(self.decoder_blocks, cache["blocks"]):
            hidden, block_cache = block.decode_step(
                hidden,
                block_cache,
                position,
                ancestors=ancestors,
                source_padding_mask=cache["source_padding_mask"],
            )
            blocks.append(block_cache)
        logits = self._logits(hidden, few_rows=True)
        return logits, {**cache, "blocks": blocks}

    # === Config ===

    @classmethod
    def from_preset(cls, name, vocabulary_size=None, dtype=None, **overrides):
        """A model with the architecture of a preset, or one of the zoo.

        Args:
            name: string. One of `relative_attention.presets()`, or the name
                of a trained model that comes with the package; of those,
                `relative_attention.load_translator` also has the vocabulary.
            vocabulary_size: int. Size `V` of the (joint) vocabulary. A
                trained model has its own.
            dtype: dtype policy of the model.
            **overrides: fields of `TransformerConfig`; of a trained model
                such as leave its weights their shapes, as `dropout`.

        Returns:
            `Transformer`, with random weights, or with those of the zoo.

        Raises:
            ValueError: if the name or a field is unknown, a value wrong, the
                vocabulary's size missing, or weights do not fit.
        """
        if vocabulary_size is not None:
            overrides["vocabulary_size"] = vocabulary_size
        config, weights = find_preset(name, overrides)
        model = cls(config, dtype=dtype)
        if weights is not None:
            load_weights(model.weights, weights)
        return model

    def get_config(self):
        return {
            **dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "trainable": self.trainable,
        }

    @classmethod
    def from_config(cls, config):
        fields = {field.name for field in dataclasses.fields(TransformerConfig)}
        architecture = {k: v for k, v in config.items() if k in fields}
        rest = {k: v for k, v in config.items() if k not in fields}
        return cls(TransformerConfig(**architecture), **rest)
