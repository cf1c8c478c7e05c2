"""Times of the operations of TensorFlow graphs, from its profiler."""

import collections
import pathlib
import tempfile

import tensorflow as tf
from tensorflow.tsl.profiler.protobuf import xplane_pb2


def operation_times(function):
    """Times of the kinds of operations that a function calls.

    Operations run side by side where they can, so their times add up to more
    than the time that passes.

    Args:
        function: function without arguments, called once, whose graphs should
            have been made before.

    Returns:
        Triple of microseconds and number of calls, `collections.Counter`s by
        kind of operation, and what the function returned.
    """
    with tempfile.TemporaryDirectory() as folder:
        with tf.profiler.experimental.Profile(folder):
            result = function()
        times, counts = collections.Counter(), collections.Counter()
        for path in pathlib.Path(folder).rglob("*.xplane.pb"):
            space = xplane_pb2.XSpace.FromString(path.read_bytes())
            for kind, microseconds in _events(space):
                times[kind] += microseconds
                counts[kind] += 1
    return times, counts, result


def _events(space):
    for plane in space.planes:
        names = {key: event.name for key, event in plane.event_metadata.items()}
        for line in plane.lines:
            for event in line.events:
                # An operation of a graph is called `node:Kind#...#`.
                node, colon, kind = names[event.metadata_id].partition(":")
                kind = kind.partition("#")[0]
                if node and colon and kind.isidentifier():
                    yield kind, event.duration_ps / 1e6
