"""Trains this package's model in turns; started by `training_speed.py`."""

import json
import sys
import time

import keras
import turns
import workload

import relative_attention as ra


class Windows(keras.callbacks.Callback):
    """Times windows of steps and counts their tokens."""

    def __init__(self, steps):
        super().__init__()
        self.turns = turns.Turns()
        self.steps = steps

    def on_train_begin(self, logs=None):
        self.tokens = 0.0
        self._next_window()

    def on_train_batch_end(self, batch, logs=None):
        if (batch + 1) % self.steps:
            return
        # Source and target tokens since the start, padding not counted and
        # ends of sentences counted. Reading it waits for the step to end.
        tokens = float(logs["tokens"])
        self.turns.report(
            steps=self.steps,
            seconds=time.perf_counter() - self.start,
            tokens=tokens - self.tokens,
        )
        self.tokens = tokens
        self._next_window()

    def _next_window(self):
        if not self.turns.wait():
            self.model.stop_training = True
        self.start = time.perf_counter()


def main(
    preset,
    dtype,
    source,
    target,
    vocabulary_size,
    folder,
    batch_tokens,
    window,
    seed,
):
    keras.utils.set_random_seed(seed)
    corpus = ra.ParallelCorpus(source, target)
    vocabulary, tokens = workload.prepare(corpus, vocabulary_size, folder)
    model = workload.compiled_model(preset, len(vocabulary), dtype)
    model.fit(
        ra.TokenBatches(tokens, batch_tokens, seed).train_dataset(),
        # Until there are no more turns.
        steps_per_epoch=sys.maxsize,
        callbacks=[Windows(window)],
        shuffle=False,
        verbose=0,
    )


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
