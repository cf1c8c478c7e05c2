"""Both ways of relative attention, against its equations in float64."""

import importlib

import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops.attention import attention_context
from relative_attention.ops.attention import attention_logits
from relative_attention.ops.masks import merge_masks
from relative_attention.ops.relative_attention import relative_attention
from tests.ops.attention_equations import H_V
from tests.ops.attention_equations import TABLES
from tests.ops.attention_equations import B
from tests.ops.attention_equations import H
from tests.ops.attention_equations import N
from tests.ops.attention_equations import assert_half_precision_is_near
from tests.ops.attention_equations import assert_is_reference
from tests.ops.attention_equations import make_operands
from tests.ops.attention_equations import normal
from tests.ops.attention_equations import reference

on_tensorflow = pytest.mark.only_on("tensorflow", reason="graphs are its own")


@pytest.fixture(params=["as_chosen", "portable"])
def way(request, monkeypatch):
    """The way that this machine takes, and the one of every backend."""
    if request.param == "portable":
        module = importlib.import_module(
            "relative_attention.ops.relative_attention"
        )
        monkeypatch.setattr(module, "prefers_own_kernels", lambda: False)


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
def test_it_is_the_equations(
    way, rng, gradients, length, max_relative_position, is_causal
):
    assert_is_reference(
        relative_attention,
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
    assert_is_reference(relative_attention, gradients, rng, x)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "missing", [[], ["key_table"], ["value_table"], TABLES]
)
def test_relations_may_be_missing_and_masks_any(
    way, rng, gradients, missing, is_causal
):
    x = make_operands(rng, 12, 2)
    given = rng.random((B, 1, 12, 12)) < 0.6
    # A query that may attend to nothing.
    given[0, 0, 5] = False
    padding = np.arange(12) < np.array([[12], [6]])
    mask = given & padding[:, None, None]
    assert_is_reference(
        relative_attention,
        gradients,
        rng,
        {name: x[name] for name in x if name not in missing},
        mask & causal(12) if is_causal else mask,
        is_causal=is_causal,
    )


class KeyDropout:
    """Drops the same keys for every query."""

    rate = 0.5

    def __init__(self, kept):
        self.kept = kept

    def draw_keep_mask(self, shape):
        return ops.broadcast_to(ops.convert_to_tensor(self.kept), shape)


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize(
    "missing", [[], ["key_table"], ["value_table"], TABLES]
)
def test_dropout_leaves_out_scores(way, rng, gradients, missing, is_causal):
    x = make_operands(rng, 9, 1)
    kept = rng.random(9) < 0.5
    assert_is_reference(
        relative_attention,
        gradients,
        rng,
        {name: x[name] for name in x if name not in missing},
        causal(9) if is_causal else None,
        kept=kept,
        is_causal=is_causal,
        dropout=KeyDropout(kept),
    )


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_precision_is_near(way, rng, gradients, dtype):
    assert_half_precision_is_near(relative_attention, gradients, rng, dtype)


@pytest.mark.parametrize("shape", [(0, N, 4, H), (B, N, 0, H)])
def test_nothing_comes_of_nothing(way, rng, shape):
    table = ops.ones((5, H))
    empty = ops.zeros(shape)
    context = relative_attention(empty, empty, empty, table, table)
    assert tuple(context.shape) == shape


@on_tensorflow
@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("compiled", [False, True], ids=["graph", "xla"])
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
    for length in (0, 1, 2, 5, 12, 40):
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
    logits = attention_logits(query, key, ops.take(key_table, edges, axis=0))
    scores = ops.softmax(logits)
    return attention_context(
        scores, value, ops.take(value_table, edges, axis=0)
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


@pytest.mark.parametrize("is_causal", [False, True], ids=["free", "causal"])
@pytest.mark.parametrize("has_padding", [False, True])
@pytest.mark.parametrize("shape", [None, (6, 6), (1, 6, 6), (2, 1, 6), (1, 6)])
def test_masks_are_merged_pair_by_pair(rng, shape, has_padding, is_causal):
    given = None if shape is None else rng.random(shape) < 0.7
    padding = rng.random((2, 6)) < 0.7 if has_padding else None
    mask = merge_masks(6, padding, given, is_causal)
    mask = True if mask is None else np.asarray(mask)
    wanted = np.ones((2, 1, 6, 6), bool)
    for b, i, j in np.ndindex(2, 6, 6):
        wanted[b, 0, i, j] = (
            (given is None or np.broadcast_to(given, (2, 6, 6))[b, i, j])
            and (padding is None or padding[b, j])
            and (not is_causal or j <= i)
        )
    np.testing.assert_array_equal(np.broadcast_to(mask, wanted.shape), wanted)
