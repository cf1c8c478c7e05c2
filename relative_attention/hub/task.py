"""The task: a translation model with strings as inputs and outputs."""

import pathlib
import re
import tempfile
import warnings
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any
from typing import Self

import keras
import keras_hub
import numpy as np
from keras import ops

from relative_attention.argument_checks import checked_sentences
from relative_attention.data.vocabulary_kinds import check_vocabulary_fits
from relative_attention.decoding import Translator
from relative_attention.decoding import beam_search
from relative_attention.decoding.translator import DecodingSection
from relative_attention.errors import InputError
from relative_attention.hub.backbone import INPUT_DTYPES
from relative_attention.hub.backbone import TranslationBackbone
from relative_attention.hub.backbone import transformer_inputs
from relative_attention.hub.preprocessing import TranslationPreprocessor
from relative_attention.hub.presets import FromPreset
from relative_attention.hub.presets import add_card
from relative_attention.hub.presets import check_class
from relative_attention.hub.presets import model_folder
from relative_attention.hub.presets import upload
from relative_attention.models import Transformer
from relative_attention.schema import keys_of
from relative_attention.tensor_type import Tensor
from relative_attention.text.form import clean_text
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy
from relative_attention.training.trainable import ExactSteps

_BEAM_SEARCH = "beam_search"
# The settings of a translator that a preset keeps.
_DECODING = tuple(keys_of(DecodingSection))
# The default of `fit` for arrays.
_BATCH_SIZE = 32


