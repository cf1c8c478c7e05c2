"""What a run has taken: time, and where the machine tells it, energy."""

import time

from relative_attention.runs.processor_energy import ProcessorEnergy


class RunCost:
    """Adds up the time and the energy of a run over all its parts.

    A part goes from `begin` to `end`; what lies between two is not the run's.
    """

    def __init__(self) -> None:
        self._energy = ProcessorEnergy()
        self._seconds_before = 0.0
        self._joules_before: float | None = 0.0
        self._start = time.perf_counter()

    def restore(self, seconds: float, joules: float | None) -> None:
        """Goes on from what parts before have taken.

        Args:
            seconds: A float, their time.
            joules: A float, their energy, or `None` if it is not known; that
                of the whole run is then never known.
        """
        self._seconds_before, self._joules_before = seconds, joules

    def begin(self) -> None:
        """Begins a part."""
        self._start = time.perf_counter()
        self._energy.start()

    def end(self) -> None:
        """Ends a part."""
        self.restore(self.seconds(), self.joules())

    def seconds(self) -> float:
        """Returns the time of all parts, that which goes on too."""
        return self._seconds_before + time.perf_counter() - self._start

    def joules(self) -> float | None:
        """Returns the energy of all parts, `None` if it is not known.

        It is that of the machine's processors, with all that they did.
        """
        now = self._energy.joules()
        if now is None or self._joules_before is None:
            return None
        return self._joules_before + now
