"""Engines: processes that do the same work, each in its own way.

Timings of a shared machine drift by more than the differences to be shown.
Engines therefore all live at once, each in its own process, and take
short turns: what is compared was measured seconds apart. An engine that waits
for its turn at most fetches a few batches ahead, as every one of them does.
"""

import contextlib
import json
import os
import pathlib
import subprocess
import sys
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

# The root of the checkout, from which `benchmarks` is imported.
ROOT = pathlib.Path(__file__).parents[2]

_LINES_OF_LOG = 20


class EngineError(RuntimeError):
    """The process of an engine ended before it was told to."""


class Engine:
    """A process that works in turns, seen from the one that gives the turns.

    Args:
        command: A list of strings, see `engine_command`.
        log: The path of a file that takes all that the process says.
        environment: A mapping of environment variables that the process gets
            on top of those of this one.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: pathlib.Path,
        environment: Mapping[str, str],
    ) -> None:
        self._log = log
        with open(log, "w") as file:
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                text=True,
                cwd=ROOT,
                env={**os.environ, **environment},
            )

    def take_turn(self, order: str = "go") -> dict[str, Any]:
        """Lets the engine work for one turn.

        Args:
            order: A string of one line, for the process to read.

        Returns:
            The dict that the process reports.

        Raises:
            EngineError: If it fails, with the end of its output.
        """
        stdin, stdout = self._process.stdin, self._process.stdout
        if stdin is None or stdout is None:
            raise EngineError("The process of an engine has no pipes.")
        try:
            stdin.write(f"{order}\n")
            stdin.flush()
        except BrokenPipeError:
            pass  # It has ended; its report is missing below.
        report = stdout.readline()
        if not report:
            with open(self._log, errors="replace") as file:
                end = "".join(file.readlines()[-_LINES_OF_LOG:])
            raise EngineError(f"An engine failed:\n{end}")
        return json.loads(report)

    def finish(self) -> int:
        """Lets the engine end.

        The peak memory of a process starts from that of the process which
        forked it: that one must stay small, so it imports no TensorFlow.

        Returns:
            Its peak memory in bytes, as the system counts it.
        """
        if self._process.stdin is not None:
            self._process.stdin.close()
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        # macOS counts bytes, Linux kibibytes.
        return usage.ru_maxrss * (1 if sys.platform == "darwin" else 1024)

    def kill(self) -> None:
        """Ends the engine at once, if it still runs."""
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            # What a broken pipe still held back cannot be written any more.
            with contextlib.suppress(BrokenPipeError):
                if pipe is not None:
                    pipe.close()


def engine_command(
    module: str, arguments: Mapping[str, Any], python: str | None = None
) -> list[str]:
    """Returns the command line of an engine.

    Args:
        module: A string, the dotted name of a module whose `main` takes the
            arguments and uses `Turns`.
        arguments: A mapping that JSON can hold, with absolute paths.
        python: The path of another environment's Python. Defaults to `None`,
            which is this one.
    """
    # `-E`: PYTHONPATH may name packages for another Python.
    start = [sys.executable] if python is None else [python, "-E"]
    return [*start, "-m", module, json.dumps(arguments)]


@contextlib.contextmanager
def running_engines(
    commands: Mapping[str, Sequence[str]],
    folder: pathlib.Path,
    environment: Mapping[str, str],
) -> Iterator[dict[str, Engine]]:
    """Starts an engine for each command; none outlives the context.

    Args:
        commands: A mapping of command lines by the names of engines.
        folder: The path of a folder for what the engines say.
        environment: See `Engine`.
    """
    engines: dict[str, Engine] = {}
    with contextlib.ExitStack() as stack:
        for index, (name, command) in enumerate(commands.items()):
            log = folder / f"engine_{index}.log"
            engines[name] = Engine(command, log, environment)
            stack.callback(engines[name].kill)
        yield engines
