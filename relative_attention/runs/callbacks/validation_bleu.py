"""Adds BLEU of the validation text to the logs of training."""

import itertools
from typing import Any

import keras

from relative_attention.decoding import Translator
from relative_attention.evaluation import corpus_bleu
from relative_attention.runs.callbacks.validation_translations import (
    validation_translations,
)
from relative_attention.runs.prepared_data import PreparedData
from relative_attention.training import averaged_weights

# More than this tells little more, and must be translated again and again.
_MAX_SENTENCES = 1000


class ValidationBleu(keras.callbacks.Callback):
    """Adds `val_bleu` to the logs of every n-th epoch.

    The validation text, its first 1,000 lines, is translated greedily, which
    is quick; scores of the finished model come from the recipe's beam search.

    Args:
        data: A `PreparedData`.
        every: An integer, the epochs between two computations.
    """

    def __init__(self, data: PreparedData, every: int) -> None:
        super().__init__()
        self.data = data
        self.every = every

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        pairs = itertools.islice(self.data.validation, _MAX_SENTENCES)
        self._sources, self._references = (list(side) for side in zip(*pairs))
        self._translator = Translator(
            self.model,
            self.data.target_vocabulary,
            source_vocabulary=self.data.source_vocabulary,
            num_beams=1,
        )

    def on_epoch_end(
        self, epoch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if (epoch + 1) % self.every == 0 and logs is not None:
            with averaged_weights(self.model):
                hypotheses = validation_translations(
                    self._translator, self._sources
                )
            logs["val_bleu"] = corpus_bleu(hypotheses, self._references).score
