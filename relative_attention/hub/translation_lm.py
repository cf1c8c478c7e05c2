"""A translation model as a task of KerasHub."""

import pathlib
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
from keras import ops

from relative_attention.argument_checks import checked_at_least
from relative_attention.decoding import Translator
from relative_attention.decoding import beam_search
from relative_attention.decoding.compiled import compiled_functions
from relative_attention.decoding.constraints import check_length_penalty
from relative_attention.errors import InputError
from relative_attention.hub.generation import generate_strings
from relative_attention.hub.own_bases import bases_kept
from relative_attention.hub.preset_source import load_from_preset
from relative_attention.hub.preset_source import model_folder
from relative_attention.hub.sampled_step import sampled_step
from relative_attention.hub.string_training import StringTraining
from relative_attention.hub.task_checks import check_parts
from relative_attention.hub.transformer_parts import transformer_inputs
from relative_attention.hub.translation_backbone import TranslationBackbone
from relative_attention.hub.translation_preprocessor import (
    TranslationPreprocessor,
)
from relative_attention.hub.upload import upload
from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor

# What a preset says of the beam search.
_DECODING = (
    "num_beams",
    "length_penalty",
    "max_extra_length",
    "max_source_length",
)


@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationLM(StringTraining):
    """A translation model that is trained on strings and generates strings.

    It trains as `TrainableModel` does: the loss is that over tokens, and the
    step is exact on several replicas. It generates as `Translator` does, by
    beam search with a length penalty, unless `compile` is given a sampler.

    Args:
        backbone: `TranslationBackbone`.
        preprocessor: `TranslationPreprocessor`. Defaults to `None`: inputs
            are ids.
        num_beams, length_penalty, max_extra_length, max_source_length: of the
            beam search, see `Translator`; but a source of more than
            `max_source_length` tokens is an error here.
        compile: bool. Whether to compile with the defaults. Defaults to
            `True`.
        **kwargs: arguments of `keras.Model`: `name`, `trainable`.

    Call arguments:
        inputs: as of `TranslationBackbone`.
        training: A boolean to indicate whether dropout is active.
        mask: not used; the masks are among the inputs.

    Returns:
        Float tensor `(B, T, V)`, the logits of the next token.

    Raises:
        InputError: if backbone and preprocessor are of other classes, or do
            not belong together.
        ValueError: if a number is out of range.

    Example:
    >>> task = TranslationLM.from_preset("multi30k_en_de_tiny_relative")
    >>> task.generate(["A man rides a bike."])
    ['Ein Mann fährt Fahrrad.']
    >>> task.fit(["A dog."], ["Ein Hund."])
    """

    backbone_cls = TranslationBackbone
    preprocessor_cls = TranslationPreprocessor

    def __init__(
        self,
        backbone: TranslationBackbone,
        preprocessor: TranslationPreprocessor | None = None,
        num_beams: int = 4,
        length_penalty: float = 0.6,
        max_extra_length: int = 50,
        max_source_length: int = 512,
        compile: bool = True,
        **kwargs: Any,
    ) -> None:
        check_parts(backbone, preprocessor)
        # KerasHub's own tasks set these first, too.
        self.backbone = backbone
        self.preprocessor = preprocessor
        inputs = backbone.input
        # The layer of the backbone, called again.
        hidden_states = backbone.get_layer("hidden_states")
        with bases_kept():
            super().__init__(
                inputs=inputs,
                outputs=hidden_states(inputs, return_logits=True),
                compile=False,
                **kwargs,
            )
        self.num_beams = checked_at_least("num_beams", num_beams, 1)
        self.length_penalty = check_length_penalty(length_penalty)
        self.max_extra_length = checked_at_least(
            "max_extra_length", max_extra_length, 0
        )
        self.max_source_length = checked_at_least(
            "max_source_length", max_source_length, 2
        )
        # The folder of the trained model that this task was made of, if any.
        self._origin: pathlib.Path | None = None
        if compile:
            self.compile()

    @classmethod
    def from_preset(
        cls, preset: str, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Loads a translation model.

        Args:
            preset: string or path. A name of the zoo; a folder that
                `save_to_preset`, training or `save_translator` filled; or a
                handle of a hub, `hf://user/name` or `kaggle://...`.
            load_weights: bool. Whether to load the weights, or to leave them
                random. Defaults to `True`.
            **kwargs: `dtype`, and arguments of the class in place of those
                of the preset.

        Returns:
            `TranslationLM`.

        Raises:
            InputError: if there is no such preset, it holds another class, or
                a file is missing, damaged or does not fit the others.
        """
        task = load_from_preset(
            preset,
            lambda translator: cls._of(translator, load_weights, **kwargs),
            lambda: super(TranslationLM, cls).from_preset(
                str(preset), load_weights=load_weights, **kwargs
            ),
        )
        check_parts(task.backbone, task.preprocessor)
        task._origin = model_folder(preset)
        return task

    @classmethod
    def from_translator(cls, translator: Translator, **kwargs: Any) -> Self:
        """Makes a task with a copy of a translator's weights.

        Args:
            translator: `Translator` of one `Transformer`.
            **kwargs: as of `from_preset`.

        Raises:
            InputError: if its model is an `Ensemble`, a layer is quantized,
                or its vocabulary is no SentencePiece model.
        """
        if not isinstance(translator.model, Transformer):
            raise InputError(
                "A task is made of one `Transformer`. Received: a translator "
                f"of {type(translator.model).__name__}."
            )
        return cls._of(translator, True, **kwargs)

    @classmethod
    def _of(
        cls,
        translator: Translator,
        load_weights: bool,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        arguments = {name: getattr(translator, name) for name in _DECODING}
        if "backbone" not in kwargs:
            arguments["backbone"] = TranslationBackbone._of(
                translator.model, load_weights, {"dtype": dtype}
            )
        if "preprocessor" not in kwargs:
            arguments["preprocessor"] = cls.preprocessor_cls.from_translator(
                translator
            )
        return cls(**{**arguments, **kwargs})

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The backbone and the layers of the graph from inputs to logits.

        Files name the weights by the first layer that has them: the backbone.
        """
        return [self.backbone, *super().layers]

    @property
    def transformer(self) -> Transformer:
        """The `Transformer` that this task trains."""
        return self.backbone.transformer

    @property
    def translator(self) -> Translator:
        """A `Translator` of the same weights, with scores and much else."""
        preprocessor = self.preprocessor
        if preprocessor is None:
            raise InputError(
                "To translate strings the task needs a `preprocessor`. "
                "Received: preprocessor=None."
            )
        check_parts(self.backbone, preprocessor)
        source = preprocessor.source_tokenizer or preprocessor.tokenizer
        return Translator(
            self.transformer,
            preprocessor.tokenizer.vocabulary,
            source_vocabulary=source.vocabulary,
            **{name: getattr(self, name) for name in _DECODING},
        )

    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        mask: Any = None,
    ) -> Tensor:
        hidden = self.backbone(inputs, training=training)
        return self.transformer.logits(hidden["decoder_sequence_output"])

    def get_config(self) -> dict[str, Any]:
        """Returns the arguments of the task, for JSON."""
        return {
            **super().get_config(),
            **{name: getattr(self, name) for name in _DECODING},
        }

    def upload_preset(
        self,
        handle: str,
        languages: Sequence[str] | None = None,
        license_name: str | None = None,
    ) -> None:
        """Uploads the task to a hub, with a card.

        The card names the task, translation, and the code to load it. Where
        the task was loaded by a name of the zoo, or from a folder that
        training filled, it names languages and licence, too, and as long as
        the weights are those of that folder, its BLEU and its own card. On
        Hugging Face a card that is there stays.

        Args:
            handle: string. `"hf://user/name"` or `"kaggle://..."`.
            languages: list of codes, such as `["en", "de"]`, source first.
                Defaults to `None`, those that the files of the recipe end
                with.
            license_name: string. As Hugging Face spells it, such as `"mit"`.
                Defaults to `None`: the terms of the folder's `LICENSE.md`,
                if any.

        Raises:
            InputError: if the handle is none, or the hub refuses the upload.
        """
        upload(self, handle, self._origin, languages, license_name)

    def quantize(
        self, mode: str | None = None, config: Any = None, **kwargs: Any
    ) -> None:
        """Stores the large matrices as int8, see `Transformer.quantize`.

        Args:
            mode: string. `"int8"`.
            config: `keras.quantizers.Int8QuantizationConfig`, in place of
                `mode`.
            **kwargs: `filters`, as of `Transformer.quantize`.

        Raises:
            ValueError: if the mode is another, or a layer is quantized
                already.
        """
        # Keras would go on to the tokenizers.
        self.backbone.quantize(mode, config=config, **kwargs)
        self._post_quantize(mode)
        self.train_function = None
        self.test_function = None
        self.predict_function = None

    # === Generation ===

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: Any = "auto",
        strip_prompt: bool = False,
    ) -> Any:
        """Translates.

        Args:
            inputs: string, or list, array or `tf.data.Dataset` of batches of
                them; or dicts of them, `"encoder_text"`, and of what the
                translations begin with, `"decoder_text"`. Without a
                preprocessor, inputs of `TranslationBackbone`.
            max_length: int. The longest translation, in tokens, its end
                included. Defaults to `None`, no limit but `max_extra_length`.
            stop_token_ids: `"auto"`, the end of sentence; or for a sampler,
                other ids, or `None`.
            strip_prompt: bool. Whether to leave out what the translations
                were to begin with. Defaults to `False`.

        Returns:
            A string, or a list of them; without a preprocessor a dict of ids
            and mask.

        Raises:
            InputError: if a source is longer than `max_source_length`.
        """
        if self.preprocessor is not None:
            return generate_strings(
                self, inputs, max_length, stop_token_ids, strip_prompt
            )
        if self.sampler is None:
            stop_token_ids = None
        return super().generate(
            inputs, max_length, stop_token_ids, strip_prompt
        )

    def make_generate_function(self) -> Callable[..., dict[str, Tensor]]:
        """Returns what generates from ids, compiled once."""
        if self.sampler is None:
            # The beam search compiles itself, for batches of all shapes.
            return self.generate_step
        # These go when the equations change: by adapters, int8, a new dtype.
        functions = compiled_functions(self.transformer)
        key = (type(self), id(self))
        if functions.get(key) is not self.generate_function:
            self.generate_function = None
        functions[key] = super().make_generate_function()
        return functions[key]

    def generate_step(
        self, inputs: dict[str, Tensor], stop_token_ids: Any = None
    ) -> dict[str, Tensor]:
        """Generates from ids.

        Args:
            inputs: as of `TranslationBackbone`.
            stop_token_ids: ids at which a sampler stops.

        Returns:
            Dict of `"decoder_token_ids"` and `"decoder_padding_mask"`
            `(B, T)`, and of `"scores"` `(B,)` where the beam search has them.
        """
        if self.sampler is not None:
            return sampled_step(
                self.transformer, self.sampler, inputs, stop_token_ids, self
            )
        ids = transformer_inputs(
            {
                name: ops.convert_to_tensor(value)
                for name, value in inputs.items()
            }
        )
        found = beam_search(
            self.transformer,
            ids["source_token_ids"],
            num_beams=self.num_beams,
            length_penalty=self.length_penalty,
            max_extra_length=self.max_extra_length,
        )
        token_ids = found["token_ids"][:, 0]
        start = ops.full_like(token_ids[:, :1], self.transformer.start_token_id)
        token_ids = ops.concatenate([start, token_ids], axis=-1)
        # An end of sentence is the last of its row that is not padding.
        is_token = ops.cast(ops.not_equal(token_ids, 0), "int32")
        behind = ops.flip(ops.cumsum(ops.flip(is_token, -1), axis=-1), -1)
        is_start = ops.arange(ops.shape(token_ids)[1]) == 0
        return {
            "decoder_token_ids": token_ids,
            "decoder_padding_mask": ops.logical_or(behind > 0, is_start),
            "scores": found["scores"][:, 0],
        }
