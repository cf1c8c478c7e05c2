import keras
import numpy as np
import pytest
from keras import ops

from relative_attention.ops import label_context
from relative_attention.ops import label_logits

B, N, T, S, R, H = 2, 3, 5, 7, 4, 11
HEADS = pytest.mark.parametrize("share", [True, False], ids=["shared", "apart"])
GRAPHS = pytest.mark.parametrize("graphs", ["one", "a_sentence_each"])


def normal(rng, *shape):
    return rng.normal(size=shape).astype("float32")


@pytest.fixture
def make(rng):
    """Query, scores, embeddings, labels (-1: no edge), one-hot edges."""

    def make(share, graphs, num_queries=T, num_keys=S):
        leading = (B,) if graphs == "a_sentence_each" else ()
        labels = rng.integers(-1, R, size=(*leading, num_queries, num_keys))
        return (
            normal(rng, B, N, num_queries, H),
            normal(rng, B, N, num_queries, num_keys),
            normal(rng, *(() if share else (N,)), R, H),
            labels,
            (labels[..., None] == np.arange(R)).astype("float32"),
        )

    return make


def each_edge(embeddings, labels):
    """Sentence, head, query, key and embedding of every edge there is."""
    num_queries, num_keys = labels.shape[-2:]
    labels = np.broadcast_to(labels, (B, num_queries, num_keys))
    embeddings = np.broadcast_to(embeddings, (N, R, H)).astype("float64")
    for b, n, i, j in np.ndindex(B, N, num_queries, num_keys):
        if labels[b, i, j] >= 0:
            yield b, n, i, j, embeddings[n, labels[b, i, j]]


def expected_logits(query, embeddings, labels):
    logits = np.zeros((B, N, *labels.shape[-2:]))
    for b, n, i, j, row in each_edge(embeddings, labels):
        logits[b, n, i, j] = query[b, n, i] @ row
    return logits


def expected_context(scores, embeddings, labels):
    context = np.zeros((B, N, labels.shape[-2], H))
    for b, n, i, j, row in each_edge(embeddings, labels):
        context[b, n, i] += scores[b, n, i, j] * row
    return context


def assert_same(result, expected):
    np.testing.assert_allclose(result, expected, rtol=1e-5, atol=1e-5)


@GRAPHS
@HEADS
def test_labels_add_what_their_edges_add(make, share, graphs):
    query, scores, embeddings, labels, edges = make(share, graphs)
    assert (labels == -1).any()
    assert_same(
        label_logits(query, embeddings, edges),
        expected_logits(query, embeddings, labels),
    )
    assert_same(
        label_context(scores, embeddings, edges),
        expected_context(scores, embeddings, labels),
    )


@GRAPHS
@HEADS
def test_gradients_are_sums_over_edges(rng, gradients, make, share, graphs):
    query, scores, embeddings, labels, edges = make(share, graphs)
    logit_weights, context_weights = (
        normal(rng, *scores.shape),
        normal(rng, *query.shape),
    )
    expected_query = np.zeros(query.shape)
    expected_scores = np.zeros(scores.shape)
    by_logits, by_context = np.zeros((2, N, R, H))
    labels = np.broadcast_to(labels, (B, T, S))
    for b, n, i, j, row in each_edge(embeddings, labels):
        expected_query[b, n, i] += logit_weights[b, n, i, j] * row
        by_logits[n, labels[b, i, j]] += (
            logit_weights[b, n, i, j] * query[b, n, i]
        )
        expected_scores[b, n, i, j] = context_weights[b, n, i] @ row
        by_context[n, labels[b, i, j]] += (
            scores[b, n, i, j] * context_weights[b, n, i]
        )
    if share:
        by_logits, by_context = by_logits.sum(0), by_context.sum(0)

    results = gradients(
        lambda x, table: ops.sum(
            ops.multiply(label_logits(x, table, edges), logit_weights)
        ),
        [query, embeddings],
    )
    assert_same(results[0], expected_query)
    assert_same(results[1], by_logits)
    results = gradients(
        lambda x, table: ops.sum(
            ops.multiply(label_context(x, table, edges), context_weights)
        ),
        [scores, embeddings],
    )
    assert_same(results[0], expected_scores)
    assert_same(results[1], by_context)


@GRAPHS
def test_one_graph_takes_any_length(make, graphs):
    each = graphs == "a_sentence_each"
    symbols = [
        keras.Input(batch_shape=(None, N, None, H)),
        keras.Input(batch_shape=(N, R, H)),
        keras.Input(batch_shape=(*([None] if each else []), None, None, R)),
    ]
    outputs = keras.layers.Lambda(
        lambda x: label_context(label_logits(*x), *x[1:]),
        output_shape=(N, None, H),
    )(symbols)
    model = keras.Model(symbols, outputs)
    for length in (3, 1):
        query, _, embeddings, labels, edges = make(
            False, graphs, length, length
        )
        logits = expected_logits(query, embeddings, labels)
        assert_same(
            model.predict_on_batch([query, embeddings, edges]),
            expected_context(logits, embeddings, labels),
        )
