"""The validations of a run: which was the best, and the files of them all."""

import json
import math
import pathlib

from relative_attention.files import atomic_file
from relative_attention.runs.callbacks.run_state import Record
from relative_attention.training.training_table import TRAINING_TABLE
from relative_attention.training.training_table import write_training_table


class RunHistory:
    """Keeps a record of each validation, and tells the best of them.

    Args:
        directory: The path of the run.
        best_by: A string, what is compared: `"loss"` or `"bleu"`, of
            validation. Defaults to `"loss"`.

    Attributes:
        records: A list of dicts of numbers, one for each validation.
    """

    def __init__(
        self, directory: pathlib.Path | str, best_by: str = "loss"
    ) -> None:
        self.directory = pathlib.Path(directory)
        self.best_by = best_by
        self.records: list[Record] = []

    def is_best(self, record: Record) -> bool:
        """Returns whether a new validation is better than all before."""
        best = min(map(self._cost, self.records), default=math.inf)
        return self._cost(record) < best

    def since_best(self) -> int:
        """Returns how many validations came after the best one."""
        costs = [self._cost(record) for record in self.records]
        if not costs:
            return 0
        return len(self.records) - costs.index(min(costs)) - 1

    def write(self) -> None:
        """Writes the records as `history.json` and `training.csv`."""
        with atomic_file(self.directory / "history.json", "w") as file:
            json.dump(self.records, file, indent=1)
        write_training_table(self.records, self.directory / TRAINING_TABLE)

    def _cost(self, record: Record) -> float:
        """Returns what the better one of two validations has less of."""
        if self.best_by == "bleu":
            return -record["val_bleu"]
        loss = record["val_loss"]
        # Of NaN neither `<` nor `min` would make sense.
        return loss if math.isfinite(loss) else math.inf
