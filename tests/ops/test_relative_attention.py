"""Every way of relative attention, against its equations in float64.

`reference` has them as the docstring of `relative_attention.py` does. It shares
no code with the package, nor do its gradients come from automatic
differentiation.
"""

import importlib

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.attention import relative_attention_inner
from relative_attention.ops.dropout import Kept
from relative_attention.ops.long_attention import long_relative_attention

# The function has the name of its file.
MODULE = importlib.import_module("relative_attention.ops.relative_attention")
LONG = importlib.import_module("relative_attention.ops.long_attention")
B, N, H, H_V = 2, 3, 4, 5
OPERANDS, TABLES = ("query", "key", "value"), ("key_table", "value_table")


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


def make_operands(rng, length, max_relative_position, apart=False):
    rows = (*([N] if apart else []), 2 * max_relative_position + 1)
    return {
        "query": normal(rng, B, N, length, H) / 2,
        "key": normal(rng, B, N, length, H),
        "value": normal(rng, B, N, length, H_V),
        "key_table": normal(rng, *rows, H),
        "value_table": normal(rng, *rows, H_V),
    }


def one_hot_distances(length, num_rows):
    """`[i, j, c]` is 1 for the clipped distance `c` of key `j`, from 0 on."""
    distances = np.arange(length) - np.arange(length)[:, None]
    k = num_rows // 2
    return np.eye(num_rows)[np.clip(distances, -k, k) + k]


def reference(x, d_context, mask=None, kept=None):
    """Context vectors `O`, and the gradient of each operand from `dO`."""
    x = {name: array.astype("float64") for name, array in x.items()}
    q, k, v = x["query"], x["key"], x["value"]
    length = q.shape[2]
    # Relations by edge, `(1 or N, T, T, H)`: no table adds nothing.
    edges = dict.fromkeys(TABLES, np.zeros(1))
    hot = {}
    for name in TABLES:
        if name in x:
            hot[name] = one_hot_distances(length, x[name].shape[-2])
            edge = hot[name] @ x[name][..., None, :, :]
            edges[name] = edge if edge.ndim == 4 else edge[None]
    keys = k[:, :, None] + edges["key_table"]  # (B, N, T, T, H)
    values = v[:, :, None] + edges["value_table"]
    s = (q[:, :, :, None] * keys).sum(-1)
    p = np.exp(s) if mask is None else np.exp(s) * mask
    total = p.sum(-1, keepdims=True)
    p = p / np.where(total == 0, 1, total)
    keep = 1 if kept is None else kept * 2
    z = keep * p
    context = (z[..., None] * values).sum(3)
    dp = keep * (d_context[:, :, :, None] * values).sum(-1)
    d = (d_context * context).sum(-1, keepdims=True)
    ds = p * (dp - d)
    gradients = {
        "query": (ds[..., None] * keys).sum(3),
        "key": ds.swapaxes(-1, -2) @ q,
        "value": z.swapaxes(-1, -2) @ d_context,
    }
    for name, of_pairs, of_queries in zip(TABLES, (ds, z), (q, d_context)):
        if name in x:
            letters = "nch" if x[name].ndim == 3 else "ch"
            gradients[name] = np.einsum(
                f"bnij,ijc,bnih->{letters}", of_pairs, hot[name], of_queries
            )
    return context, gradients


def assert_is_reference(
    gradients, rng, x, mask=None, kept=None, dtype="float32", **arguments
):
    """Context vectors, and gradients of every operand; tables are float32."""
    bound = 1e-5 if dtype == "float32" else 0.05
    d_context = normal(rng, *x["value"].shape)
    context, d_operands = reference(
        x, d_context, mask, None if kept is None else np.array(kept.mask)
    )

    def attend(*tensors):
        named = dict(zip(x, tensors))
        half = [ops.cast(named[name], dtype) for name in OPERANDS]
        tables = [named.get(name) for name in TABLES]
        result = relative_attention(
            *half, *tables, mask=mask, kept=kept, **arguments
        )
        assert keras.backend.standardize_dtype(result.dtype) == dtype
        return ops.cast(result, "float32")

    np.testing.assert_allclose(
        attend(*map(ops.convert_to_tensor, x.values())),
        context,
        rtol=bound,
        atol=bound,
    )
    weights = ops.convert_to_tensor(d_context)
    results = gradients(lambda *x: ops.sum(attend(*x) * weights), x.values())
    for result, wanted in zip(results, d_operands.values(), strict=True):
        scale = max(1, np.abs(wanted).max())
        np.testing.assert_allclose(result / scale, wanted / scale, atol=bound)


on_tensorflow = pytest.mark.only_on("tensorflow", reason="graphs are its own")


# The way that this machine takes, that of every backend, of long texts.
WAYS = ("as_chosen", "portable", "recomputed")


