"""Calls of functions in a new process."""

import concurrent.futures
import multiprocessing
import os
from collections.abc import Callable
from collections.abc import Mapping
from typing import Any


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
