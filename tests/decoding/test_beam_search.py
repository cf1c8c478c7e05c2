"""Beam search: the definition, followed without a cache or a batch."""

import functools
import itertools
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra
from relative_attention.decoding.while_loop import while_loop

VOCABULARY_SIZE = 13
ENCODINGS = {
    "relative": {"position_encoding": "relative"},
    "relative_per_head_post_norm": {
        "position_encoding": "relative",
        "share_relations_across_heads": False,
        "normalize_first": False,
    },
    "sinusoidal": {"position_encoding": "sinusoidal"},
    # Fewer positions than tokens: the last ones share an embedding.
    "learned": {"position_encoding": "learned", "max_length": 5},
    "both": {"position_encoding": "relative+sinusoidal"},
}
# Random weights of which hypotheses end early, late and not at all.
SEEDS = {
    "relative": 51,
    "relative_per_head_post_norm": 13,
    "sinusoidal": 2,
    "learned": 51,
    "both": 51,
}
SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]


@functools.cache
def small_model(encoding="relative", vocabulary_size=VOCABULARY_SIZE):
    """A model with peaked distributions; the same whenever it is asked for."""
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=vocabulary_size,
        **{
            "num_encoder_layers": 1,
            "num_decoder_layers": 1,
            "hidden_dim": 16,
            "intermediate_dim": 24,
            "num_heads": 2,
            "max_relative_position": 2,
            **ENCODINGS[encoding],
        },
    )
    randomize(model, SEEDS[encoding])
    return model


def randomize(model, seed):
    """Weights so large that what a token sees decides what comes next."""
    rng = np.random.default_rng(seed)
    for variable in model.trainable_variables:
        if len(variable.shape) > 1:
            fan_in = math.prod(variable.shape[:-1])
            scale = 0.5 if "embeddings" in variable.path else 2 * fan_in**-0.5
            variable.assign(rng.normal(0, scale, variable.shape))


def padded(rows, extra=0):
    width = max(map(len, rows)) + extra
    return np.array([[*row, *[0] * (width - len(row))] for row in rows])


def penalty(length, length_penalty):
    """The divisor of Wu et al. (2016), eq. 14, as it is printed."""
    return (5 + length) ** length_penalty / (5 + 1) ** length_penalty


def next_log_probs(model, sentence, prefixes):
    """Of what follows each prefix `(M, V)`: the whole model, anew."""
    source = np.array([sentence] * len(prefixes))
    inputs = np.array([[0, *prefix] for prefix in prefixes])
    logits = forward(model)(
        tf.constant(source, tf.int32), tf.constant(inputs, tf.int32)
    )
    return log_softmax(logits.numpy()[:, -1].astype(np.float64))


@functools.cache
def forward(model):
    ids = tf.TensorSpec((None, None), tf.int32)
    return tf.function(
        lambda source, target: model(
            {"source_token_ids": source, "target_token_ids": target}
        ),
        input_signature=[ids, ids],
    )


def log_softmax(logits):
    logits = logits - logits.max(-1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(-1, keepdims=True))


def reference_search(
    next_log_probs, sentence, num_beams, length_penalty, max_extra_length
):
    """Finished and live hypotheses `(score, ids)` of one sentence, best first.

    It follows the definition and never ends early.
    """
    live, finished = [(0.0, [])], []
    for length in range(1, len(sentence) + max_extra_length + 1):
        log_probs = next_log_probs([ids for _, ids in live])
        candidates = sorted(
            (
                (total + log_probs[beam, token_id], [*ids, token_id])
                for beam, (total, ids) in enumerate(live)
                for token_id in range(log_probs.shape[1])
            ),
            key=lambda candidate: -candidate[0],
        )
        # One beam is greedy search: what ends, ends.
        candidates = candidates[: 1 if num_beams == 1 else 2 * num_beams]
        finished += [
            (total / penalty(length, length_penalty), ids)
            for total, ids in candidates
            if ids[-1] == 1
        ]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[0])
        finished = finished[:num_beams]
        live = [c for c in candidates if c[1][-1] != 1][:num_beams]
        if not live:
            break
    return finished, live


