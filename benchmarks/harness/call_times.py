"""Times of functions that are called in this process."""

import time
from collections.abc import Callable
from collections.abc import Hashable
from collections.abc import Mapping
from typing import TypeVar

from benchmarks.harness.round_robin import round_robin
from relative_attention.tensor_type import Tensor

Name = TypeVar("Name", bound=Hashable)


def paired_times(
    functions: Mapping[Name, Callable[[], Tensor]],
    rounds: int,
    seconds: float,
    title: str = "",
) -> dict[Name, list[float]]:
    """Times functions in turns, so that they can be compared.

    Args:
        functions: A mapping of functions without arguments, each of which
            returns tensors; they are waited for.
        rounds: An integer, how often each has its turn, after one to make
            graphs.
        seconds: A float, the least length of a turn.
        title: A string that the progress line begins with.

    Returns:
        A dict of lists of floats, the mean milliseconds of a call in each
        round.
    """
    return round_robin(
        list(functions),
        lambda name: mean_call_time(functions[name], seconds),
        rounds,
        title=title,
    )


def mean_call_time(function: Callable[[], Tensor], seconds: float) -> float:
    """Returns the mean milliseconds of a call, over about so many seconds.

    Args:
        function: A function without arguments that returns tensors.
        seconds: A float; there is at least one call.
    """
    start = time.perf_counter()
    count = 0
    while not count or time.perf_counter() - start < seconds:
        _wait_for(function())
        count += 1
    return 1000 * (time.perf_counter() - start) / count


def _wait_for(outputs: Tensor) -> None:
    """Blocks until what a backend computes in the background is there."""
    import keras

    first = keras.tree.flatten(outputs)[0]
    if keras.backend.backend() == "jax":
        first.block_until_ready()
    else:
        first.numpy()
