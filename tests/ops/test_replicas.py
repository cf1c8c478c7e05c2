import numpy as np
from keras import ops

from relative_attention.ops.replicas import num_replicas
from relative_attention.ops.replicas import replica_number
from relative_attention.ops.replicas import sum_over_replicas


def test_outside_of_replicas_there_is_one():
    assert num_replicas() == 1
    assert replica_number() == 0
    np.testing.assert_array_equal(sum_over_replicas(ops.array([3, 4])), [3, 4])
