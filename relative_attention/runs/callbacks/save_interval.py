"""Decides when a run saves a checkpoint between two validations."""

import dataclasses


@dataclasses.dataclass(frozen=True)
class SaveInterval:
    """Says after how many updates, or minutes, a checkpoint is due.

    Attributes:
        steps: The number of updates between two checkpoints, or `None`.
        minutes: The minutes between two checkpoints, or `None`.
    """

    steps: int | None = None
    minutes: float | None = None

    def is_due(self, step: int, seconds: float) -> bool:
        """Returns whether to save now.

        Args:
            step: The number of updates that are done.
            seconds: The time since the last checkpoint.
        """
        return bool(
            (self.steps and step % self.steps == 0)
            or (self.minutes and seconds >= 60 * self.minutes)
        )
