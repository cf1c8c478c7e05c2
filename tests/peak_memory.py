"""The largest resident set of this process, for scripts that tests start."""

import pathlib
import re


def peak_memory():
    """Bytes, on Linux.

    Of this process alone: what `resource.getrusage` gives begins at what the
    process held that started this one, which for a worker of pytest may be
    more than a test is about.
    """
    status = pathlib.Path("/proc/self/status").read_text("utf-8")
    return 1024 * int(re.search(r"^VmHWM:\s*(\d+) kB$", status, re.M)[1])
