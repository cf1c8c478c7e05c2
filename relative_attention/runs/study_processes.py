"""Runs the jobs of a study, each in a process of its own, some at a time."""

import contextlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from collections.abc import Iterator
from collections.abc import Sequence

from relative_attention.runs.report import Report
from relative_attention.runs.study_job import StudyJob
from relative_attention.training import StopSignals

_SECONDS_BETWEEN_LOOKS = 0.1
_LAST_BYTES = 10_000
# The child finds modules where this process does, in a checkout and installed.
_CHILD = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from relative_attention.runs.study_child import main; "
    "sys.exit(main(sys.argv[1]))"
)


def run_processes(
    jobs: Sequence[StudyJob],
    num_at_a_time: int,
    is_left: Callable[[StudyJob], bool],
    done: Callable[[StudyJob], object],
    report: Report,
) -> list[StudyJob]:
    """Runs jobs until all have ended, whether well or not.

    SIGINT and SIGTERM are passed on once, so that each run saves a checkpoint;
    this process ends by them after the last.

    Args:
        jobs: A list of `StudyJob`.
        num_at_a_time: An integer.
        is_left: A function that says of a job whose turn it is whether it is
            still to be run: another process may have run it by then.
        done: A function that is called with each job that ended well.
        report: A function that is called with each line for the log.

    Returns:
        A list of the jobs that failed.

    Raises:
        KeyboardInterrupt, SystemExit: on SIGINT or SIGTERM.
    """
    waiting = list(jobs)
    running: dict[StudyJob, subprocess.Popen[bytes]] = {}
    failed = []
    with StopSignals() as signals, _ended_at_last(running):
        while waiting or running:
            if signals.received is not None:
                stop(running)
                signals.leave()
            while waiting and len(running) < num_at_a_time:
                job = waiting.pop(0)
                if not is_left(job):
                    continue
                running[job] = _start(job, num_at_a_time)
                report(
                    f"{job.name}: started; {len(waiting)} wait; its log is "
                    f"{job.log}"
                )
            for job, process in list(running.items()):
                status = process.poll()
                if status is None:
                    continue
                del running[job]
                if status == 0:
                    done(job)
                    continue
                failed.append(job)
                report(f"{job.name}: failed with status {status}: {_last(job)}")
            time.sleep(_SECONDS_BETWEEN_LOOKS)
    return failed


def stop(running: dict[StudyJob, subprocess.Popen[bytes]]) -> None:
    """Ends processes in good order, and waits for their checkpoints."""
    for process in running.values():
        process.terminate()
    for process in running.values():
        process.wait()


@contextlib.contextmanager
def _ended_at_last(
    running: dict[StudyJob, subprocess.Popen[bytes]],
) -> Iterator[None]:
    """Leaves no process behind, whatever happens."""
    try:
        yield
    finally:
        stop({j: p for j, p in running.items() if p.poll() is None})


def _start(job: StudyJob, num_at_a_time: int) -> subprocess.Popen[bytes]:
    job.log.parent.mkdir(parents=True, exist_ok=True)
    with open(job.log, "ab") as log:
        return subprocess.Popen(
            _command(job),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env={**os.environ, **_shares(num_at_a_time)},
            # Ctrl-C goes to all of a terminal's processes, and a run takes a
            # second signal, passed on from here, for "at once".
            start_new_session=True,
        )


def _command(job: StudyJob) -> list[str]:
    # An empty entry is the folder that a process is in.
    path = json.dumps([entry or os.getcwd() for entry in sys.path])
    return [sys.executable, "-c", _CHILD, job.to_json(), path]


def _shares(num_at_a_time: int) -> dict[str, str]:
    """Returns the environment in which processes share the machine."""
    if num_at_a_time == 1:
        return {}
    threads = max((os.cpu_count() or 1) // num_at_a_time, 1)
    shares = {
        "TF_NUM_INTRAOP_THREADS": str(threads),
        # Else the first takes all memory of a GPU.
        "TF_FORCE_GPU_ALLOW_GROWTH": "true",
    }
    return {k: v for k, v in shares.items() if k not in os.environ}


def _last(job: StudyJob) -> str:
    """Returns the last line of a log that says anything."""
    with open(job.log, "rb") as file:
        file.seek(0, os.SEEK_END)
        file.seek(max(file.tell() - _LAST_BYTES, 0))
        text = file.read().decode("utf-8", errors="replace")
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1].removeprefix("relative-attention: ") if lines else ""
