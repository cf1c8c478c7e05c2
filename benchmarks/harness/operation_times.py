"""Times of the operations of TensorFlow graphs, from its profiler."""

import collections
import pathlib
import tempfile
from collections.abc import Callable
from collections.abc import Iterator
from typing import Any


def operation_times(
    function: Callable[[], Any],
) -> tuple[collections.Counter[str], collections.Counter[str], Any]:
    """Measures the kinds of operations that a function calls.

    Operations run side by side where they can, so their times add up to more
    than the time that passes.

    Args:
        function: A function without arguments, called once, whose graphs
            should have been made before.

    Returns:
        A triple of nanoseconds and number of calls, counters by kind of
        operation, and what the function returned.
    """
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            result = function()
        times: collections.Counter[str] = collections.Counter()
        counts: collections.Counter[str] = collections.Counter()
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            space = xplane_pb2.XSpace.FromString(path.read_bytes())
            for kind, nanoseconds in _events(space):
                times[kind] += nanoseconds
                counts[kind] += 1
    return times, counts, result


def _events(space: Any) -> Iterator[tuple[str, int]]:
    """Yields kind and nanoseconds of each operation that was profiled.

    Args:
        space: A message `XSpace` of the profiler.
    """
    for plane in space.planes:
        names = {key: event.name for key, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                # An operation of a graph is called `node:Kind#...#`.
                node, colon, kind = names[event.metadata_id].partition(":")
                kind = kind.partition("#")[0]
                if node and colon and kind.isidentifier():
                    yield kind, event.duration_ps // 1000
