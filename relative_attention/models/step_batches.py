"""Batches by the step of training, as arguments of `fit` and `evaluate`."""

import typing

import keras


@typing.runtime_checkable
class StepBatches(typing.Protocol):
    """What `TrainableModel` takes for data: `TokenBatches` is such.

    Which batch comes at a step is a function of the step, so that training
    can go on anywhere, and every backend sees the same.
    """

    def __len__(self):
        """Number of batches of an epoch."""

    def train_batch(self, step):
        """The batch of a step of training, 0 first, over all epochs."""

    def evaluation_batch(self, number):
        """A batch of those that hold every example once."""

    def train_dataset(self, first_step=0):
        """Endless `tf.data.Dataset` of what `train_batch` gives."""

    def evaluation_dataset(self):
        """`tf.data.Dataset` of what `evaluation_batch` gives."""


class _TrainBatches(keras.utils.PyDataset):
    """Endless, from a step on."""

    def __init__(self, batches, first_step):
        super().__init__()
        self.batches = batches
        self.first_step = first_step

    @property
    def num_batches(self):
        return None

    def __getitem__(self, index):
        return self.batches.train_batch(self.first_step + index)


class _EvaluationBatches(keras.utils.PyDataset):
    """Every example once."""

    def __init__(self, batches):
        super().__init__()
        self.batches = batches

    @property
    def num_batches(self):
        return len(self.batches)

    def __getitem__(self, index):
        return self.batches.evaluation_batch(index)


def give_train_batches(arguments):
    """Put what Keras takes in the place of `StepBatches`.

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


def give_evaluation_batches(arguments, name="x"):
    """The same for `evaluate`.

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


def _is_tensorflow():
    # Whose `fit` takes a `PyDataset` for batches of one shape, if the first
    # two happen to have the same.
    return keras.backend.backend() == "tensorflow"