def search(model, rows, **arguments):
    """Ids `(B, num_results, T)` and scores as numpy arrays."""
    results = ra.beam_search(model, rows, **arguments)
    assert set(results) == {"token_ids", "scores"}
    return np.asarray(results["token_ids"]), np.asarray(results["scores"])


def assert_results_are(token_ids, scores, hypotheses):
    """One sentence's results are these `(score, ids)`."""
    assert len(token_ids) == len(hypotheses)
    for row, score, (wanted_score, wanted_ids) in zip(
        token_ids, scores, hypotheses
    ):
        padding = [0] * (len(row) - len(wanted_ids))
        assert row.tolist() == [*wanted_ids, *padding]
        assert abs(score - wanted_score) < 1e-4


# === The definition ===


@pytest.mark.large
@pytest.mark.parametrize("encoding", list(ENCODINGS))
def test_cached_batched_search_is_the_definition(encoding):
    model = small_model(encoding)
    num_compared = 0
    for num_beams, length_penalty, max_extra_length in (
        (3, 0.6, 4),
        (3, 0.0, 4),
        (3, 2.0, 9),
        (5, 1.0, 2),
    ):
        num_results = (num_beams + 1) // 2
        token_ids, scores = search(
            model,
            padded(SENTENCES),
            num_beams=num_beams,
            length_penalty=length_penalty,
            max_extra_length=max_extra_length,
            num_results=num_results,
        )
        for number, sentence in enumerate(SENTENCES):
            finished, live = reference_search(
                functools.partial(next_log_probs, model, sentence),
                sentence,
                num_beams,
                length_penalty,
                max_extra_length,
            )
            wanted = (finished or live)[:num_results]
            assert_results_are(
                token_ids[number][: len(wanted)],
                scores[number][: len(wanted)],
                wanted,
            )
            num_compared += len(wanted)
    assert num_compared > 15


@pytest.mark.parametrize("encoding", ["relative", "learned"])
def test_one_beam_is_the_greedy_loop(encoding):
    model = small_model(encoding)
    token_ids, scores = search(
        model, padded(SENTENCES), num_beams=1, max_extra_length=6
    )
    for sentence, (row,), (score,) in zip(SENTENCES, token_ids, scores):
        prefix, total = [], 0.0
        while len(prefix) < len(sentence) + 6 and prefix[-1:] != [1]:
            log_probs = next_log_probs(model, sentence, [prefix])[0]
            prefix.append(int(log_probs.argmax()))
            total += log_probs.max()
        if prefix[-1] == 1:
            total /= penalty(len(prefix), 0.6)
        assert_results_are([row], [score], [(total, prefix)])


def all_hypotheses(model, sentence, max_length, length_penalty):
    """Every sequence that ends, `(score, ids)`, best first."""
    others = [i for i in range(model.config.vocabulary_size) if i != 1]
    hypotheses = []
    for length in range(1, max_length + 1):
        sequences = [
            [*ids, 1] for ids in itertools.product(others, repeat=length - 1)
        ]
        inputs = np.array([[0, *ids[:-1]] for ids in sequences])
        logits = forward(model)(
            tf.constant([sentence] * len(inputs), tf.int32),
            tf.constant(inputs, tf.int32),
        )
        log_probs = log_softmax(logits.numpy().astype(np.float64))
        for ids, rows in zip(sequences, log_probs):
            total = rows[np.arange(length), ids].sum()
            hypotheses.append((total / penalty(length, length_penalty), ids))
    return sorted(hypotheses, key=lambda hypothesis: -hypothesis[0])


@pytest.mark.large
@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.5])
def test_wide_beam_is_brute_force(length_penalty):
    # 4 tokens that go on, 4 steps: no more than 64 live hypotheses.
    model = small_model(vocabulary_size=5)
    sentence = [3, 1]
    best_lengths = set()
    for seed in range(4):
        randomize(model, seed)
        (token_ids,), (scores,) = search(
            model,
            np.array([sentence]),
            num_beams=64,
            num_results=3,
            length_penalty=length_penalty,
            max_extra_length=2,
        )
        everything = all_hypotheses(model, sentence, 4, length_penalty)
        assert len(everything) == 1 + 4 + 16 + 64
        assert_results_are(token_ids, scores, everything[:3])
        best_lengths.update(len(ids) for _, ids in everything[:3])
    assert len(best_lengths) > 1


