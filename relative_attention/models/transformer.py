"""The Transformer, with relative or absolute positions.

`layers/positions/__init__.py` lists the position encodings and says how to add
one.
"""

import dataclasses
import functools
import types
from collections.abc import Callable
from typing import Any
from typing import Self
from typing import Unpack

import keras
import numpy as np
from keras import ops

from relative_attention.layers.arguments import LayerArguments
from relative_attention.layers.attention import AttentionTerms
from relative_attention.layers.attention import CrossAttention
from relative_attention.layers.attention import SelfAttention
from relative_attention.layers.blocks import LayerNormalization
from relative_attention.layers.blocks import TransformerDecoderBlock
from relative_attention.layers.blocks import TransformerEncoderBlock
from relative_attention.layers.dense import FeedForward
from relative_attention.layers.dropout import Dropout
from relative_attention.layers.embeddings import TargetSpaceEmbedding
from relative_attention.layers.embeddings import TokenEmbedding
from relative_attention.layers.positions import encoding_of
from relative_attention.layers.positions import find_names
from relative_attention.models import adapters
from relative_attention.models.config import TransformerConfig
from relative_attention.models.config import saved_fields
from relative_attention.models.presets import find_preset
from relative_attention.models.weight_shapes import weight_shapes
from relative_attention.models.weights import load_weights
from relative_attention.ops.backend import static_shape
from relative_attention.ops.cross_entropy import TokenScores
from relative_attention.ops.masks import padding_mask
from relative_attention.ops.masks import same_size
from relative_attention.tensor_type import Tensor
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import TrainableModel

_INPUTS = ("source_token_ids", "target_token_ids")


def _given(training: bool | None) -> dict[str, bool]:
    """Returns the argument if it was given.

    Keras takes an explicit `None` for inference, even in a model that trains.
    """
    return {} if training is None else {"training": training}


def decoder_inputs(labels: Tensor, start_token_id: int = 0) -> Tensor:
    """Returns labels shifted right, behind the start token.

        labels           [ 9, 22, 14,  1]
        decoder's inputs [ s,  9, 22, 14]

    Training, scoring, alignment, pictures and the first step of a search all
    begin here. A model converted from another system may start with an id
    other than 0, and needs that id.

    Args:
        labels: int array or tensor `(..., T)`, the target ids.
        start_token_id: int. `Transformer.start_token_id`. Defaults to `0`.

    Returns:
        The same kind of array or tensor, `(..., T)`.
    """
    # Batches are NumPy arrays, made by threads that run no model.
    backend = np if isinstance(labels, np.ndarray) else ops
    # Made from the labels, so that empty labels give empty inputs.
    start = backend.full_like(labels[..., :1], start_token_id)
    return backend.concatenate([start, labels[..., :-1]], axis=-1)


