"""An engine that trains this package's model; `training_speed` starts it."""

import json
import sys
import time
from typing import Any

import keras

import relative_attention as ra
from benchmarks.harness.engine import Turns
from benchmarks.training.workload import make_model
from benchmarks.training.workload import prepare_corpus


class StepTimer(keras.callbacks.Callback):
    """Reports what every few steps took, and waits for the next turn.

    Args:
        steps: An integer, the steps of a turn.
    """

    def __init__(self, steps: int) -> None:
        super().__init__()
        self._turns = Turns()
        self._steps = steps

    def on_train_begin(self, logs: dict[str, Any] | None = None) -> None:
        self._tokens = 0.0
        self._wait()

    def on_train_batch_end(
        self, batch: int, logs: dict[str, Any] | None = None
    ) -> None:
        if (batch + 1) % self._steps or logs is None:
            return
        # Source and target tokens since the start, padding not counted and
        # ends of sentences counted. Reading it waits for the step to end.
        tokens = float(logs["tokens"])
        self._turns.report(
            steps=self._steps,
            seconds=time.perf_counter() - self._start,
            tokens=tokens - self._tokens,
        )
        self._tokens = tokens
        self._wait()

    def _wait(self) -> None:
        """Waits for a turn; training ends when there is none."""
        if not self._turns.wait():
            self.model.stop_training = True
        self._start = time.perf_counter()


def main(
    preset: str,
    dtype: str,
    source: str,
    target: str,
    vocabulary_size: int,
    folder: str,
    batch_tokens: int,
    steps: int,
    seed: int,
) -> None:
    """Trains whenever it is the turn of this process.

    Args:
        preset: See `make_model`.
        dtype: See `make_model`.
        source: The path of the source text.
        target: The path of the target text.
        vocabulary_size: An integer.
        folder: The path of the folder that the corpus was prepared in.
        batch_tokens: An integer, the budget of a batch.
        steps: An integer, the steps of a turn.
        seed: An integer, for weights and the order of batches.
    """
    keras.utils.set_random_seed(seed)
    corpus = ra.ParallelCorpus(source, target)
    vocabulary, tokens = prepare_corpus(corpus, vocabulary_size, folder)
    model = make_model(preset, len(vocabulary), dtype)
    model.fit(
        ra.TokenBatches(tokens, batch_tokens, seed).train_dataset(),
        # Until there are no more turns.
        steps_per_epoch=sys.maxsize,
        callbacks=[StepTimer(steps)],
        shuffle=False,
        verbose=0,
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
