"""The turns of an engine, seen from the process that works.

Only the standard library is needed here, as this file also runs in the
environment of another system.
"""

import json
import os
import sys


class Turns:
    """Waits for the turns of this process and reports what each took.

    Standard output carries the reports and nothing else; what libraries
    print there goes to standard error.
    """

    def __init__(self) -> None:
        self._reports = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def wait(self) -> str:
        """Blocks until it is the turn of this process.

        Returns:
            The order, a string; empty when the process is to end.
        """
        return sys.stdin.readline().rstrip("\n")

    def report(self, **figures: object) -> None:
        """Tells what the turn took.

        Args:
            **figures: What JSON can hold, by name.
        """
        print(json.dumps(figures), file=self._reports, flush=True)