# `ExactSteps` comes before KerasHub's classes, so that `fit` uses its step.
# KerasHub's classes convert strings to the inputs of the step.
@keras.saving.register_keras_serializable(package="relative_attention")
class TranslationLM(FromPreset, ExactSteps, keras_hub.models.Seq2SeqLM):
    """A translation model that is trained on strings and generates strings.

    It trains like `TrainableModel`: the loss is a mean over tokens, and the
    step is exact on several replicas. It generates like `Translator`, by beam
    search with a length penalty. `translator` has the other ways, such as
    `task.translator.sample(["I like tea."])`.

    Args:
        backbone: `TranslationBackbone`.
        preprocessor: `TranslationPreprocessor`. Defaults to `None`: inputs
            are ids.
        num_beams, length_penalty, max_extra_length, max_source_length: see
            `Translator`; but a source of more than `max_source_length` tokens
            is an error here.
        no_repeat_ngram: int, see `Translator`. Defaults to `0`.
        compile: bool. Whether to compile with the defaults. Defaults to
            `True`.
        **kwargs: arguments of `keras.Model`: `name`, `trainable`; and the other
            settings of `decoding` in a recipe, which `translator` has.

    Call arguments:
        inputs: as for `TranslationBackbone`.
        training: A boolean to indicate whether dropout is active.
        mask: not used; the masks are among the inputs.

    Returns:
        Float tensor `(B, T, V)`, the logits of the next token.

    Raises:
        InputError: if backbone and preprocessor are of other classes, or do
            not fit each other.
        ValueError: if a number is out of range.

    Example:
    >>> task = ra.hub.TranslationLM.from_preset("tatoeba_en_de")
    >>> task.generate(["I like tea."])
    ['Ich mag Tee.']
    >>> history = task.fit(["A dog."], ["Ein Hund."], verbose=0)
    """

    backbone_cls = TranslationBackbone
    preprocessor_cls = TranslationPreprocessor
    preprocessor: Any
    num_beams: int
    length_penalty: float
    max_extra_length: int
    max_source_length: int
    no_repeat_ngram: int

    def __init__(
        self,
        backbone: TranslationBackbone,
        preprocessor: TranslationPreprocessor | None = None,
        num_beams: int = DecodingSection.num_beams,
        length_penalty: float = DecodingSection.length_penalty,
        max_extra_length: int = DecodingSection.max_extra_length,
        max_source_length: int = DecodingSection.max_source_length,
        no_repeat_ngram: int = DecodingSection.no_repeat_ngram,
        compile: bool = True,
        **kwargs: Any,
    ) -> None:
        _check_parts(backbone, preprocessor)
        settings = DecodingSection(
            num_beams=num_beams,
            length_penalty=length_penalty,
            max_extra_length=max_extra_length,
            max_source_length=max_source_length,
            no_repeat_ngram=no_repeat_ngram,
            **{name: kwargs.pop(name) for name in _DECODING if name in kwargs},
        )
        # As in KerasHub's own tasks, these are set first.
        self.backbone = backbone
        self.preprocessor = preprocessor
        inputs = backbone.input
        # The layer of the backbone, called again.
        hidden_states = backbone.get_layer("hidden_states")
        super().__init__(
            inputs=inputs,
            outputs=hidden_states(inputs, return_logits=True),
            compile=False,
            **kwargs,
        )
        for name in _DECODING:
            setattr(self, name, getattr(settings, name))
        # The folder of the trained model that this task is from, if any.
        self.origin: pathlib.Path | None = None
        if compile:
            self.compile()

    @classmethod
    def from_preset(
        cls, preset: str, load_weights: bool = True, **kwargs: Any
    ) -> Self:
        """Loads a translation model.

        Args:
            preset: string or path. A bundled model; a folder written by
                `save_to_preset`, training or `save_translator`; or a hub
                handle, `hf://user/name` or `kaggle://...`.
            load_weights: bool. Whether to load the weights, or to leave them
                random. Defaults to `True`.
            **kwargs: `dtype`, and arguments of the class that override those
                of the preset.

        Returns:
            `TranslationLM`.

        Raises:
            InputError: if there is no such preset, it holds another class, or
                a file is missing, damaged or does not fit the others.
        """
        # Also the folder of a model, by `from_translator`.
        task = super().from_preset(preset, load_weights, **kwargs)
        # The vocabularies are loaded after the task.
        _check_parts(task.backbone, task.preprocessor)
        task.origin = model_folder(preset)
        return task

    @classmethod
    def from_translator(
        cls,
        translator: Translator,
        load_weights: bool = True,
        dtype: Any = None,
        **kwargs: Any,
    ) -> Self:
        """Makes a task with a copy of a translator's weights.

        Args:
            translator: `Translator` of one `Transformer`. Its `keep` and
                `glossary` are left out.
            load_weights, dtype, **kwargs: as for `from_preset`.

        Raises:
            InputError: if its model is an `Ensemble`, a layer is quantized,
                or its vocabulary is not a SentencePiece model.
        """
        arguments = {name: getattr(translator, name) for name in _DECODING}
        # A preset may be loaded with a backbone or preprocessor of one's own.
        if "backbone" not in kwargs:
            arguments["backbone"] = cls.backbone_cls.from_translator(
                translator, load_weights, dtype=dtype
            )
        if "preprocessor" not in kwargs:
            arguments["preprocessor"] = cls.preprocessor_cls.from_translator(
                translator
            )
        return cls(**{**arguments, **kwargs})

    @property
    def layers(self) -> list[keras.layers.Layer]:
        """The backbone and the layers of the graph from inputs to logits.

        Files name weights by the first layer that has them: the backbone.
        """
        return [self.backbone, *super().layers]

    @property
    def transformer(self) -> Transformer:
        """The `Transformer` that this task trains."""
        return self.backbone.transformer

    @property
    def translator(self) -> Translator:
        """A `Translator` of the same weights, with scores and more."""
        preprocessor = self.preprocessor
        if preprocessor is None:
            raise InputError(
                "To translate strings the task needs a `preprocessor`. "
                "Received: preprocessor=None."
            )
        _check_parts(self.backbone, preprocessor)
        source = preprocessor.source_tokenizer or preprocessor.tokenizer
        return Translator(
            self.transformer,
            preprocessor.tokenizer.vocabulary,
            source_vocabulary=source.vocabulary,
            **{name: getattr(self, name) for name in _DECODING},
        )

    # Bypasses the graph, so that a step may do without logits.
    def call(
        self,
        inputs: dict[str, Tensor],
        training: bool | None = None,
        mask: Any = None,
    ) -> Tensor:
        return self.transformer(transformer_inputs(inputs), training=training)

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

        The card names the task, translation, and the code to load it. If the
        task was loaded as a bundled model, or from a folder of a training
        run, it also names languages and license. If the weights have not
        changed since, it also has the BLEU and the card of that folder. An
        existing card on Hugging Face is not changed.

        Args:
            handle: string. `"hf://user/name"` or `"kaggle://..."`.
            languages: list of codes, such as `["en", "de"]`, source first.
                Defaults to `None`: the endings of the recipe's files.
            license_name: string. Hugging Face's name, such as `"mit"`.
                Defaults to `None`: the terms of the folder's `LICENSE.md`,
                if any.

        Raises:
            InputError: if the handle is invalid, or the hub refuses the upload.
        """
        # The card has the code to load it, which needs the user's name.
        if not re.fullmatch(r"hf://[^/]+/.+|kaggle://.+", handle):
            raise InputError(
                "`handle` must be hf://user/name or kaggle://user/model/keras/"
                f"variant. Received: handle={handle!r}. To write a folder, use "
                "`save_to_preset`."
            )
        # Whole on this machine first: the hub never has a model without a card.
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            self.save_to_preset(folder)
            add_card(self, folder, handle, languages, license_name)
            upload(handle, folder)

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
        # Keras would also quantize the tokenizers.
        self.backbone.quantize(mode, config=config, **kwargs)
        self._post_quantize(mode)
        # What was compiled of floats must not be called again.
        self.train_function = None
        self.test_function = None
        self.predict_function = None

    # === Training ===

    def compile(  # type: ignore[override]
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        weighted_metrics: Any = "auto",
        sampler: str = _BEAM_SEARCH,
        **kwargs: Any,
    ) -> None:
        """Configures training.

        Args:
            optimizer: optimizer or its name. Defaults to `"auto"`,
                `keras.optimizers.Adam(2e-5)` as in KerasHub.
            loss: loss. Defaults to `"auto"`, `MaskedCrossEntropy(0.1)`.
            weighted_metrics: list of metrics. Defaults to `"auto"`,
                `Perplexity` and `TokenAccuracy`.
            sampler: `"beam_search"`, the only one. KerasHub's samplers would
                decode all positions at every step.
            **kwargs: as for `TrainableModel.compile`.

        Raises:
            InputError: if there is another sampler.
        """
        if sampler != _BEAM_SEARCH:
            raise InputError(
                f'`sampler` must be "{_BEAM_SEARCH}". Received: '
                f"sampler={sampler!r}. For a greedy search, make the task with "
                "`num_beams=1`; to draw translations at random, call "
                "`task.translator.sample`."
            )
        if loss == "auto":
            loss = MaskedCrossEntropy(0.1)
        if weighted_metrics == "auto":
            weighted_metrics = [Perplexity(), TokenAccuracy()]
        super().compile(
            optimizer=optimizer,
            loss=loss,
            weighted_metrics=weighted_metrics,
            sampler=None,
            **kwargs,
        )

    def get_compile_config(self) -> dict[str, Any]:
        """Returns the arguments of `compile`, for JSON."""
        config = super().get_compile_config()
        if not config:
            return config
        # Keras loads the optimizer's state from a file, so it must exist even
        # before the first step.
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        return config

    def compile_from_config(self, config: dict[str, Any]) -> None:
        """Compiles the task from what `get_compile_config` returned.

        Args:
            config: dict.
        """
        config = dict(config)
        # Files of older versions may have one of KerasHub's.
        if config.pop("sampler", None) not in (None, _BEAM_SEARCH):
            warnings.warn(
                "The task was compiled with a sampler of KerasHub. It "
                "generates by beam search now; `task.translator.sample` draws "
                "translations at random.",
                stacklevel=2,
            )
        super().compile_from_config(config)

    def fit(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        validation_data: Any = None,
        validation_split: float | None = None,
        **kwargs: Any,
    ) -> keras.callbacks.History:
        """Trains the task on pairs of strings.

        Args:
            x: list or array of sources; a dict of them, `"encoder_text"`, and
                of targets, `"decoder_text"`; or a `tf.data.Dataset` of
                batches of pairs (source, target) or of such dicts.
            y: list or array of targets, if `x` is the sources.
            batch_size: int. Defaults to `32`, unless `x` is a data set.
            sample_weight: list or array of weights of the pairs.
            validation_data: pair of lists, dict, or data set.
            validation_split: float. The share of the pairs, from the end, to
                validate on.
            **kwargs: as for `keras.Model.fit`. Pairs are not shuffled.

        Returns:
            `keras.callbacks.History`.

        Raises:
            InputError: if the numbers of sources and targets differ.
        """
        self._check_targets(x, y)
        end = 1.0
        validation = None
        if validation_data is not None:
            parts = keras.utils.unpack_x_y_sample_weight(validation_data)
            validation = _batches(batch_size, *parts)
        elif validation_split:
            # As in Keras, the last ones are for validation.
            end = 1 - validation_split
            validation = _batches(batch_size, x, y, sample_weight, start=end)
        if validation is not None:
            # `validation_data` is data alone; `fit` has one batch size for all.
            validation.pop("batch_size", None)
            validation_data = keras.utils.pack_x_y_sample_weight(**validation)
        # KerasHub makes data sets, which are not shuffled.
        kwargs.setdefault("shuffle", False)
        data = _batches(batch_size, x, y, sample_weight, end=end)
        return super().fit(**data, validation_data=validation_data, **kwargs)

    def evaluate(
        self,
        x: Any = None,
        y: Any = None,
        batch_size: int | None = None,
        sample_weight: Any = None,
        **kwargs: Any,
    ) -> Any:
        """Evaluates the task on pairs of strings.

        Args:
            x, y, batch_size, sample_weight: as for `fit`.
            **kwargs: as for `keras.Model.evaluate`.

        Raises:
            InputError: if the numbers of sources and targets differ.
        """
        self._check_targets(x, y)
        return super().evaluate(
            **_batches(batch_size, x, y, sample_weight), **kwargs
        )

    def predict(
        self, x: Any = None, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Computes logits of the tokens of targets.

        Args:
            x: as for `fit`. Without targets, the logits are those of the first
                token.
            batch_size: int. Defaults to `32`, unless `x` is a data set.
            **kwargs: as for `keras.Model.predict`.

        Returns:
            float array `(B, T, V)`; ragged if batches differ in length.
        """
        data = _batches(batch_size, x)
        return super().predict(data["x"], data.get("batch_size"), **kwargs)

    def _check_targets(self, x: Any, y: Any) -> None:
        """Refuses sources without targets, which cannot be trained on."""
        # A `tf.data.Dataset` has a spec of its elements; a generator has none.
        batch = getattr(x, "element_spec", x)
        if isinstance(batch, dict):
            is_missing = "decoder_text" not in batch
        else:
            is_missing = _is_array(batch)
        if is_missing and y is None and self.preprocessor is not None:
            raise InputError(
                "There must be a target for each source. Received: `y=None`. "
                "Give targets as `y`, as the second of a pair, or as "
                '"decoder_text".'
            )

    def count_tokens(self, x: Any, y: Tensor) -> Tensor:
        """Counts source and target tokens, see `TrainableModel`.

        Args:
            x, y: inputs and labels.
        """
        return super().count_tokens(transformer_inputs(x), y)

    def symbolic_batch(self) -> tuple[Any, Any]:
        """Returns symbolic inputs and labels, as `fit` takes them."""
        inputs = {
            name: keras.KerasTensor((None, None), dtype)
            for name, dtype in INPUT_DTYPES.items()
        }
        return inputs, keras.KerasTensor((None, None), "int32")

    def token_scores(
        self,
        x: Any,
        y: Tensor,
        sample_weight: Tensor | None,
        num_tokens: Tensor,
        loss: MaskedCrossEntropy | None,
    ) -> Any:
        """Returns logits or `TokenScores`, see `TrainableModel`.

        Args:
            x: inputs of the model.
            y, sample_weight, num_tokens, loss: as for
                `TrainableModel.token_scores`.
        """
        rest = (y, sample_weight, num_tokens, loss)
        if loss is None or type(self).call is not TranslationLM.call:
            return super().token_scores(x, *rest)
        return self.transformer.token_scores(transformer_inputs(x), *rest)

    # === Generation ===

    def generate(
        self,
        inputs: Any,
        max_length: int | None = None,
        stop_token_ids: Any = "auto",
        strip_prompt: bool = False,
    ) -> Any:
        """Translates, each text as one sentence.

        Args:
            inputs: string, or list, array or `tf.data.Dataset` of batches of
                them; or dicts of them, `"encoder_text"`, and of the beginnings
                of the translations, `"decoder_text"`. Without a preprocessor,
                inputs of `TranslationBackbone`.
            max_length: int. The longest translation, in tokens, including its
                end; only with a preprocessor. If it stops the search, a
                translation that ended early may be the best, even an empty one.
                Defaults to `None`, only limited by `max_extra_length`.
            stop_token_ids: `"auto"`, the end of sentence, the only one.
            strip_prompt: bool. Whether to remove the given beginnings from the
                translations; only with a preprocessor. Defaults to `False`.

        Returns:
            A string, or a list of them; without a preprocessor a dict of ids
            and mask.

        Raises:
            TypeError: if an item is not a string.
            InputError: if a source is longer than `max_source_length`, or
                there is not a `"decoder_text"` for each, or there are other
                `stop_token_ids`.
        """
        if self.preprocessor is None:
            return super().generate(inputs, max_length, None, strip_prompt)
        # An argument of KerasHub's that would change nothing here.
        if stop_token_ids != "auto":
            raise InputError(
                '`stop_token_ids` must be "auto": a translation ends at the '
                f"end of sentence. Received: {stop_token_ids!r}."
            )
        # A new one at each call, as vocabularies and settings may be set later.
        translator = self.translator
        translator.max_length = max_length
        # Without importing TensorFlow, which other backends do not need.
        is_dataset = hasattr(inputs, "as_numpy_iterator")
        translations: list[str] = []
        is_one = False
        for batch in inputs.as_numpy_iterator() if is_dataset else [inputs]:
            sources, prefixes, is_one = self._sources(batch)
            found = translator.search(
                sources,
                target_prefixes=prefixes if any(prefixes) else None,
            )
            texts = [one.text for one in found]
            if strip_prompt:
                texts = [
                    text.removeprefix(clean_text(prefix)).lstrip()
                    for text, prefix in zip(texts, prefixes)
                ]
            translations += texts
        return translations[0] if is_one and not is_dataset else translations

    def _sources(self, batch: Any) -> tuple[list[str], list[str], bool]:
        """Returns sources, prefixes, and whether it was a single string."""
        if isinstance(batch, tuple):
            # A data set of pairs, as for training.
            batch = batch[0]
        if not isinstance(batch, dict):
            batch = {"encoder_text": batch}
        sources, is_one = _strings(batch["encoder_text"])
        prefixes, _ = _strings(batch.get("decoder_text", ""))
        # One beginning, such as the default, is that of all sources.
        if len(prefixes) == 1:
            prefixes = prefixes * len(sources)
        if len(prefixes) != len(sources):
            raise InputError(
                'There must be a "decoder_text" for each "encoder_text". '
                f"Received: {len(prefixes)} for {len(sources)}."
            )
        # `Translator` cuts them and says so, which `generate` cannot.
        for number, row in enumerate(self.preprocessor.source_rows(sources)):
            length = len(row) + 1
            if length > self.max_source_length:
                raise InputError(
                    f"A source must be of at most {self.max_source_length} "
                    "tokens, its end included (`max_source_length`). "
                    f"Received: {length} in item {number}, "
                    f"{sources[number][:40]!r}... Split it, or load the "
                    f"preset with `max_source_length={length}`."
                )
        return sources, prefixes, is_one

    def make_generate_function(self) -> Callable[..., dict[str, Tensor]]:
        """Returns `generate_step`, as the beam search compiles itself."""
        return self.generate_step

    def generate_step(
        self, inputs: dict[str, Tensor], stop_token_ids: Any = None
    ) -> dict[str, Tensor]:
        """Generates from ids.

        Args:
            inputs: as for `TranslationBackbone`. Ids of the decoder are the
                beginnings of the translations, which are at most as long as
                the row behind its start.
            stop_token_ids: not used.

        Returns:
            Dict of `"decoder_token_ids"` and `"decoder_padding_mask"`
            `(B, T)`, and `"scores"` `(B,)`.
        """
        ids = transformer_inputs(inputs)
        # Behind the start: what is given, and room for the rest.
        given = ops.convert_to_numpy(ids["target_token_ids"])[:, 1:]
        found = beam_search(
            self.transformer,
            ids["source_token_ids"],
            max_length=given.shape[1],
            target_prefix=given if given.any() else None,
            num_beams=self.num_beams,
            length_penalty=self.length_penalty,
            max_extra_length=self.max_extra_length,
            no_repeat_ngram=self.no_repeat_ngram,
        )
        # The best of each sentence, behind the start as KerasHub has it.
        token_ids = found["token_ids"][:, 0]
        start = ops.full_like(token_ids[:, :1], self.transformer.start_token_id)
        token_ids = ops.concatenate([start, token_ids], axis=-1)
        is_start = ops.arange(ops.shape(token_ids)[1]) == 0
        return {
            "decoder_token_ids": token_ids,
            "decoder_padding_mask": ops.logical_or(
                is_start, ops.not_equal(token_ids, 0)
            ),
            "scores": found["scores"][:, 0],
        }


