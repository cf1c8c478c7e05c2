"""A small model, and how searches run: eagerly, or as one graph.

A Transformer's search takes a second to become a graph and a few milliseconds
to run: `peaked_model` is one for all tests, which ask for the same numbers of
beams and results, so that few graphs are made.
"""

import pytest
import tensorflow as tf

from tests.decoding.known_models import make_model


@pytest.fixture(scope="session")
def peaked_model():
    return make_model()


@pytest.fixture
def as_graph(eagerly):
    """Searches run as one graph, as they do by default."""
    tf.config.run_functions_eagerly(False)