@pytest.mark.parametrize("length_penalty", [0.0, 0.6, 1.0])
def test_score_is_log_probability_over_penalty(length_penalty):
    model = small_model()
    token_ids, scores = search(
        model,
        padded(SENTENCES),
        num_beams=4,
        num_results=4,
        length_penalty=length_penalty,
        max_extra_length=10,
    )
    num_ended = 0
    for sentence, rows, row_scores in zip(SENTENCES, token_ids, scores):
        for row, score in zip(rows.tolist(), row_scores):
            if 1 not in row:
                continue
            ids = row[: row.index(1) + 1]
            inputs = np.array([[0, *ids[:-1]]])
            logits = forward(model)(
                tf.constant([sentence], tf.int32),
                tf.constant(inputs, tf.int32),
            )
            log_probs = log_softmax(logits.numpy().astype(np.float64))[0]
            total = log_probs[np.arange(len(ids)), ids].sum()
            assert abs(score - total / penalty(len(ids), length_penalty)) < (
                1e-4
            )
            num_ended += 1
    assert num_ended > 4


# === A sentence alone ===


def assert_same_results(results, others):
    """Same ids, but for how far they are padded, and same scores."""
    width = max(results[0].shape[2], others[0].shape[2])
    for ids, other in zip(results[0], others[0]):
        np.testing.assert_array_equal(
            np.pad(ids, ((0, 0), (0, width - ids.shape[1]))),
            np.pad(other, ((0, 0), (0, width - other.shape[1]))),
        )
    np.testing.assert_allclose(results[1], others[1], atol=1e-5)


ARGUMENTS = {"num_beams": 4, "num_results": 4, "max_extra_length": 1}


@pytest.mark.parametrize("number", range(3))
def test_sentence_gets_the_same_when_alone(number):
    together = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    alone = search(small_model(), padded([SENTENCES[number]]), **ARGUMENTS)
    assert_same_results(
        [array[number : number + 1] for array in together], alone
    )


def test_sentence_gets_the_same_when_padded_more():
    model = small_model()
    assert_same_results(
        search(model, padded(SENTENCES), **ARGUMENTS),
        search(model, padded(SENTENCES, extra=6), **ARGUMENTS),
    )


def test_sentence_gets_the_same_when_the_order_is_another():
    order = [2, 0, 1]
    results = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    others = search(
        small_model(), padded([SENTENCES[i] for i in order]), **ARGUMENTS
    )
    assert_same_results([array[order] for array in results], others)


def test_sentence_gets_the_same_when_neighbours_are_others():
    neighbours = [[9] * 11 + [1], SENTENCES[1], [], [1]]
    results = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    others = search(small_model(), padded(neighbours), **ARGUMENTS)
    assert_same_results(
        [array[1:2] for array in results], [array[1:2] for array in others]
    )
    assert np.isfinite(others[1]).all()


# === Shapes ===


@pytest.mark.parametrize("num_results", [1, 2, 4])
def test_results_are_sorted_and_shaped(num_results):
    token_ids, scores = search(
        small_model(),
        padded(SENTENCES),
        num_beams=4,
        num_results=num_results,
        max_extra_length=5,
    )
    assert token_ids.dtype == np.int32
    assert scores.dtype == np.float32
    assert scores.shape == (3, num_results)
    assert token_ids.shape[:2] == (3, num_results)
    assert token_ids.shape[2] <= max(map(len, SENTENCES)) + 5
    assert (np.diff(scores, axis=1) <= 0).all()
    for rows in token_ids.tolist():
        assert len(set(map(tuple, rows))) == num_results


def test_fewer_results_are_the_first_of_more():
    more = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    fewer = search(
        small_model(), padded(SENTENCES), **{**ARGUMENTS, "num_results": 1}
    )
    assert_same_results([array[:, :1] for array in more], fewer)


