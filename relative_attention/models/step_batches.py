"""Batches that are a function of the step, for `fit` and `evaluate`."""

from typing import Any
from typing import Protocol
from typing import runtime_checkable

import keras


@runtime_checkable
class StepBatches(Protocol):
    """The batches that `TrainableModel` takes for data, as `TokenBatches`.

    Which batch comes at a step is a function of the step, so that training
    can go on anywhere, and every backend sees the same.
    """

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        ...

    def train_batch(self, step: int) -> Any:
        """Returns the batch of a step of training, 0 first in epoch 0."""

    def evaluation_batch(self, number: int) -> Any:
        """Returns one of the batches that hold every example once."""

    def train_dataset(self, first_step: int = 0) -> Any:
        """Returns an endless `tf.data.Dataset` of training batches."""
        ...

    def evaluation_dataset(self) -> Any:
        """Returns a `tf.data.Dataset` of the evaluation batches."""
        ...


class _TrainBatches(keras.utils.PyDataset):
    """Batches of training without an end, from a step on."""

    def __init__(self, batches: StepBatches, first_step: int) -> None:
        super().__init__()
        self.batches = batches
        self.first_step = first_step

    @property
    def num_batches(self) -> None:
        return None

    def __getitem__(self, index: int) -> Any:
        return self.batches.train_batch(self.first_step + index)


class _EvaluationBatches(keras.utils.PyDataset):
    """Batches of evaluation, which hold every example once."""

    def __init__(self, batches: StepBatches) -> None:
        super().__init__()
        self.batches = batches

    @property
    def num_batches(self) -> int:
        return len(self.batches)

    def __getitem__(self, index: int) -> Any:
        return self.batches.evaluation_batch(index)


def give_train_batches(arguments: dict[str, Any]) -> None:
    """Replaces `StepBatches` by data that Keras takes, for `fit`.

    Args:
        arguments: dict of the arguments of `fit`, to be changed.
    """
    batches = arguments.get("x")
    if isinstance(batches, StepBatches):
        steps = arguments.get("steps_per_epoch") or len(batches)
        first_step = steps * arguments.get("initial_epoch", 0)
        arguments["x"] = (
            batches.train_dataset(first_step)
            if _is_tensorflow()
            else _TrainBatches(batches, first_step)
        )
        arguments["steps_per_epoch"] = steps
        # They are shuffled already.
        arguments["shuffle"] = False
    give_evaluation_batches(arguments, "validation_data")


def give_evaluation_batches(arguments: dict[str, Any], name: str = "x") -> None:
    """Replaces `StepBatches` by data that Keras takes, for `evaluate`.

    Args:
        arguments: dict of its arguments, to be changed.
        name: string. Which of them may be `StepBatches`.
    """
    batches = arguments.get(name)
    if isinstance(batches, StepBatches):
        arguments[name] = (
            batches.evaluation_dataset()
            if _is_tensorflow()
            else _EvaluationBatches(batches)
        )


def _is_tensorflow() -> bool:
    # Whose `fit` takes a `PyDataset` for batches of one shape, if the first
    # two happen to have the same.
    return keras.backend.backend() == "tensorflow"
