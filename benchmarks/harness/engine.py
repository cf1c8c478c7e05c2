"""Processes that are measured: engines and their turns, calls, and memory.

Timings of a shared machine drift by more than the differences to be shown.
Engines, processes that do the same work in different ways, therefore all live
at once and take short turns: what is compared was measured seconds apart. An
engine that waits for its turn at most fetches a few batches ahead, as every
one of them does.

Only the standard library is needed here, as this file also runs in the
environment of another system.
"""

import concurrent.futures
import contextlib
import json
import multiprocessing
import os
import pathlib
import subprocess
import sys
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Iterator
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any
from typing import TypeVar

Name = TypeVar("Name", bound=Hashable)
Figures = TypeVar("Figures")

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


# === Turns in rounds ===


def round_robin(
    names: Sequence[Name],
    turn: Callable[[Name], Figures],
    rounds: int,
    warm_up_rounds: int = 1,
    title: str = "",
) -> dict[Name, list[Figures]]:
    """Lets each have its turn in every round, and keeps what is reported.

    A minute of a shared machine is not like the next, so ratios are taken
    between turns of the same round. Every second round goes backwards: a
    steady drift then favors nobody.

    Args:
        names: A sequence of what takes turns.
        turn: A function of a name that does the work of a turn and returns
            what it took.
        rounds: An integer, how many rounds count.
        warm_up_rounds: An integer, how many rounds come before and do not
            count, as the first call of a graph makes it. Defaults to `1`.
        title: A string that the progress line begins with.

    Returns:
        A dict of lists of what the turns returned, by name and in the order
        of the rounds.
    """
    figures: dict[Name, list[Figures]] = {name: [] for name in names}
    order = list(names)
    for number in range(warm_up_rounds + rounds):
        counts = number >= warm_up_rounds
        current = (
            f"round {number - warm_up_rounds + 1} of {rounds}"
            if counts
            else "warm-up"
        )
        for name in order:
            show_progress(f"{title}{current}: {name}")
            found = turn(name)
            if counts:
                figures[name].append(found)
        order.reverse()
    show_progress()
    return figures


def show_progress(text: str = "") -> None:
    """Replaces the progress line on a terminal; nothing goes to a file.

    Args:
        text: A string. Defaults to `""`, which takes the line away.
    """
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\033[K{text}")
        sys.stderr.flush()


# === Calls in a new process, and memory ===


def in_fresh_process(
    function: Callable[..., Any],
    *arguments: Any,
    environment: Mapping[str, str] | None = None,
) -> Any:
    """Calls a function in a separate process, which then ends.

    What it imports and allocates is no part of this process, whose memory
    counts as that of every engine it starts.

    Args:
        function: A function at the top level of a module.
        *arguments: What it is called with, and can be pickled.
        environment: A mapping of environment variables that the process gets
            on top of those of this one. Defaults to `None`.

    Returns:
        What the function returns; its errors are raised here.
    """
    with concurrent.futures.ProcessPoolExecutor(
        1,
        multiprocessing.get_context("spawn"),
        initializer=_set_variables,
        initargs=(environment or {},),
    ) as pool:
        return pool.submit(function, *arguments).result()


def _set_variables(environment: Mapping[str, str]) -> None:
    os.environ.update(environment)


def anonymous_memory(process: int) -> int:
    """Returns the bytes that belong to a process alone.

    The pages of mapped files are not counted: the system takes them back
    when it needs them.

    Args:
        process: int. Its number.

    Raises:
        OSError: if the system does not say, as those other than Linux.
    """
    return _status_bytes(process, "RssAnon")


def largest_resident_set() -> int:
    """Returns the most bytes that this process had in memory so far.

    Raises:
        OSError: as `anonymous_memory`.
    """
    return _status_bytes("self", "VmHWM")


def reset_largest_resident_set() -> None:
    """Makes `largest_resident_set` forget what is no longer in memory.

    Raises:
        OSError: as `anonymous_memory`.
    """
    with open("/proc/self/clear_refs", "w") as file:
        file.write("5")


def _status_bytes(process: int | str, field: str) -> int:
    path = f"/proc/{process}/status"
    with open(path) as file:
        for line in file:
            if line.startswith(f"{field}:"):
                return int(line.split()[1]) * 1024
    raise OSError(f"{path} does not say {field}")
