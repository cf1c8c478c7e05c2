"""Batches that are a function of the step, for `fit` and `evaluate`."""

from typing import Any
from typing import Protocol
from typing import runtime_checkable

import keras


class TrainingBatches(Protocol):
    """Batches to learn from, of which each is a function of the step.

    So training can go on anywhere, and every backend sees the same.
    """

    def __len__(self) -> int:
        """Returns the number of batches of an epoch."""
        ...

    def train_batch(self, step: int) -> Any:
        """Returns the batch of a step of training, 0 first in epoch 0."""

    def train_dataset(self, first_step: int = 0) -> Any:
        """Returns an endless `tf.data.Dataset` of training batches."""
        ...


@runtime_checkable
class StepBatches(TrainingBatches, Protocol):
    """The batches that `TrainableModel` takes for data, as `TokenBatches`."""

    def evaluation_batch(self, number: int) -> Any:
        """Returns one of the batches that hold every example once."""

    def evaluation_dataset(self) -> Any:
        """Returns a `tf.data.Dataset` of the evaluation batches."""
        ...


class _TrainBatches(keras.utils.PyDataset):
    """Batches of training without an end, from a step on."""

    def __init__(self, batches: TrainingBatches, first_step: int) -> None:
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


def train_data(batches: TrainingBatches, first_step: int) -> Any:
    """Returns training batches without an end as `fit` takes them.

    Args:
        batches: `TokenBatches`, or others whose batches are a function of the
            step.
        first_step: int. The step to begin with, 0 first.

    Returns:
        `tf.data.Dataset` on TensorFlow, `keras.utils.PyDataset` elsewhere.
    """
    if _is_tensorflow():
        return batches.train_dataset(first_step)
    return _TrainBatches(batches, first_step)


def evaluation_data(batches: StepBatches) -> Any:
    """Returns batches of every example once, as `evaluate` takes them.

    Args:
        batches: `TokenBatches`, or others of that kind.

    Returns:
        `tf.data.Dataset` on TensorFlow, `keras.utils.PyDataset` elsewhere.
    """
    if _is_tensorflow():
        return batches.evaluation_dataset()
    return _EvaluationBatches(batches)


def give_train_batches(arguments: dict[str, Any]) -> None:
    """Replaces `StepBatches` by data that Keras takes, for `fit`.

    Args:
        arguments: dict of the arguments of `fit`, to be changed.
    """
    batches = arguments.get("x")
    if isinstance(batches, StepBatches):
        steps = arguments.get("steps_per_epoch") or len(batches)
        first_step = steps * arguments.get("initial_epoch", 0)
        arguments["x"] = train_data(batches, first_step)
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
        arguments[name] = evaluation_data(batches)


def _is_tensorflow() -> bool:
    # Whose `fit` takes a `PyDataset` for batches of one shape, if the first
    # two happen to have the same.
    return keras.backend.backend() == "tensorflow"
