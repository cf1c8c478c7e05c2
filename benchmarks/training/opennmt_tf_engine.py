"""An engine that trains OpenNMT-tf's model, in its own environment.

`training_speed` starts it, and writes its configuration.
"""

import json
import sys
from typing import Any

import opennmt
import opennmt.training

from benchmarks.harness.opennmt_tf_model import make_model
from benchmarks.harness.turns import Turns


class StepTimer(opennmt.training.TrainingStats):
    """Reports what OpenNMT-tf logs, and waits for the next turn.

    The trainer calls `log` every `save_summary_steps` and then sets counters
    and clock back, so that waiting is not counted.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._turns = Turns()
        self._wait()
        super().__init__(*args, **kwargs)

    def log(self, is_master: bool = True) -> None:
        summary = self.get_last_summary()
        steps = summary["step"] - self._last_logged_step
        seconds = steps / summary["steps_per_sec"]
        tokens = sum(summary["words_per_sec"].values()) * seconds
        super().log(is_master)
        self._turns.report(steps=steps, seconds=seconds, tokens=tokens)
        self._wait()

    def _wait(self) -> None:
        """Waits for a turn; the process ends when there is none."""
        if not self._turns.wait():
            # Before OpenNMT-tf writes its last checkpoint, which would count
            # as memory of training.
            raise SystemExit


def main(config: dict[str, Any]) -> None:
    """Trains whenever it is the turn of this process.

    Args:
        config: A dict, the configuration of OpenNMT-tf.
    """
    opennmt.training.TrainingStats = StepTimer
    opennmt.Runner(make_model(), config).train()


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
