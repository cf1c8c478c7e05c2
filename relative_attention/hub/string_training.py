"""Training of a task of KerasHub: on strings, by this package's step."""

from typing import Any

import keras
import keras_hub

from relative_attention.hub.string_data import check_targets
from relative_attention.hub.string_data import is_array
from relative_attention.hub.string_data import split_arrays
from relative_attention.hub.string_data import string_batches
from relative_attention.hub.transformer_parts import INPUT_DTYPES
from relative_attention.hub.transformer_parts import transformer_inputs
from relative_attention.models import TrainableModel
from relative_attention.models import Transformer
from relative_attention.tensor_type import Tensor
from relative_attention.training import MaskedCrossEntropy
from relative_attention.training import Perplexity
from relative_attention.training import TokenAccuracy

BEAM_SEARCH = "beam_search"


class StringTraining(TrainableModel, keras_hub.models.Seq2SeqLM):
    """The part of `TranslationLM` that `compile` and `fit` are.

    `TrainableModel` comes first: its step is the one that `fit` makes, and
    KerasHub's classes below turn strings into what the step takes.
    """

    transformer: Transformer
    # What KerasHub compiled of a sampler, if anything.
    generate_function: Any

    def compile(
        self,
        optimizer: Any = "auto",
        loss: Any = "auto",
        *,
        weighted_metrics: Any = "auto",
        sampler: Any = BEAM_SEARCH,
        **kwargs: Any,
    ) -> None:
        """Configures how the task trains, and how it generates.

        Args:
            optimizer: optimizer or its name. Defaults to `"auto"`,
                `keras.optimizers.Adam(2e-5)` as in KerasHub.
            loss: loss. Defaults to `"auto"`, `MaskedCrossEntropy(0.1)`.
            weighted_metrics: list of metrics. Defaults to `"auto"`,
                `Perplexity` and `TokenAccuracy`.
            sampler: `"beam_search"`, or a `keras_hub.samplers.Sampler` or its
                name, of which `"beam"` is a beam search without length
                penalty. Defaults to `"beam_search"`.
            **kwargs: as of `TrainableModel.compile`.
        """
        if isinstance(loss, str) and loss == "auto":
            loss = MaskedCrossEntropy(0.1)
        if isinstance(weighted_metrics, str) and weighted_metrics == "auto":
            weighted_metrics = [Perplexity(), TokenAccuracy()]
        is_ours = isinstance(sampler, str) and sampler == BEAM_SEARCH
        super().compile(
            optimizer=optimizer,
            loss=loss,
            weighted_metrics=weighted_metrics,
            sampler=None if is_ours else sampler,
            **kwargs,
        )

    def get_compile_config(self) -> dict[str, Any]:
        """Returns what the task was compiled with, for JSON."""
        config = super().get_compile_config()
        if not config:
            return config
        # A file holds the optimizer's state, be it that of no step: who loads
        # it has all of it.
        if not self.optimizer.built:
            self.optimizer.build(self.trainable_variables)
        sampler = self.sampler
        return {
            **config,
            "sampler": BEAM_SEARCH
            if sampler is None
            else keras_hub.samplers.serialize(sampler),
        }

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
            y: list or array of targets, where `x` is that of sources.
            batch_size: int. Defaults to `32`, where `x` is no data set.
            sample_weight: list or array of weights of the pairs.
            validation_data: pair of lists, dict, or data set.
            validation_split: float. The share of the pairs, the last ones,
                to validate with.
            **kwargs: as of `keras.Model.fit`. Pairs come in their order.

        Returns:
            `keras.callbacks.History`.

        Raises:
            InputError: if there are not as many targets as sources.
        """
        if self.preprocessor is not None:
            check_targets(x, y)
        if validation_split and validation_data is None:
            (x, y, sample_weight), validation_data = split_arrays(
                x, y, sample_weight, validation_split
            )
        x, y, sample_weight, rows = string_batches(
            x, y, sample_weight, batch_size
        )
        if isinstance(validation_data, tuple | list | dict):
            validation_data = _validation_batches(validation_data, batch_size)
        return super().fit(
            x=x,
            y=y,
            batch_size=rows,
            sample_weight=sample_weight,
            validation_data=validation_data,
            # KerasHub makes data sets of all, whose order is their own.
            **{"shuffle": False, **kwargs},
        )

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
            x, y, batch_size, sample_weight: as of `fit`.
            **kwargs: as of `keras.Model.evaluate`.

        Raises:
            InputError: if there are not as many targets as sources.
        """
        if self.preprocessor is not None:
            check_targets(x, y)
        x, y, sample_weight, rows = string_batches(
            x, y, sample_weight, batch_size
        )
        return super().evaluate(
            x=x, y=y, batch_size=rows, sample_weight=sample_weight, **kwargs
        )

    def predict(
        self, x: Any = None, batch_size: int | None = None, **kwargs: Any
    ) -> Any:
        """Computes logits of the tokens of targets.

        Args:
            x: as of `fit`. Targets may be missing; the logits are then those
                of the first token.
            batch_size: int. Defaults to `32`, where `x` is no data set.
            **kwargs: as of `keras.Model.predict`.

        Returns:
            float array `(B, T, V)`; ragged where batches differ in length.
        """
        x, _, _, rows = string_batches(x, None, None, batch_size)
        return super().predict(x=x, batch_size=rows, **kwargs)

    def count_tokens(self, x: Any, y: Tensor) -> Tensor:
        """Counts source and target tokens, see `TrainableModel`.

        Args:
            x, y: inputs and labels.
        """
        return super().count_tokens(transformer_inputs(x), y)

    def symbolic_batch(self) -> tuple[Any, Any]:
        """Returns inputs and labels without numbers, as `fit` takes them."""
        inputs = {
            name: keras.KerasTensor((None, None), dtype)
            for name, dtype in INPUT_DTYPES.items()
        }
        return inputs, keras.KerasTensor((None, None), "int32")

    def _predictions(self, x: Any, *args: Any, **kwargs: Any) -> Any:
        # The step without logits is that of the `Transformer` itself.
        if self.is_projected:
            x = transformer_inputs(x)
        return super()._predictions(x, *args, **kwargs)


def _validation_batches(data: Any, batch_size: int | None) -> Any:
    """Makes a data set of arrays, or of a pair or triple of them."""
    x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
    x, y, sample_weight, _ = string_batches(x, y, sample_weight, batch_size)
    return (x, y, sample_weight) if is_array(x) else x
