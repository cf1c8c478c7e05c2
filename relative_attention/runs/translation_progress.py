"""Says how much of a text is translated, and how long the rest will take."""

import time
from collections.abc import Callable


class TranslationProgress:
    """Tells the lines done of all, how many a second, and the time left.

    Args:
        total: int. The number of lines.
        num_before: int. Those that an earlier process translated, which say
            nothing of the speed of this one.
        clock: function that returns seconds.
    """

    def __init__(
        self,
        total: int,
        num_before: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.total = total
        self._num_before = num_before
        self._clock = clock
        self._begin = clock()

    def line(self, num_done: int) -> str:
        """Returns what there is to say after so many lines, of all.

        Args:
            num_done: int. The lines done, those before this process too.
        """
        text = f"{num_done:,} of {self.total:,} lines"
        num_new = num_done - self._num_before
        if num_new <= 0:
            return text
        speed = num_new / max(self._clock() - self._begin, 1e-3)
        left = _clock_time((self.total - num_done) / speed)
        digits = 1 if speed < 10 else 0
        return f"{text}, {speed:,.{digits}f} a second, {left} left"


def _clock_time(seconds: float) -> str:
    minutes, seconds = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{seconds:02}"
