"""The median of some measurements, with the least and the greatest."""

import dataclasses
import statistics
from collections.abc import Mapping
from collections.abc import Sequence

# What a result holds of a figure: one number, the values of all rounds, or a
# `Spread` as a mapping, where the values themselves were not recorded.
Figure = float | Sequence[float] | Mapping[str, float]


@dataclasses.dataclass(frozen=True)
class Spread:
    """A median; least and greatest are `None` where they are not recorded.

    Attributes:
        median: A float.
        least: A float or `None`.
        greatest: A float or `None`.
    """

    median: float
    least: float | None = None
    greatest: float | None = None

    @classmethod
    def of(cls, figure: Figure) -> "Spread":
        """Returns the spread of what a result holds of a figure."""
        if isinstance(figure, Mapping):
            return cls(**figure)
        if isinstance(figure, int | float):
            return cls(figure)
        return cls(statistics.median(figure), min(figure), max(figure))

    def text(self, digits: int = 2) -> str:
        """Returns `median (least to greatest)`, or the median alone.

        Args:
            digits: An integer, the number of digits behind the point.
                Defaults to `2`.
        """
        middle = f"{self.median:,.{digits}f}"
        if self.least is None or self.greatest is None:
            return middle
        low = f"{self.least:,.{digits}f}"
        high = f"{self.greatest:,.{digits}f}"
        return middle if low == high else f"{middle} ({low} to {high})"


def spread(figure: Figure, digits: int = 2) -> str:
    """Returns the text of a figure's spread, see `Spread.text`."""
    return Spread.of(figure).text(digits)


def median(figure: Figure) -> float:
    """Returns the median of what a result holds of a figure."""
    return Spread.of(figure).median


def ratios(ours: Sequence[float], theirs: Sequence[float]) -> list[float]:
    """Returns what each of ours is over theirs of the same round."""
    return [mine / other for mine, other in zip(ours, theirs, strict=True)]