@keras.saving.register_keras_serializable(package="relative_attention")
class Transformer(TrainableModel):
    """Encoder and decoder for translation, by token ids.

    Ids: padding 0, end of sentence 1. An id 0 embeds to the zero vector. The
    decoder's inputs are the target ids shifted right; they start with
    `start_token_id`, which is 0 unless the config has another:

        source_token_ids  [12, 7, 31,  1,  0]
        target_token_ids  [ 0,  9, 22, 14]      the decoder's inputs
        labels            [ 9, 22, 14,  1]      what it should predict

    `model.fit` takes batches `({"source_token_ids", "target_token_ids"},
    labels)`; `MaskedCrossEntropy` is the loss. `TrainableModel` describes steps
    on several replicas, and the metrics that `fit` shows.

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
        TypeError: if `config` is not a `TransformerConfig`.
        ValueError: if the inputs are not such a dict, differ in their number
            of sentences, or hold ids that the vocabulary does not have.

    Example:
    >>> model = ra.Transformer.from_preset(
    ...     "transformer_tiny_relative", vocabulary_size=1000
    ... )
    >>> ids = np.array([[5, 6, 1]])
    >>> logits = model({"source_token_ids": ids, "target_token_ids": ids})
    >>> keras.ops.shape(logits)
    (1, 3, 1000)

    Reference:
     - [Shaw et al., 2018](https://arxiv.org/abs/1803.02155)
     - [Vaswani et al., 2017](https://arxiv.org/abs/1706.03762)
    """

    def __init__(
        self, config: TransformerConfig, **kwargs: Unpack[LayerArguments]
    ) -> None:
        if not isinstance(config, TransformerConfig):
            raise TypeError(
                "`config` must be a TransformerConfig. Received: "
                f"config={config!r}. For a preset, call "
                "`Transformer.from_preset(name, vocabulary_size=...)`."
            )
        super().__init__(**kwargs)
        self.config = config
        # Keras checks the inputs against it.
        self.input_spec = [
            keras.layers.InputSpec(ndim=2, name=name) for name in _INPUTS
        ]
        dtype = self.dtype_policy
        self.source_embedding, self.target_embedding, self.output_embedding = (
            _make_embeddings(config, dtype)
        )
        self.target_space_embedding = None
        if config.use_target_space_embedding:
            self.target_space_embedding = TargetSpaceEmbedding(
                dtype=dtype, name="target_space_embedding"
            )
        self.encoder_positions = _make_positions(
            config, dtype, "encoder_positions"
        )
        self.decoder_positions = _make_positions(
            config, dtype, "decoder_positions"
        )
        self.embedding_dropout = Dropout(config.dropout, dtype=dtype)
        self.encoder_blocks = [
            _make_block(config, dtype, f"encoder_block_{index}")
            for index in range(config.num_encoder_layers)
        ]
        self.decoder_blocks = [
            _make_block(
                config, dtype, f"decoder_block_{index}", is_decoder=True
            )
            for index in range(config.num_decoder_layers)
        ]
        self.encoder_norm = self.decoder_norm = None
        if config.normalize_first:
            self.encoder_norm, self.decoder_norm = (
                LayerNormalization(
                    epsilon=config.layer_norm_epsilon, dtype=dtype, name=name
                )
                for name in ("encoder_norm", "decoder_norm")
            )
        # All sizes are known, so weights are created now: to count them, to
        # load them, and to be in the scope of a distribution strategy.
        self.build()

    def build(self, input_shape: Any = None) -> None:
        # Files know weights by their names, which an encoding must give.
        dict(weight_shapes(self.config))
        shape = (None, None, self.config.hidden_dim)
        # An embedding that is shared is listed once.
        for layer in self.layers:
            if layer in self.decoder_blocks:
                layer.build(shape, shape)
            else:
                layer.build(shape)
        self.output_bias = None
        if self.config.output_bias:
            self.output_bias = self.add_weight(
                name="output_bias",
                shape=(self.config.vocabulary_size,),
                initializer="zeros",
            )
        self.built = True
        if not self.trainable:
            for layer in self.layers:
                layer.trainable = False

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
        """Computes the hidden states, from which `logits` computes logits.

        Args:
            inputs: as of a call.
            training: A boolean to indicate whether dropout is active.
            encoder_outputs: float tensor `(B, S, D)`, what `encode` returned
                for the source. Defaults to `None`: it is called here.

        Returns:
            Float tensor `(B, T, D)`.
        """
        _check_inputs(inputs)
        source_token_ids = inputs["source_token_ids"]
        if encoder_outputs is None:
            encoder_outputs = self.encode(source_token_ids, training=training)
        options = _given(training)
        source_mask = padding_mask(source_token_ids)
        hidden = self._embed_target(inputs["target_token_ids"], **options)
        for block in self.decoder_blocks:
            hidden = block(hidden, encoder_outputs, source_mask, **options)
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        return hidden

    def logits(
        self, decoder_outputs: Tensor, transposed_matrix: Tensor | None = None
    ) -> Tensor:
        """Computes the logits from what `decoder_outputs` returned.

        Args:
            decoder_outputs: float tensor `(B, T, D)`.
            transposed_matrix: float tensor `(D, V)`, what
                `output_embedding.transposed_matrix` returned. Defaults to
                `None`: it is not used.

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
        self, source_token_ids: Tensor, training: bool | None = None
    ) -> Tensor:
        """Computes the encoder's outputs of source ids.

        Args:
            source_token_ids: int tensor `(B, S)`.
            training: A boolean to indicate whether dropout is active.

        Returns:
            Float tensor `(B, S, D)`.
        """
        _check_token_ids("source_token_ids", source_token_ids)
        mask = ops.expand_dims(padding_mask(source_token_ids), 1)
        options = _given(training)
        hidden = self._embed_source(source_token_ids, **options)
        for block in self.encoder_blocks:
            hidden = block(hidden, mask, **options)
        if self.encoder_norm is not None:
            hidden = self.encoder_norm(hidden)
        return hidden

    def attention_scores(
        self, inputs: dict[str, Tensor]
    ) -> dict[str, list[Tensor]]:
        """Computes the attention scores of every head.

        Args:
            inputs: as of a call.

        Returns:
            Dict of lists with a float tensor per block: `"encoder"`
            `(B, N, S, S)`, `"decoder"` `(B, N, T, T)` and `"cross"`
            `(B, N, T, S)`.
        """
        return self._attention(
            inputs,
            lambda block, *args: block(*args, return_attention_scores=True),
        )

    def attention_terms(
        self, inputs: dict[str, Tensor]
    ) -> dict[str, list[AttentionTerms]]:
        """Computes attention as the terms of its sums, content and position.

        Args:
            inputs: as of a call.

        Returns:
            Dict of lists with an `AttentionTerms` per block: `"encoder"`,
            `"decoder"` and `"cross"`, whose `scores` are those of
            `attention_scores`.
        """
        return self._attention(
            inputs, lambda block, *args: block.attention_terms(*args)
        )

    def _attention(
        self,
        inputs: dict[str, Tensor],
        compute: Callable[..., tuple[Any, ...]],
    ) -> dict[str, list[Any]]:
        """Collects what `compute` returns of each block, after its outputs."""
        _check_inputs(inputs)
        source_mask = padding_mask(inputs["source_token_ids"])
        found: dict[str, list] = {"encoder": [], "decoder": [], "cross": []}
        source = self._embed_source(inputs["source_token_ids"], training=False)
        for block in self.encoder_blocks:
            source, of_source = compute(block, source, source_mask[:, None, :])
            found["encoder"].append(of_source)
        if self.encoder_norm is not None:
            source = self.encoder_norm(source)
        hidden = self._embed_target(inputs["target_token_ids"], training=False)
        for block in self.decoder_blocks:
            hidden, of_target, across = compute(
                block, hidden, source, source_mask
            )
            found["decoder"].append(of_target)
            found["cross"].append(across)
        return found

    # tensor2tensor's order: scaled embedding, target space, positions.

    def _embed_source(self, token_ids: Tensor, **options: bool) -> Tensor:
        hidden = self.source_embedding(token_ids)
        if self.target_space_embedding is not None:
            hidden = self.target_space_embedding(hidden)
        return self._add_positions(self.encoder_positions, hidden, **options)

    def _embed_target(self, token_ids: Tensor, **options: Any) -> Tensor:
        hidden = self.target_embedding(token_ids)
        return self._add_positions(self.decoder_positions, hidden, **options)

    def _add_positions(
        self,
        positions: keras.layers.Layer | None,
        hidden: Tensor,
        start_position: int | Tensor = 0,
        **options: bool,
    ) -> Tensor:
        if positions is not None:
            first = start_position + self.config.first_position
            hidden = positions(hidden, start_position=first)
        return self.embedding_dropout(hidden, **options)

    # === Decoding, a position at a time ===

    def start_cache(self, source_token_ids: Tensor) -> dict[str, Any]:
        """Encodes, and prepares the cache that `decode_step` extends.

        Args:
            source_token_ids: int tensor `(B, S)`.

        Returns:
            Dict: `"source_padding_mask"` `(B, S)` and `"blocks"`, a list of
            what `TransformerDecoderBlock.start_cache` returns. Sentences are
            the first axis of every tensor.
        """
        encoder_outputs = self.encode(source_token_ids, training=False)
        return {
            "source_padding_mask": padding_mask(source_token_ids),
            "blocks": [
                block.start_cache(encoder_outputs)
                for block in self.decoder_blocks
            ],
        }

    def decode_step(
        self,
        token_ids: Tensor,
        cache: dict[str, Any],
        position: int | Tensor,
        ancestors: Tensor | None = None,
        transposed_matrix: Tensor | None = None,
    ) -> tuple[Tensor, dict[str, Any]]:
        """Computes the logits of the next token from one token and the cache.

        Args:
            token_ids: int tensor `(B, M)`: the token at `position` of each of
                the `M` hypotheses of a sentence; at first `start_token_id`.
            cache: what `start_cache` or the previous step returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`: `ancestors[b, m, p]`
                is the beam that wrote position `p` of beam `m`'s history.
                Defaults to `None`: each beam wrote its own. See
                `RelativeSelfAttention.decode_step`.
            transposed_matrix: as of `logits`.

        Returns:
            Pair of logits `(B, M, V)` and the cache, one position longer.
        """
        # All `M` tokens are at one position: embedded as rows of length 1.
        hidden = self._embed_target(
            ops.reshape(token_ids, (-1, 1)),
            start_position=position,
            training=False,
        )
        hidden = ops.reshape(
            hidden, (*static_shape(token_ids), self.config.hidden_dim)
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
        if self.decoder_norm is not None:
            hidden = self.decoder_norm(hidden)
        logits = self.logits(hidden, transposed_matrix)
        return logits, {**cache, "blocks": blocks}

    def prepare_steps(self) -> Any:
        """Returns the same decoder with a weight layout for many steps.

        The layout is a copy. Every search makes it again, inside its graph, as
        weights may change between searches.
        """
        matrix = self.output_embedding.transposed_matrix()
        return types.SimpleNamespace(
            start_cache=self.start_cache,
            decode_step=functools.partial(
                self.decode_step, transposed_matrix=matrix
            ),
        )

    # === Config and files ===

    @property
    def start_token_id(self) -> int:
        """The id that the decoder's inputs start with."""
        return self.config.start_token_id

    @property
    def input_shape(self) -> dict[str, tuple[None, None]]:
        """Shapes of the inputs, a dict; batch size and lengths are free."""
        return {spec.name: (None, None) for spec in self.input_spec}

    @property
    def output_shape(self) -> tuple[None, None, int]:
        """The shape `(B, T, V)` of the logits."""
        return (None, None, self.config.vocabulary_size)

    def symbolic_batch(
        self,
    ) -> tuple[dict[str, keras.KerasTensor], keras.KerasTensor]:
        """Returns symbolic inputs and labels, as `fit` takes them."""
        ids = keras.KerasTensor((None, None), "int32")
        return {"source_token_ids": ids, "target_token_ids": ids}, ids

    def token_scores(
        self,
        x: dict[str, Tensor],
        y: Tensor,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
        loss: MaskedCrossEntropy | None,
    ) -> Tensor | TokenScores:
        """Returns `TokenScores`, computed without ever holding all logits.

        Returns logits if loss or metrics need them, or a subclass may compute
        others.

        Args:
            x, y, sample_weight, num_tokens, loss: as for
                `TrainableModel.token_scores`.
        """
        own, base = type(self), Transformer
        computes_ours = (
            own.call is base.call
            and own.logits is base.logits
            and type(self.output_embedding) is TokenEmbedding
            # Keras computes it of logits.
            and self.activity_regularizer is None
        )
        if loss is None or not computes_ours:
            return super().token_scores(
                x, y, sample_weight, num_tokens, loss=loss
            )
        return loss.score_projection(
            y,
            self.decoder_outputs(x, training=True),
            self.output_embedding.matrix(),
            self.output_bias,
            sample_weight,
            num_tokens,
        )

    @classmethod
    def from_preset(
        cls,
        name: str,
        vocabulary_size: int | None = None,
        dtype: Any = None,
        **overrides: Any,
    ) -> Self:
        """Makes a model with the architecture of a preset, or a bundled one.

        Args:
            name: string. One of `relative_attention.presets()`, or the name
                of a bundled trained model.
                `relative_attention.load_translator` also loads its vocabulary.
            vocabulary_size: int. Size `V` of the (joint) vocabulary. Not
                needed for a trained model.
            dtype: dtype policy of the model.
            **overrides: fields of `TransformerConfig`. For a trained model,
                only fields that keep the shapes of the weights, such as
                `dropout`.

        Returns:
            `Transformer`, with random weights, or those of a bundled model.

        Raises:
            ValueError: if the name or a field is unknown, a value is wrong,
                the vocabulary's size is missing, or weights do not fit.
        """
        if vocabulary_size is not None:
            overrides["vocabulary_size"] = vocabulary_size
        config, weights = find_preset(name, overrides)
        model = cls(config, dtype=dtype)
        if weights is not None:
            load_weights(model.weights, weights)
        return model

    def get_config(self) -> dict[str, Any]:
        """Returns the fields of the model's config, and its Keras arguments.

        For a quantized model, also which layers are quantized, and how.
        """
        config = {
            **dataclasses.asdict(self.config),
            "name": self.name,
            "dtype": keras.dtype_policies.serialize(self.dtype_policy),
            "trainable": self.trainable,
        }
        if self.activity_regularizer is not None:
            config["activity_regularizer"] = keras.regularizers.serialize(
                self.activity_regularizer
            )
        quantized = adapters.quantization_config(self)
        if quantized:
            config["quantized_layers"] = quantized
        return config

    @classmethod
    def from_config(cls, config: dict[str, Any]) -> Self:
        """Makes a model from what `get_config` returned.

        Args:
            config: dict.
        """
        rest = dict(config)
        quantized = rest.pop("quantized_layers", {})
        fields = {field.name for field in dataclasses.fields(TransformerConfig)}
        architecture = {key: rest.pop(key) for key in fields & rest.keys()}
        model = cls(TransformerConfig(**saved_fields(architecture)), **rest)
        adapters.quantize_as(model, quantized)
        return model

    def export(
        self,
        filepath: Any,
        format: str = "tf_saved_model",
        verbose: bool | None = None,
        input_signature: Any = None,
        **kwargs: Any,
    ) -> None:
        """Exports the model as `keras.Model.export`: ids in, logits out.

        To translate strings, use `relative_attention.export_saved_model`.

        Args:
            filepath, format, verbose: as for `keras.Model.export`.
            input_signature: as for `keras.Model.export`. Defaults to ids of
                any batch size and length.
            **kwargs: as for `keras.Model.export`.
        """
        if input_signature is None:
            ids = {
                name: keras.layers.InputSpec("int32", (None, None), name=name)
                for name in _INPUTS
            }
            input_signature = [ids]
        super().export(filepath, format, verbose, input_signature, **kwargs)

    # === Int8, and adapters: see `adapters.py` ===

    quantize = adapters.quantize
    enable_lora = adapters.enable_lora
    save_lora_weights = adapters.save_lora_weights
    load_lora_weights = adapters.load_lora_weights


def _make_embeddings(
    config: TransformerConfig, dtype: keras.DTypePolicy
) -> tuple[TokenEmbedding, TokenEmbedding, TokenEmbedding]:
    """Makes source, target and output embedding, which may be shared."""

    def embedding(
        name: str, size: int = config.vocabulary_size
    ) -> TokenEmbedding:
        return TokenEmbedding(size, config.hidden_dim, dtype=dtype, name=name)

    if config.share_embeddings in ("all", "source_target"):
        source = target = embedding("embedding")
    else:
        source = embedding(
            "source_embedding",
            config.source_vocabulary_size or config.vocabulary_size,
        )
        target = embedding("target_embedding")
    if config.share_embeddings in ("all", "target"):
        return source, target, target
    return source, target, embedding("output_embedding")


def _make_positions(
    config: TransformerConfig, dtype: keras.DTypePolicy, name: str
) -> keras.layers.Layer | None:
    """Makes the layer of absolute positions, if there is one."""
    layer = find_names(config.position_encoding).embedding_class()
    if layer is None:
        return None
    fields = {field: getattr(config, field) for field in layer.config_fields}
    return layer(**fields, dtype=dtype, name=name)


def _make_block(
    config: TransformerConfig,
    dtype: keras.DTypePolicy,
    name: str,
    is_decoder: bool = False,
) -> Any:
    heads = {
        "num_heads": config.num_heads,
        "key_dim": config.head_dim,
        "value_dim": config.value_dim,
        "dropout": config.attention_dropout,
        "use_bias": config.attention_bias,
        "dtype": dtype,
    }
    sublayers: list[keras.layers.Layer] = [
        SelfAttention(
            **heads,
            position_encoding=encoding_of(config),
            bidirectional=not is_decoder,
            implementation=config.implementation,
            name="self_attention",
        )
    ]
    if is_decoder:
        # "transpose" is for relations, which cross-attention does not have.
        is_given = config.implementation == "recompute"
        sublayers.append(
            CrossAttention(
                **heads,
                implementation="recompute" if is_given else "auto",
                name="cross_attention",
            )
        )
    sublayers.append(
        FeedForward(
            config.intermediate_dim,
            dropout=config.intermediate_dropout,
            dtype=dtype,
            name="feed_forward",
        )
    )
    block = TransformerDecoderBlock if is_decoder else TransformerEncoderBlock
    return block(
        *sublayers,
        dropout=config.dropout,
        normalize_first=config.normalize_first,
        layer_norm_epsilon=config.layer_norm_epsilon,
        dtype=dtype,
        name=name,
    )


def _check_token_ids(name: str, token_ids: Tensor) -> None:
    shape = tuple(token_ids.shape)
    if len(shape) != 2:
        raise ValueError(
            f"`{name}` must have two axes, one row per sentence. Received "
            f"shape: {shape}."
        )


def _check_inputs(inputs: Any) -> None:
    """Refuses inputs that lack a source for every target."""
    is_dict = isinstance(inputs, dict)
    if not is_dict or not set(_INPUTS) <= set(inputs):
        received = f"a {type(inputs).__name__}"
        if is_dict:
            received = f"a dict with the keys {sorted(inputs)}"
        raise ValueError(
            '`inputs` must be a dict of "source_token_ids" and '
            f'"target_token_ids". Received: {received}.'
        )
    for name in _INPUTS:
        _check_token_ids(name, inputs[name])
    source, target = (tuple(inputs[name].shape) for name in _INPUTS)
    if not same_size(source[0], target[0]):
        raise ValueError(
            "`source_token_ids` and `target_token_ids` must have the same "
            f"number of rows. Received shapes: {source} and {target}."
        )
