"""A callback that times the steps of a call of `fit`."""

import time
from typing import Any


def make_step_timer() -> Any:
    """Returns a callback whose `figures` say what a call of `fit` took.

    The class is made when it is needed, as its base brings TensorFlow. The
    first step is left out: it opens the dataset.
    """
    import keras

    class StepTimer(keras.callbacks.Callback):
        def on_train_batch_end(
            self, batch: int, logs: dict[str, Any] | None = None
        ) -> None:
            # Reading a result waits for the step to end.
            tokens = float((logs or {})["tokens"])
            if batch == 0:
                self.start, self.first_tokens = time.perf_counter(), tokens
            self.steps = batch
            self.seconds = time.perf_counter() - self.start
            self.tokens = tokens - self.first_tokens

        def figures(self) -> dict[str, float]:
            return {
                "steps": self.steps,
                "seconds": self.seconds,
                "tokens": self.tokens,
            }

    return StepTimer()