@pytest.fixture(params=WAYS)
def way(request, monkeypatch):
    monkeypatch.setattr(LONG, "_MOST_QUERIES", 4)
    monkeypatch.setattr(WAY, "recomputes", request.param == "recomputed")
    if request.param == "portable":
        monkeypatch.setattr(MODULE, "has_own_kernels", lambda: False)


class WAY:
    recomputes = False


def relative_attention(*operands, kept=None, **arguments):
    if not WAY.recomputes:
        return MODULE.relative_attention(*operands, kept=kept, **arguments)
    if kept is None:
        return long_relative_attention(*operands, **arguments)
    tables = [table for table in operands[3:5] if table is not None]
    before = max(tables[0].shape[-2] // 2 - 1, 0) if tables else 0

    def draw_kept(shape, number):
        # Those of the tests are the same for every query.
        of_keys = ops.convert_to_numpy(kept.mask)[0, 0, 0]
        of_keys = np.pad(of_keys, (before, 99))
        mask = ops.broadcast_to(of_keys[: shape[-1]], shape)
        return kept._replace(mask=mask)

    return long_relative_attention(*operands, draw_kept=draw_kept, **arguments)


def causal(length):
    positions = np.arange(length)
    return (positions <= positions[:, None])[None, None]


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    ("length", "max_relative_position"),
    [
        (9, 2),  # Three blocks of four keys.
        (11, 1),  # Blocks of two.
        (9, 0),  # One embedding for all.
        (9, 20),  # No distance is clipped.
        (9, 8),  # One pair only is at the clipping distance.
        (70, 1),  # Blocks of more than 2K keys.
        (2, 1),
        (1, 1),
    ],
)
def test_attention_matches_the_equations(
    way, rng, gradients, length, max_relative_position, is_causal
):
    assert_is_reference(
        gradients,
        rng,
        make_operands(rng, length, max_relative_position),
        causal(length) if is_causal else None,
        is_causal=is_causal,
    )


@pytest.mark.parametrize("max_relative_position", [0, 2])
def test_heads_may_have_tables_of_their_own(
    way, rng, gradients, max_relative_position
):
    x = make_operands(rng, 9, max_relative_position, apart=True)
    assert_is_reference(gradients, rng, x)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(way, rng, gradients, dtype):
    mask = np.arange(9)[None, None, None] < 5
    x = make_operands(rng, 9, 2)
    assert_is_reference(gradients, rng, x, mask, dtype=dtype)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "missing", [[], ["key_table"], ["value_table"], TABLES]
)
def test_relations_may_be_missing_with_any_mask(
    way, rng, gradients, missing, is_causal
):
    x = make_operands(rng, 12, 2)
    given = rng.random((B, 1, 12, 12)) < 0.6
    # A query that may attend to nothing.
    given[0, 0, 5] = False
    padding = np.arange(12) < np.array([[12], [6]])
    mask = given & padding[:, None, None]
    assert_is_reference(
        gradients,
        rng,
        {name: x[name] for name in x if name not in missing},
        mask & causal(12) if is_causal else mask,
        is_causal=is_causal,
    )


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "missing", [[], ["key_table"], ["value_table"], TABLES]
)
def test_dropout_leaves_out_scores(way, rng, gradients, missing, is_causal):
    x = make_operands(rng, 9, 1)
    # Drops the same keys for every query.
    mask = rng.random(9) < 0.5
    assert_is_reference(
        gradients,
        rng,
        {name: x[name] for name in x if name not in missing},
        causal(9) if is_causal else None,
        Kept(ops.broadcast_to(ops.convert_to_tensor(mask), (B, N, 9, 9)), 2.0),
        is_causal=is_causal,
    )


# Those in which queries and keys are the same positions, and each of them may
# attend to some.
@pytest.mark.parametrize("case", [*range(6), 7, 9, 10, 15, 16])
def test_outputs_and_gradients_are_tensor2tensors(golden, gradients, case):
    _, data = golden("A3B_dot_product_attention_relative").case(case)
    names = ("q", "k", "v", "keys_embeddings", "values_embeddings")
    operands = [data[name] for name in names]
    mask = data["bias"] > -1 if "bias" in data else None

    def attend(*operands):
        return relative_attention(*operands, mask=mask)

    results = gradients(
        lambda *x: ops.sum(ops.multiply(attend(*x), data["grad_projection"])),
        operands,
    )
    wanted = [data[f"grad_{name}"] for name in names]
    for result, expected in zip(
        (attend(*map(ops.convert_to_tensor, operands)), *results),
        (data["output"], *wanted),
        strict=True,
    ):
        np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("shape", [(0, N, 4, H), (B, N, 0, H)])
def test_empty_inputs_give_empty_outputs(way, rng, shape):
    table = ops.ones((5, H))
    empty = ops.zeros(shape)
    context = relative_attention(empty, empty, empty, table, table)
    assert tuple(context.shape) == shape


