"""The server, in a process of its own."""

import contextlib
import pathlib
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import NamedTuple

from benchmarks.harness.engine import ROOT
from benchmarks.harness.engine import EngineError

_MAIN = "import sys; from relative_attention.cli import main; sys.exit(main())"
# The name of the model there.
MODEL = "model"


class ServerProcess(NamedTuple):
    """A server that listens.

    Attributes:
        process_id: An integer.
        port: An integer.
    """

    process_id: int
    port: int

    def memory(self) -> int:
        """Returns the bytes that belong to it alone."""
        path = pathlib.Path(f"/proc/{self.process_id}/status")
        found = re.search(r"RssAnon:\s+(\d+)", path.read_text())
        if found is None:
            raise EngineError(f"{path} does not say RssAnon.")
        return int(found[1]) * 1024


@contextlib.contextmanager
def running_server(model: str, log: pathlib.Path) -> Iterator[ServerProcess]:
    """Starts a server as its users do; it does not outlive the context.

    Args:
        model: A string, the folder of a model or a name of the zoo.
        log: The path of a file that takes its error output.

    Raises:
        EngineError: If it does not start.
    """
    words = ["serve", f"{MODEL}={model}", "--port", "0"]
    with open(log, "w") as file:
        process = subprocess.Popen(
            [sys.executable, "-c", _MAIN, *words],
            stdout=subprocess.PIPE,
            stderr=file,
            text=True,
            cwd=ROOT,
        )
    try:
        found = None
        # Before it there is a line for each model that is loaded.
        for line in process.stdout or ():
            if found := re.search(r":(\d+)/", line):
                break
        if found is None:
            process.wait()
            raise EngineError(f"No server: {log.read_text()}")
        yield ServerProcess(process.pid, int(found[1]))
    finally:
        process.terminate()
        try:
            process.wait(timeout=60)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if process.stdout:
            process.stdout.close()
