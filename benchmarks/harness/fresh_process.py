"""Calls of functions in a new process."""

import concurrent.futures
import multiprocessing
from collections.abc import Callable
from typing import Any


def in_fresh_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Calls a function in a process of its own, which then ends.

    What it imports and allocates is no part of this process, whose memory
    counts as that of every engine it starts.

    Args:
        function: A function at the top level of a module.
        *arguments: What it is called with, and can be pickled.

    Returns:
        What the function returns; its errors are raised here.
    """
    with concurrent.futures.ProcessPoolExecutor(
        1, multiprocessing.get_context("spawn")
    ) as pool:
        return pool.submit(function, *arguments).result()
