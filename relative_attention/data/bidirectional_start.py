"""Batches of both directions first, and of one from some step on."""

import functools
from typing import TYPE_CHECKING

from relative_attention.data.both_directions import both_directions
from relative_attention.data.token_batches import Batch
from relative_attention.data.token_batches import TokenBatches

if TYPE_CHECKING:
    import tensorflow as tf


class BidirectionalStart:
    """Goes before `TokenBatches` with batches of both directions.

    The first steps take their batches from `both_directions` of the corpus,
    shuffled as one; from then on the batches are those of `TokenBatches`,
    beginning with their first epoch. Where the second direction is left does
    not depend on anything but the step, so a training run can go on at any.

    Args:
        batches: `TokenBatches` of the one direction; its number of batches is
            that of this.
        num_steps: int. How many steps take both directions, at least 1.

    Reference:
     - [Ding et al., 2021](https://aclanthology.org/2021.emnlp-main.263)
    """

    def __init__(self, batches: TokenBatches, num_steps: int) -> None:
        self.batches = batches
        self.num_steps = num_steps

    def __len__(self) -> int:
        """Returns the number of batches of an epoch of the one direction."""
        return len(self.batches)

    @functools.cached_property
    def start(self) -> TokenBatches:
        """The `TokenBatches` of both directions."""
        # Not before a step takes it: its arrays are in memory.
        return self.batches.of_corpus(both_directions(self.batches.corpus))

    def train_batch(self, step: int) -> Batch:
        """Returns the batch of a training step, see `TokenBatches.batch`.

        Args:
            step: int. Number of the step over all epochs, 0 first.
        """
        batches, number = self._at(int(step))
        return batches.train_batch(number)

    def line_numbers(self, step: int) -> list[int]:
        """Returns the lines of the files that a training step learns from.

        Args:
            step: int. Number of the step over all epochs, 0 first.

        Returns:
            Sorted list of int, 1 first. A line that the step takes in both
            directions stands there once.
        """
        batches, number = self._at(step)
        return sorted(set(batches.line_numbers(number)))

    def train_dataset(self, first_step: int = 0) -> "tf.data.Dataset":
        """Returns an endless `tf.data.Dataset` of batches, epoch after epoch.

        Args:
            first_step: int. The training step to begin with. Defaults to `0`.
        """
        batches, number = self._at(first_step)
        if batches is self.batches:
            return batches.train_dataset(number)
        first = batches.train_dataset(number).take(self.num_steps - number)
        return first.concatenate(self.batches.train_dataset())

    def _at(self, step: int) -> tuple[TokenBatches, int]:
        """Returns the batches that a step takes from, and its number there."""
        if step < self.num_steps:
            return self.start, step
        return self.batches, step - self.num_steps