def _strings(texts: Any) -> tuple[list[str], bool]:
    """Returns texts as a list, and whether it was a single string."""
    # NumPy and TensorFlow hold strings as bytes.
    array = np.asarray(texts, object)
    strings = [
        text.decode() if isinstance(text, bytes) else text
        for text in np.atleast_1d(array)
    ]
    return checked_sentences("inputs", strings), array.ndim == 0


def _is_array(x: Any) -> bool:
    """Tells whether it is an array or a list, or a dict of them."""
    return isinstance(x, list | dict) or hasattr(x, "shape")


def _batches(
    batch_size: int | None,
    x: Any,
    y: Any = None,
    sample_weight: Any = None,
    start: float = 0.0,
    end: float = 1.0,
) -> dict[str, Any]:
    """Returns arguments of `fit` with arrays converted to a data set.

    On TensorFlow it is a `tf.data.Dataset`: KerasHub's own conversion assumes
    that all batches have the shapes of the first few. It has the rows from the
    share `start` of the arrays to the share `end`.
    """
    data = {"x": x, "y": y, "sample_weight": sample_weight}
    if not _is_array(x):
        if (start, end) != (0, 1):
            raise InputError(
                "`validation_split` takes the last rows of lists or arrays. "
                f"Received: x of type {type(x).__name__}. Give "
                "`validation_data` instead."
            )
        return {**data, "batch_size": batch_size}
    columns: dict[str, Any] = {}
    for name, value in data.items():
        columns |= value if isinstance(value, dict) else {name: value}
    lengths = {n: len(c) for n, c in columns.items() if c is not None}
    if len(set(lengths.values())) > 1:
        listed = ", ".join(f"{n} of `{name}`" for name, n in lengths.items())
        raise InputError(
            "There must be a target for each source, and a weight for each "
            f"pair if there are any. Received: {listed}."
        )
    length = max(lengths.values())
    # Truncated as Keras does for `validation_split`.
    rows = slice(int(start * length), int(end * length))

    def part(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: column[rows] for name, column in value.items()}
        return None if value is None else value[rows]

    data = {name: part(value) for name, value in data.items()}
    if keras.backend.backend() != "tensorflow":
        return {**data, "batch_size": batch_size}
    import tensorflow as tf

    arrays = keras.utils.pack_x_y_sample_weight(**data)
    dataset = tf.data.Dataset.from_tensor_slices(arrays)
    return {"x": dataset.batch(batch_size or _BATCH_SIZE)}


def _check_parts(backbone: Any, preprocessor: Any) -> None:
    """Raises `InputError` unless a preprocessor fits a backbone.

    Vocabularies may be loaded later, and are not checked then.
    """
    check_class("backbone", backbone, TranslationBackbone)
    # Without one, inputs are ids.
    if preprocessor is None:
        return
    check_class("preprocessor", preprocessor, TranslationPreprocessor)
    config = backbone.config
    target = preprocessor.tokenizer
    source = preprocessor.source_tokenizer or target
    for side, tokenizer in (("source", source), ("target", target)):
        if tokenizer.proto is not None:
            check_vocabulary_fits(side, tokenizer.vocabulary_size(), config)
    if preprocessor.start_token_id != config.start_token_id:
        raise InputError(
            "The preprocessor starts translations with the id "
            f"{preprocessor.start_token_id}, the backbone with "
            f"{config.start_token_id}: they do not belong together."
        )