@on_tensorflow
@pytest.mark.parametrize(
    "is_causal",
    [pytest.param(False, marks=pytest.mark.large), True],
    ids=["free", "causal"],
)
@pytest.mark.parametrize(
    "way, compiled",
    [
        ("as_chosen", False),
        ("portable", False),
        # `tests/layers/test_long_texts.py` has this one of a layer.
        pytest.param("recomputed", False, marks=pytest.mark.large),
        # XLA takes seconds to compile one of these.
        *(pytest.param(way, True, marks=pytest.mark.large) for way in WAYS),
    ],
    ids=lambda value: {False: "graph", True: "xla"}.get(value, value),
    indirect=["way"],
)
def test_one_graph_serves_every_length(way, rng, compiled, is_causal):
    import tensorflow as tf

    tables = list(make_operands(rng, 1, 3).values())[3:]

    def context_and_gradients(query, key, value, d_context, mask):
        inputs = [query, key, value, *map(tf.constant, tables)]
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            context = relative_attention(
                *inputs, mask=mask, is_causal=is_causal
            )
        return context, *tape.gradient(context, inputs, d_context)

    graph = tf.function(
        context_and_gradients,
        input_signature=[
            *(tf.TensorSpec((None, None, None, size)) for size in (H, H)),
            *(tf.TensorSpec((None, None, None, size)) for size in (H_V, H_V)),
            tf.TensorSpec((None, None, None, None), "bool"),
        ],
        jit_compile=compiled,
    )
    # XLA compiles the graph for each of them.
    for length in (0, 1, 40) if compiled else (0, 1, 2, 5, 12, 40):
        x = make_operands(rng, length, 3)
        x |= dict(zip(TABLES, tables))
        d_context = normal(rng, B, N, length, H_V)
        mask = np.arange(length) < np.array([[length], [length // 2]])
        mask = mask[:, None, None]
        if is_causal:
            mask = mask & causal(length)
        expected, d_operands = reference(x, d_context, mask)
        results = graph(*list(x.values())[:3], d_context, mask)
        for result, wanted in zip(
            results, (expected, *d_operands.values()), strict=True
        ):
            np.testing.assert_allclose(result, wanted, rtol=1e-5, atol=1e-5)


@on_tensorflow
def test_gradients_work_in_a_loop_of_known_lengths(way, rng):
    import tensorflow as tf

    x = make_operands(rng, 7, 2)
    inputs = [tf.constant(array) for array in x.values()]

    def gradient():
        with tf.GradientTape() as tape:
            tape.watch(inputs)
            context = relative_attention(*inputs)
        return tape.gradient(context, inputs[0])

    @tf.function
    def summed():
        total = tf.zeros_like(inputs[0])
        for _ in tf.range(2):
            total += gradient()
        return total

    np.testing.assert_allclose(summed(), 2 * gradient(), rtol=1e-5, atol=1e-5)


def plain(query, key, value, key_table, value_table):
    """Eqs. 3 and 4 with an embedding for each pair."""
    length, rows = query.shape[2], key_table.shape[0]
    positions = np.arange(length)
    distances = np.clip(
        positions - positions[:, None], -rows // 2 + 1, rows // 2
    )
    edges = distances + rows // 2
    logits = relative_attention_inner(
        query, key, ops.take(key_table, edges, axis=0), transpose=True
    )
    scores = ops.softmax(logits)
    return relative_attention_inner(
        scores, value, ops.take(value_table, edges, axis=0), transpose=False
    )


@pytest.mark.only_on("tensorflow", "torch", reason="tapes of its own on JAX")
def test_second_derivatives_are_right(way, rng):
    x = list(make_operands(rng, 9, 2).values())
    directions = [normal(rng, *array.shape) for array in x]
    results = [
        hessian_vector_product(attention, x, directions)
        for attention in (relative_attention, plain)
    ]
    for result, wanted in zip(*results, strict=True):
        scale = np.abs(wanted).max()
        np.testing.assert_allclose(result / scale, wanted / scale, atol=1e-5)


def hessian_vector_product(attention, arrays, directions):
    """Differentiates a gradient's product with a direction."""
    if keras.backend.backend() == "torch":
        import torch

        x = [torch.tensor(array, requires_grad=True) for array in arrays]
        loss = ops.sum(ops.sin(attention(*x)))
        first = torch.autograd.grad(loss, x, create_graph=True)
        product = sum(
            (g * torch.tensor(d)).sum() for g, d in zip(first, directions)
        )
        return [g.numpy() for g in torch.autograd.grad(product, x)]
    import tensorflow as tf

    x = [tf.constant(array) for array in arrays]
    with tf.GradientTape() as outer:
        outer.watch(x)
        with tf.GradientTape() as inner:
            inner.watch(x)
            loss = tf.reduce_sum(tf.sin(attention(*x)))
        # Those of tables come as rows and their indices.
        first = map(tf.convert_to_tensor, inner.gradient(loss, x))
        product = sum(tf.reduce_sum(g * d) for g, d in zip(first, directions))
    second = map(tf.convert_to_tensor, outer.gradient(product, x))
    return [gradient.numpy() for gradient in second]
