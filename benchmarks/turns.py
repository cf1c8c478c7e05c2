"""Processes that work in turns, a window each.

Timings of a shared machine drift by more than the differences to be shown.
Contestants therefore all live at once, each in a process of its own, and take
short turns: what is compared was measured seconds apart. A process that
waits for its turn at most fetches a few batches ahead, as every one of them
does. Only the standard library is needed here: it runs in a competitor's
environment as well.
"""

import json
import os
import subprocess
import sys


class ContestantError(RuntimeError):
    """A contestant's process ended before it was told to."""


class Contestant:
    """A process, seen from the one that gives the turns.

    Args:
        command: list of strings. A program that uses `Turns`.
        environment: dict. Environment variables of the process.
        log: path. File that takes all that the process says.
    """

    def __init__(self, command, environment, log):
        self._log = log
        with open(log, "w") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                env=environment,
            )

    def take_turn(self, order="go"):
        """Let it work through a window.

        Args:
            order: string of one line, for the process to read.

        Returns:
            Dict of what the process reports.

        Raises:
            ContestantError: if it fails, with the end of what it said.
        """
        try:
            self._process.stdin.write(f"{order}\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass  # It has ended; its report is missing below.
        report = self._process.stdout.readline()
        if not report:
            with open(self._log, errors="replace") as file:
                end = "".join(file.readlines()[-20:])
            raise ContestantError(f"A contestant failed:\n{end}")
        return json.loads(report)

    def finish(self):
        """Let it end; returns its peak memory in bytes, from the system.

        The peak of a process starts from that of the process which forked
        it: that one must stay small, so it imports no TensorFlow.
        """
        self._process.stdin.close()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        self._process.stdout.close()
        unit = 1 if sys.platform == "darwin" else 1024
        return usage.ru_maxrss * unit

    def kill(self):
        """End it at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()


class Turns:
    """The turns, seen from the process that works.

    Standard output carries the reports and nothing else; what libraries
    print there goes to standard error.
    """

    def __init__(self):
        self._reports = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)

    def wait(self):
        """Block until it is this process' turn.

        Returns:
            The order, a string; empty when the process is to end.
        """
        return sys.stdin.readline().rstrip("\n")

    def report(self, **window):
        """Tell what the window took."""
        print(json.dumps(window), file=self._reports, flush=True)
