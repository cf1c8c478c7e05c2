"""Measures the energy of the processors, where the machine tells it."""

import pathlib

_UNKNOWN = (OSError, ValueError)


class ProcessorEnergy:
    """Adds up what the machine's processors take, whatever runs on them.

    Linux counts it for processors of Intel and AMD, and as a rule tells root
    alone (`/sys/class/powercap`, the domains `package-*`). The counters begin
    again at 0 every few minutes under load: who wants to miss nothing asks for
    `joules` more often.

    Args:
        folder: The path of the folder of counters.
    """

    def __init__(
        self, folder: pathlib.Path | str = "/sys/class/powercap"
    ) -> None:
        self._zones = [
            zone
            # With one colon: parts of a processor have two, and what a second
            # interface tells of it begins otherwise.
            for zone in sorted(pathlib.Path(folder).glob("intel-rapl:*"))
            if zone.name.count(":") == 1 and _is_processor(zone)
        ]
        self._joules: float | None = None
        self._last: list[int] = []
        self.start()

    def start(self) -> None:
        """Begins again at 0."""
        try:
            self._last = [_read(zone, "energy_uj") for zone in self._zones]
            self._joules = 0.0 if self._zones else None
        except _UNKNOWN:
            self._joules = None

    def joules(self) -> float | None:
        """Returns what was taken since the start; `None` if it is not told."""
        if self._joules is None:
            return None
        try:
            now = [_read(zone, "energy_uj") for zone in self._zones]
            for zone, before, after in zip(self._zones, self._last, now):
                taken = after - before
                if taken < 0:
                    taken += _read(zone, "max_energy_range_uj")
                self._joules += taken / 1e6
            self._last = now
        except _UNKNOWN:
            self._joules = None
        return self._joules


def _is_processor(zone: pathlib.Path) -> bool:
    try:
        return (zone / "name").read_text().startswith("package-")
    except OSError:
        return False


def _read(zone: pathlib.Path, name: str) -> int:
    return int((zone / name).read_text())