def test_nothing_follows_the_end():
    token_ids, _ = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    for row in token_ids.reshape(-1, token_ids.shape[2]).tolist():
        if 1 in row:
            assert not any(row[row.index(1) + 1 :])


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(np.ndarray.tolist, id="lists"),
        pytest.param(lambda rows: rows.astype(np.int64), id="int64"),
        pytest.param(lambda rows: rows.astype(np.uint16), id="uint16"),
        pytest.param(lambda rows: tf.constant(rows, tf.int64), id="tensor"),
    ],
)
def test_source_may_be_of_any_int_type(convert):
    rows = padded(SENTENCES)
    assert_same_results(
        search(small_model(), convert(rows), **ARGUMENTS),
        search(small_model(), rows.astype(np.int32), **ARGUMENTS),
    )


# === The search as a program ===


def test_weights_that_changed_are_used():
    model = small_model()
    before = search(model, padded(SENTENCES), num_beams=1)
    randomize(model, seed=8)
    changed = search(model, padded(SENTENCES), num_beams=1)
    randomize(model, SEEDS["relative"])
    again = search(model, padded(SENTENCES), num_beams=1)
    assert before[1].tolist() != changed[1].tolist()
    assert_same_results(before, again)


def test_model_can_be_saved_after_a_search(tmp_path):
    model = small_model()
    results = search(model, padded(SENTENCES), num_beams=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert_same_results(results, search(loaded, padded(SENTENCES), num_beams=1))


def test_search_is_the_same_when_run_eagerly():
    graph = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    tf.config.run_functions_eagerly(True)
    try:
        eager = search(small_model(), padded(SENTENCES), **ARGUMENTS)
    finally:
        tf.config.run_functions_eagerly(False)
    assert_same_results(graph, eager)


def test_scores_are_float32_when_the_model_is_half_precision():
    model = ra.Transformer(small_model().config, dtype="mixed_bfloat16")
    model.set_weights(small_model().get_weights())
    token_ids, scores = search(model, padded(SENTENCES), num_beams=2)
    assert scores.dtype == np.float32
    assert np.isfinite(scores).all()
    assert token_ids.dtype == np.int32


@pytest.mark.parametrize("in_graph", [True, False], ids=["graph", "eager"])
def test_while_loop_carries_tensors_that_grow(in_graph):
    def run(limit):
        return while_loop(
            lambda state: state["step"] < limit,
            lambda state: {
                "step": state["step"] + 1,
                "nested": [
                    {
                        "grown": tf.concat(
                            [
                                state["nested"][0]["grown"],
                                tf.fill((2, 3, 1), state["step"]),
                            ],
                            axis=2,
                        )
                    }
                ],
            },
            {
                "step": tf.constant(0),
                "nested": [{"grown": tf.zeros((2, 3, 0), tf.int32)}],
            },
        )

    state = (tf.function(run) if in_graph else run)(tf.constant(5))
    grown = state["nested"][0]["grown"].numpy()
    assert grown.shape == (2, 3, 5)
    assert (grown == np.arange(5)).all()


# === Known probabilities ===


class Chain:
    """A model whose next token depends on the last one alone.

    Args:
        rows: dict of id to dict of next id to probability; id 0 is the start.
        vocabulary_size: int.
    """

    def __init__(self, rows, vocabulary_size=17):
        # What is not given is next to impossible, and to end even more so.
        table = np.full((vocabulary_size, vocabulary_size), 1e-12)
        table[:, 1] = 1e-30
        for last, following in rows.items():
            for token_id, probability in following.items():
                table[last, token_id] = probability
        # Logits need not be normalised.
        self.logits = tf.constant(np.log(table) + 3.0, tf.float32)
        self.num_steps = tf.Variable(0)

    def start_cache(self, source_token_ids):
        return {"blocks": []}

    def merge_cache(self, cache):
        return cache

    def decode_step(self, token_ids, cache, position, ancestors=None):
        self.num_steps.assign_add(1)
        return tf.gather(self.logits, token_ids), cache


# One long way of probability 0.45 and a short one of 0.55.
TWO_WAYS = {
    0: {2: 0.55, 3: 0.45},
    2: {1: 1.0},
    3: {4: 1.0},
    4: {5: 1.0},
    5: {6: 1.0},
    6: {1: 1.0},
}
SOURCE = np.array([[7, 8, 9, 1]])


@pytest.mark.parametrize(
    "length_penalty, ids, probability",
    [(0.0, [2, 1], 0.55), (1.0, [3, 4, 5, 6, 1], 0.45)],
    ids=["probability_alone", "longer_is_better"],
)
def test_length_penalty_decides(length_penalty, ids, probability):
    (token_ids,), (scores,) = search(
        Chain(TWO_WAYS), SOURCE, num_beams=2, length_penalty=length_penalty
    )
    wanted = math.log(probability) / penalty(len(ids), length_penalty)
    assert_results_are(token_ids, scores, [(wanted, ids)])


def test_greedy_search_misses_what_two_beams_find():
    chain = Chain(
        {
            0: {2: 0.6, 3: 0.4},
            2: {4: 0.5, 5: 0.5},
            3: {1: 1.0},
            4: {1: 1.0},
            5: {1: 1.0},
        }
    )
    (greedy,), _ = search(chain, SOURCE, num_beams=1)
    assert greedy[0, 0] == 2
    (token_ids,), (scores,) = search(
        chain, SOURCE, num_beams=2, length_penalty=0.0
    )
    assert_results_are(token_ids, scores, [(math.log(0.4), [3, 1])])


def test_search_ends_when_nothing_can_overtake():
    # After the second step the rest of the way is worth 1e-12.
    chain = Chain({0: {2: 0.9, 3: 0.1}, 2: {1: 1.0}, 3: {3: 1e-3, 1: 1e-3}})
    search(chain, SOURCE, num_beams=2, max_extra_length=50)
    assert int(chain.num_steps) < 6


def test_padding_id_within_a_hypothesis_counts():
    # Id 0 is a token like any other to the search.
    chain = Chain({0: {2: 1.0}, 2: {4: 1.0}, 4: {1: 1.0}})
    (token_ids,), (scores,) = search(chain, SOURCE, num_beams=1)
    assert_results_are(token_ids, scores, [(0.0, [2, 4, 1])])


ENDLESS = {0: {2: 0.7, 3: 0.3}, 2: {2: 0.9, 3: 0.1}, 3: {3: 1.0}}


@pytest.mark.parametrize("num_beams", [1, 3])
def test_live_hypotheses_are_given_when_none_ends(num_beams):
    sources = padded([[7, 1], [7, 8, 9, 1], [1]])
    token_ids, scores = search(
        Chain(ENDLESS),
        sources,
        num_beams=num_beams,
        num_results=1,
        max_extra_length=3,
    )
    for (row,), (score,), length in zip(token_ids, scores, (2, 4, 1)):
        limit = length + 3
        # Not divided by any penalty.
        wanted = math.log(0.7) + (limit - 1) * math.log(0.9)
        assert_results_are([row], [score], [(wanted, [2] * limit)])


def test_live_hypotheses_are_the_best_when_several_results():
    (token_ids,), (scores,) = search(
        Chain(ENDLESS), SOURCE, num_beams=3, num_results=3, max_extra_length=0
    )
    wanted = [
        (math.log(0.7 * 0.9**3), [2, 2, 2, 2]),
        (math.log(0.3), [3, 3, 3, 3]),
        (math.log(0.7 * 0.1), [2, 3, 3, 3]),
    ]
    assert_results_are(token_ids, scores, wanted)


@pytest.mark.parametrize("max_extra_length", [0, 1, 4])
def test_limit_is_that_of_each_sentence(max_extra_length):
    # It could end at any step, but would rather not.
    chain = Chain({0: {2: 1.0}, 2: {2: 0.9, 1: 0.1}})
    lengths = (2, 5, 1)
    token_ids, scores = search(
        chain,
        padded([[7] * (length - 1) + [1] for length in lengths]),
        num_beams=2,
        length_penalty=0.0,
        max_extra_length=max_extra_length,
    )
    for (row,), (score,), length in zip(token_ids, scores, lengths):
        limit = length + max_extra_length
        if limit == 1:
            wanted = (0.0, [2])
        else:
            # Every end is worth the same 0.1, less what came before it.
            wanted = (math.log(0.1), [2, 1])
        assert_results_are([row], [score], [wanted])
        assert np.count_nonzero(row) <= limit


@pytest.mark.parametrize("max_length", [0, 2, 5])
def test_max_length_limits_every_sentence(max_length):
    endless = Chain({0: {2: 1.0}, 2: {2: 1.0}})
    token_ids, _ = search(
        endless,
        padded([[7, 7, 7, 1], [1]]),
        num_beams=2,
        max_extra_length=3,
        max_length=max_length,
    )
    lengths = np.count_nonzero(token_ids[:, 0], axis=-1)
    np.testing.assert_array_equal(lengths, np.minimum([7, 4], max_length))


def test_translation_can_be_made_shorter_than_its_source():
    endless = Chain({0: {2: 1.0}, 2: {2: 1.0}})
    token_ids, _ = search(
        endless,
        padded([[7, 7, 7, 1], [1]]),
        num_beams=2,
        max_extra_length=-2,
    )
    assert np.count_nonzero(token_ids[0, 0]) == 2
    assert not token_ids[1].any()


def test_end_at_the_limit_counts():
    chain = Chain({0: {2: 1.0}, 2: {3: 1.0}, 3: {4: 1.0}, 4: {1: 1.0}})
    (token_ids,), (scores,) = search(
        chain, SOURCE, num_beams=2, max_extra_length=0
    )
    assert_results_are(token_ids, scores, [(0.0, [2, 3, 4, 1])])


def test_empty_batch_gives_no_results():
    token_ids, scores = search(
        Chain(TWO_WAYS), np.zeros((0, 5), np.int32), num_beams=2, num_results=2
    )
    assert token_ids.shape[:2] == (0, 2)
    assert scores.shape == (0, 2)


@pytest.mark.parametrize("vocabulary_size", [3, 17])
def test_row_ends_once_or_is_empty_when_results_are_missing(vocabulary_size):
    # Fewer hypotheses can end within the limit than results are asked for.
    chain = Chain(
        {0: {2: 0.4, 1: 0.6}, 1: {1: 1.0}, 2: {1: 1.0}}, vocabulary_size
    )
    (token_ids,), (scores,) = search(
        chain,
        np.array([[2, 1]]),
        num_beams=8,
        num_results=8,
        max_extra_length=0,
    )
    assert_results_are(token_ids[:1], scores[:1], [(math.log(0.6), [1])])
    for row in token_ids.tolist():
        num_ends = row.count(1)
        assert num_ends <= 1
        assert num_ends == 1 or not any(row)
        assert not any(row[row.index(1) + 1 :] if num_ends else row)


# === Errors ===


@pytest.mark.parametrize(
    "arguments, received",
    [
        pytest.param({"num_beams": 0}, "num_beams=0", id="no_beam"),
        pytest.param({"num_beams": -2}, "num_beams=-2", id="negative_beams"),
        pytest.param({"num_results": 0}, "num_results=0", id="no_result"),
        pytest.param(
            {"num_beams": 2, "num_results": 3},
            "num_results=3",
            id="more_results_than_beams",
        ),
        pytest.param({"max_length": -1}, "max_length=-1", id="length"),
        pytest.param({"min_length": -2}, "min_length=-2", id="least_length"),
        pytest.param(
            {"length_penalty": -0.5}, "length_penalty=-0.5", id="penalty"
        ),
    ],
)
def test_error_says_what_is_out_of_range(arguments, received):
    with pytest.raises(ValueError) as raised:
        ra.beam_search(Chain(TWO_WAYS), SOURCE, **arguments)
    message = str(raised.value)
    assert f"Received: {received}." in message
    assert f"`{received.split('=')[0]}`" in message
