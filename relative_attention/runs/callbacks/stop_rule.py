"""Decides after which validation a run ends before its last step."""

import dataclasses

from relative_attention.runs.callbacks.run_history import RunHistory
from relative_attention.runs.cluster import Cluster


@dataclasses.dataclass(frozen=True)
class StopRule:
    """Ends a run that stops getting better, or whose time is up.

    Attributes:
        early_stopping: The number of validations without a better one after
            which the run ends; `0` for never.
        minutes: The time, over all parts of a run that was resumed, after
            which a validation is the last; `None` for no limit.
    """

    early_stopping: int = 0
    minutes: float | None = None

    def is_over(self, history: RunHistory, cluster: Cluster) -> bool:
        """Returns whether the run has ended; all machines must ask.

        Args:
            history: The validations so far.
            cluster: The machines, of which each asks.
        """
        if not history.records:
            return False
        # Each machine has scores of its own, BLEU of what it translated: the
        # chief, which writes them down, decides, or they would part.
        return cluster.any(
            self.is_late(history)
            or (cluster.is_chief and self.is_no_better(history))
        )

    def is_late(self, history: RunHistory) -> bool:
        """Returns whether the last validation ended beyond the time limit."""
        return bool(
            self.minutes and history.records[-1]["seconds"] >= 60 * self.minutes
        )

    def is_no_better(self, history: RunHistory) -> bool:
        """Returns whether too many validations came after the best."""
        return bool(
            self.early_stopping and history.since_best() >= self.early_stopping
        )
