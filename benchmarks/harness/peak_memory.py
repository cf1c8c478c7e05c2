"""The memory of processes, on Linux."""


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
