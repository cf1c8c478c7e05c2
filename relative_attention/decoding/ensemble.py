"""Several models that translate together."""

import copy
import math
from collections.abc import Sequence
from typing import Any

import keras
from keras import ops

from relative_attention.decoding.model_steps import StepModel
from relative_attention.models import Transformer
from relative_attention.models import TransformerConfig
from relative_attention.ops.backend import widened
from relative_attention.tensor_type import Tensor


class Ensemble:
    """Models with the same vocabulary, whose probabilities are averaged.

    The probability of a token is the arithmetic mean over the models, given the
    same previous tokens:

        p(y_t | y_<t, x) = (1 / M) * sum_m p_m(y_t | y_<t, x)

    An ensemble can replace a `Transformer` in decoding: in `beam_search`,
    `sample`, a `Translator`, `score_translations` and `export_saved_model`. The
    models may differ in architecture, width, positions and dtype, but the same
    ids must mean the same pieces. Time and memory are the sums over the models.

    An ensemble has no attention to return, so use one of its `models` for
    `return_attention` and pictures. It cannot be saved as a folder:
    `load_translator` takes a list of folders.

    Args:
        models: list of `Transformer`, at least one. A repeated model counts
            repeatedly.

    Call arguments:
        inputs: dict of `"source_token_ids"` int `(B, S)` and
            `"target_token_ids"` int `(B, T)`.
        training: A boolean to indicate whether dropout is active.

    Returns:
        Float tensor `(B, T, V)`, the logarithm of the mean probability of the
        next token; for a single model, its logits.

    Raises:
        TypeError: if `models` is not a list of `Transformer`.
        ValueError: if it is empty, or the models differ in the sizes of their
            vocabularies or in `start_token_id`.

    Example:
    >>> models = [
    ...     ra.Transformer.from_preset(name, vocabulary_size=100)
    ...     for name in ("transformer_tiny", "transformer_tiny_relative")
    ... ]
    >>> ensemble = ra.Ensemble(models)
    >>> ids = np.array([[5, 6, 1]])
    >>> inputs = {"source_token_ids": ids, "target_token_ids": ids}
    >>> keras.ops.shape(ensemble(inputs))
    (1, 3, 100)
    """

    def __init__(self, models: Sequence[Transformer]) -> None:
        self.models = _checked_models(models)
        self._steps: Sequence[StepModel] = self.models

    @property
    def config(self) -> TransformerConfig:
        """The config of the first model.

        A search only uses the sizes of the vocabularies, which are the same in
        all models.
        """
        return self.models[0].config

    @property
    def start_token_id(self) -> int:
        """The id that the decoder's inputs start with."""
        return self.models[0].start_token_id

    @property
    def weights(self) -> list[keras.Variable]:
        """The weights of all models, each once."""
        by_identity = {
            id(weight): weight
            for model in self.models
            for weight in model.weights
        }
        return list(by_identity.values())

    def __call__(
        self, inputs: dict[str, Tensor], training: bool | None = None
    ) -> Tensor:
        """Computes the logarithm of the mean probability of the next token."""
        return _mean_logits(
            [model(inputs, training=training) for model in self.models]
        )

    # === Decoding, a position at a time ===

    def start_cache(self, source_token_ids: Tensor) -> list[dict[str, Any]]:
        """Encodes with every model.

        Args:
            source_token_ids: int tensor `(B, S)`.

        Returns:
            List of the caches of the models.
        """
        return [model.start_cache(source_token_ids) for model in self.models]

    def decode_step(
        self,
        token_ids: Tensor,
        cache: list[dict[str, Any]],
        position: int | Tensor,
        ancestors: Tensor | None = None,
    ) -> tuple[Tensor, list[dict[str, Any]]]:
        """Runs one step of every model.

        Args:
            token_ids: int tensor `(B, M)`.
            cache: what `start_cache` or the previous step returned.
            position: int scalar, absolute, 0 first.
            ancestors: int tensor `(B, M, position + 1)`, or `None`; see
                `Transformer.decode_step`.

        Returns:
            Pair of the logarithms of the mean probabilities `(B, M, V)`, or
            the logits of a single model, and the cache, one position longer.
        """
        steps = [
            model.decode_step(token_ids, of_model, position, ancestors)
            for model, of_model in zip(self._steps, cache)
        ]
        logits, caches = zip(*steps)
        return _mean_logits(logits), list(caches)

    def prepare_steps(self) -> "Ensemble":
        """Returns the ensemble with a weight layout for one search.

        See `Transformer.prepare_steps`.
        """
        prepared = copy.copy(self)
        prepared._steps = [model.prepare_steps() for model in self.models]
        return prepared


def _mean_logits(logits: Sequence[Tensor]) -> Tensor:
    """Computes the logarithm of the mean of several softmaxes `(..., V)`.

    The logits of a single model are returned unchanged. The results for several
    have at least 32 bits; their softmax is the mean.
    """
    if len(logits) == 1:
        return logits[0]
    # Sums of probabilities would lose the smallest ones. Two at a time, as all
    # at once would need one more tensor per model.
    total = ops.log_softmax(widened(logits[0]))
    for more in logits[1:]:
        total = ops.logaddexp(total, ops.log_softmax(widened(more)))
    return total - math.log(len(logits))


def _checked_models(models: Any) -> tuple[Transformer, ...]:
    is_list = isinstance(models, Sequence) and not isinstance(models, str)
    if not is_list or not all(isinstance(m, Transformer) for m in models):
        received = type(models).__name__
        if is_list:
            names = ", ".join(type(model).__name__ for model in models)
            received = f"[{names}]"
        raise TypeError(
            f"`models` must be a list of `Transformer`. Received: {received}. "
            "For a `Translator`, pass its `model`."
        )
    if not models:
        raise ValueError(
            "`models` must hold at least one `Transformer`. Received: []."
        )
    of_first = _vocabulary_fields(models[0])
    for number, model in enumerate(models[1:], start=2):
        for name, value in _vocabulary_fields(model).items():
            if value != of_first[name]:
                raise ValueError(
                    f"`models` must have one `{name}`, as they share one "
                    f"vocabulary. Received: {of_first[name]} of model 1, "
                    f"{value} of model {number}."
                )
    return tuple(models)


def _vocabulary_fields(model: Transformer) -> dict[str, int]:
    """Returns the fields of a model's config about its vocabulary."""
    config = model.config
    size = config.vocabulary_size
    return {
        "vocabulary_size": size,
        # A joint vocabulary is also that of the source.
        "source_vocabulary_size": config.source_vocabulary_size or size,
        "start_token_id": config.start_token_id,
    }
