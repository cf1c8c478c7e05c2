"""Finds the variables of an OpenNMT-tf checkpoint by their objects' paths."""

from typing import Any

from relative_attention.atomic_files import AnyPath
from relative_attention.convert.tensorflow_checkpoint import (
    TensorFlowCheckpoint,
)

_OBJECT_GRAPH = "_CHECKPOINTABLE_OBJECT_GRAPH"
_VALUE = "/.ATTRIBUTES/VARIABLE_VALUE"


class OpenNMTTFCheckpoint(TensorFlowCheckpoint):
    """Reads a checkpoint that `tf.train.Checkpoint` wrote.

    A variable is found by its path, such as
    `"model/encoder/layer_norm/gamma"`. One that several objects share is
    stored under the path of the first; the graph of objects that is stored
    beside the variables tells the others. It also tells of objects without
    variables.

    Args:
        path: as in `TensorFlowCheckpoint`.

    Raises:
        InputError: if there is no such checkpoint, or it is damaged.
    """

    def __init__(self, path: AnyPath) -> None:
        from tensorflow.core.protobuf import trackable_object_graph_pb2

        super().__init__(path)
        graph = trackable_object_graph_pb2.TrackableObjectGraph()
        if self.shapes.pop(_OBJECT_GRAPH, None) is not None:
            graph.ParseFromString(self.read_bytes(_OBJECT_GRAPH))
        self._nodes = graph.nodes

    def key(self, path: str) -> str | None:
        """Returns the name a variable is stored under, or `None` without it."""
        node = self._node(path)
        # A variable has one attribute, its value; other objects have none.
        keys = [a.checkpoint_key for a in node.attributes] if node else []
        # Without the graph, the path is all there is.
        key = keys[0] if keys else path + _VALUE
        return key if key in self.shapes else None

    def shape(self, path: str) -> tuple[int, ...] | None:
        """Returns the shape of the variable at `path`, or `None` without it."""
        key = self.key(path)
        return None if key is None else self.shapes[key]

    def has_object(self, path: str) -> bool:
        """Returns whether an object is at `path`, with variables or not."""
        return self._node(path) is not None

    def _node(self, path: str) -> Any:
        """Walks down the graph of objects; `None` where the path ends early.

        The graph is a list of nodes, the first of them the root. A node names
        its children, each with its number in the list.
        """
        if not self._nodes:
            return None
        node = self._nodes[0]
        for name in path.split("/"):
            numbers = [
                child.node_id
                for child in node.children
                if child.local_name == name
            ]
            if not numbers:
                return None
            node = self._nodes[numbers[0]]
        return node
