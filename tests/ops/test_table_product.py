import numpy as np
import pytest
from keras import ops

from relative_attention.ops.table_product import table_product

B, C, ROWS, J = 4, 65, 8, 17


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.mark.parametrize(
    ("num_heads", "shape"),
    [(1, (1, ROWS, J)), (3, (3, ROWS, J)), (1, (ROWS, J)), (3, (ROWS, J))],
    ids=["own_of_one", "own", "shared_by_one", "shared"],
)
def test_product_and_gradients_are_those_of_numpy(
    rng, gradients, num_heads, shape
):
    x, table = normal(rng, B, num_heads, C, ROWS), normal(rng, *shape)
    weights = normal(rng, B, num_heads, C, J)
    tensor = ops.convert_to_tensor(weights)
    results = [
        table_product(ops.convert_to_tensor(x), ops.convert_to_tensor(table)),
        *gradients(
            lambda x, table: ops.sum(table_product(x, table) * tensor),
            [x, table],
        ),
    ]
    x, table, weights = (a.astype("float64") for a in (x, table, weights))
    letters = "ij" if len(shape) == 2 else "nij"
    of_table = f"bnci,bncj->{letters}"
    if shape[0] == 1:
        of_table = "bnci,bncj->ij"
    expected = [
        x @ table,
        weights @ table.swapaxes(-1, -2),
        np.einsum(of_table, x, weights).reshape(shape),
    ]
    for result, wanted in zip(results, expected, strict=True):
        error = np.abs(np.array(result) - wanted).max()
        assert error <= 1e-5 * np.abs(wanted).max()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("heads", [(), (3,)], ids=["shared", "own"])
def test_gradient_of_a_float32_table_is_summed_in_float32(
    gradients, dtype, heads
):
    # Beyond 2048 float16 has no odd numbers, beyond 256 bfloat16.
    x = np.ones((31, 3, 101, 1), "float32")
    table = np.ones((*heads, 1, 1), "float32")
    (result,) = gradients(
        lambda table: ops.sum(
            ops.cast(table_product(ops.cast(x, dtype), table), "float32")
        ),
        [table],
    )
    np.testing.assert_array_equal(result, 31 * 101 * (1 if heads else 3))


@pytest.mark.parametrize("shape", [(0, 3, 5), (2, 3, 0)])
def test_product_of_nothing_is_empty(shape):
    product = table_product(ops.zeros((*shape, ROWS)), ops.zeros((3, ROWS, J)))
    assert tuple(product.shape) == (*shape, J)
    product = table_product(ops.zeros((*shape, ROWS)), ops.zeros((ROWS, J)))
    assert tuple(product.shape) == (*shape, J)
