"""Beam search held to lengths, to prefixes and to what it has to work for."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import relative_attention as ra

# Tests of what is the same as a graph ask for `as_graph`.
pytestmark = pytest.mark.usefixtures("eagerly")

SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]
PREFIXES = [[4, 7, 9], [], [9]]


def padded(rows, extra=0):
    width = max(map(len, rows)) + extra
    return np.array(
        [[*row, *[0] * (width - len(row))] for row in rows], np.int32
    )


def penalty(length, length_penalty=0.6):
    """The divisor of Wu et al. (2016), eq. 14, as it is printed."""
    return (5 + length) ** length_penalty / (5 + 1) ** length_penalty


def search(model, rows, num_beams=3, num_results=3, max_length=10, **arguments):
    # As few other numbers as can be: each is a graph of its own.
    results = ra.beam_search(
        model,
        rows,
        num_beams=num_beams,
        num_results=num_results,
        max_length=max_length,
        **arguments,
    )
    return {name: np.asarray(value) for name, value in results.items()}


def until_end(row):
    """Ids of a result without what pads it."""
    ids = np.trim_zeros(row, "b").tolist()
    return ids[: ids.index(1) + 1] if 1 in ids else ids


def reference_search(next_log_probs, limit, num_beams, min_length=0, prefix=()):
    """Finished, or else live, hypotheses `(score, ids)`, best first.

    What is not allowed is no candidate; the search never ends early.
    """
    limit = max(limit, len(prefix) + 1 if prefix else 0)

    def is_allowed(length, token_id):
        if length <= len(prefix):
            return token_id == prefix[length - 1]
        return token_id != 1 or length >= min(min_length, limit)

    live, finished = [(0.0, [])], []
    for length in range(1, limit + 1):
        log_probs = next_log_probs([ids for _, ids in live])
        candidates = sorted(
            (
                (total + row[token_id], [*ids, token_id])
                for (total, ids), row in zip(live, log_probs)
                for token_id in range(len(row))
                if is_allowed(length, token_id)
            ),
            reverse=True,
        )
        candidates = candidates[: 1 if num_beams == 1 else 2 * num_beams]
        finished += [
            (total / penalty(length), ids)
            for total, ids in candidates
            if ids[-1] == 1
        ]
        finished = sorted(finished, reverse=True)[:num_beams]
        live = [c for c in candidates if c[1][-1] != 1][:num_beams]
        if not live:
            break
    return finished or live


@pytest.fixture
def assert_is_the_definition(peaked_model, as_graph, log_probs):
    def check(num_beams, max_extra_length, min_length, prefixes=None):
        found = search(
            peaked_model,
            padded(SENTENCES),
            num_beams=num_beams,
            num_results=num_beams,
            max_extra_length=max_extra_length,
            min_length=min_length,
            target_prefix=None if prefixes is None else padded(prefixes),
        )
        for number, sentence in enumerate(SENTENCES):
            wanted = reference_search(
                lambda live, sentence=sentence: log_probs(
                    peaked_model, sentence, live
                )[:, -1],
                len(sentence) + max_extra_length,
                num_beams,
                min_length,
                prefixes[number] if prefixes else (),
            )
            rows = found["token_ids"][number][: len(wanted)]
            assert [until_end(row) for row in rows] == [
                ids for _, ids in wanted
            ]
            np.testing.assert_allclose(
                found["scores"][number][: len(wanted)],
                [score for score, _ in wanted],
                atol=1e-4,
            )
        return found

    return check


# === Lengths ===


@pytest.mark.parametrize(
    "num_beams, min_length", [(3, 1), (3, 4), (3, 40), (1, 4)]
)
def test_min_length_is_the_definition_without_early_ends(
    assert_is_the_definition, num_beams, min_length
):
    found = assert_is_the_definition(num_beams, 1, min_length)
    limits = [len(sentence) + 1 for sentence in SENTENCES]
    for rows, limit in zip(found["token_ids"], limits):
        lengths = [len(until_end(row)) for row in rows if row.any()]
        assert min(lengths) >= min(min_length, limit)
        assert max(lengths) <= limit


# What would rather end at once than go on.
HASTY = {0: {1: 0.9, 2: 0.1}, 2: {1: 0.8, 2: 0.2}}


@pytest.mark.parametrize(
    "min_length, max_length, ids",
    [
        pytest.param(0, None, [1], id="none"),
        pytest.param(1, None, [1], id="one"),
        pytest.param(2, None, [2, 1], id="two"),
        pytest.param(4, None, [2, 2, 2, 1], id="four"),
        pytest.param(9, None, [2, 2, 2, 2, 1], id="beyond_source_limit"),
        pytest.param(4, 3, [2, 2, 1], id="beyond_max_length"),
        pytest.param(3, 3, [2, 2, 1], id="at_max_length"),
    ],
)
@pytest.mark.parametrize("num_beams", [1, 3])
def test_early_end_is_forbidden_but_counts_in_the_scores(
    chain, min_length, max_length, ids, num_beams
):
    found = search(
        chain(HASTY),
        [[7, 8, 1]],
        num_beams=num_beams,
        num_results=1,
        length_penalty=0.0,
        max_extra_length=2,
        min_length=min_length,
        max_length=max_length,
    )
    assert until_end(found["token_ids"][0, 0]) == ids
    # All but the first and the last token are a 2 after a 2.
    probability = 0.9
    if len(ids) > 1:
        probability = 0.1 * 0.2 ** (len(ids) - 2) * 0.8
    np.testing.assert_allclose(
        found["scores"][0, 0], np.log(probability), atol=1e-5
    )


def test_lengths_of_another_call_are_used(peaked_model, as_graph):
    # They must not have become a part of the graph.
    for length in (2, 5):
        found = search(
            peaked_model,
            padded(SENTENCES),
            min_length=length,
            max_length=length,
        )
        for row in found["token_ids"][:, 0]:
            assert len(until_end(row)) == length


@pytest.mark.parametrize("max_length", [1, 3, 6, 40])
def test_max_length_is_the_smaller_limit(peaked_model, as_graph, max_length):
    rows = padded(SENTENCES)
    limited = search(peaked_model, rows, max_length=max_length)
    for sentence, row, score in zip(
        SENTENCES, limited["token_ids"], limited["scores"]
    ):
        # As if its source had asked for no more.
        alone = search(
            peaked_model,
            [sentence],
            max_extra_length=min(max_length - len(sentence), 50),
            max_length=None,
        )
        assert until_end(row[0]) == until_end(alone["token_ids"][0, 0])
        np.testing.assert_allclose(score, alone["scores"][0], rtol=1e-5)


# === Prefixes ===


@pytest.mark.parametrize("num_beams, min_length", [(3, 0), (3, 5), (1, 5)])
def test_prefix_is_the_definition_with_forced_tokens(
    assert_is_the_definition, num_beams, min_length
):
    found = assert_is_the_definition(num_beams, 1, min_length, PREFIXES)
    for rows, prefix in zip(found["token_ids"], PREFIXES):
        for row in rows:
            assert not row.any() or row[: len(prefix)].tolist() == prefix


def test_score_is_that_of_the_whole_translation(
    peaked_model, as_graph, log_probability
):
    found = search(
        peaked_model,
        padded(SENTENCES),
        target_prefix=padded(PREFIXES),
    )
    num_ended = 0
    for sentence, rows, scores in zip(
        SENTENCES, found["token_ids"], found["scores"]
    ):
        for row, score in zip(rows, scores):
            ids = until_end(row)
            if ids[-1:] == [1]:
                total = log_probability(peaked_model, sentence, ids)
                assert abs(score - total / penalty(len(ids))) < 1e-4
                num_ended += 1
    assert num_ended > 4


def test_row_without_a_prefix_is_searched_freely(peaked_model, as_graph):
    rows = padded(SENTENCES)
    free = search(peaked_model, rows)
    mixed = search(peaked_model, rows, target_prefix=padded(PREFIXES))
    assert [until_end(row) for row in mixed["token_ids"][1]] == [
        until_end(row) for row in free["token_ids"][1]
    ]
    np.testing.assert_allclose(mixed["scores"][1], free["scores"][1], atol=1e-5)
    assert abs(mixed["scores"][0, 0] - free["scores"][0, 0]) > 1e-3


@pytest.mark.parametrize("width", [0, 1, 5])
def test_prefixes_that_are_all_empty_change_nothing(
    peaked_model, as_graph, width
):
    rows = padded(SENTENCES)
    free = search(peaked_model, rows, max_length=6)
    empty = search(
        peaked_model,
        rows,
        max_length=6,
        target_prefix=np.zeros((3, width), np.int32),
    )
    np.testing.assert_array_equal(empty["token_ids"], free["token_ids"])
    np.testing.assert_allclose(empty["scores"], free["scores"], atol=1e-6)


def test_row_without_a_prefix_keeps_its_limit(chain):
    found = search(
        chain({0: {2: 1.0}, 3: {2: 1.0}}),
        [[7, 1], [7, 1]],
        target_prefix=[[3], [0]],
        max_length=0,
    )
    assert np.count_nonzero(found["token_ids"][0, 0]) == 2
    assert not found["token_ids"][1].any()


def test_best_translation_as_prefix_is_found_again(peaked_model, as_graph):
    rows = padded(SENTENCES)
    free = search(peaked_model, rows, min_length=4)
    ids = [until_end(row[0]) for row in free["token_ids"]]
    assert [row[-1] for row in ids] == [1, 1, 1]
    again = search(
        peaked_model, rows, target_prefix=padded([row[:-1] for row in ids])
    )
    assert [
        until_end(row[0])[: len(old)]
        for row, old in zip(again["token_ids"], ids)
    ] == ids
    np.testing.assert_allclose(
        again["scores"][:, 0], free["scores"][:, 0], atol=1e-4
    )


@pytest.mark.parametrize("num_beams", [1, 3])
def test_prefix_may_be_longer_than_the_limit(chain, num_beams):
    found = search(
        chain({0: {2: 1.0}, 2: {2: 1.0}, 3: {1: 0.5, 3: 0.5}}),
        [[7, 1], [7, 1], [7, 1]],
        num_beams=num_beams,
        num_results=1,
        length_penalty=0.0,
        max_length=2,
        target_prefix=[[5, 4, 6, 3], [0, 0, 0, 0], [3, 3, 3, 0]],
    )
    ids = [until_end(row[0]) for row in found["token_ids"]]
    # One more than its prefix, to end with; without a prefix, as before.
    if num_beams > 1:
        assert ids == [[5, 4, 6, 3, 1], [2, 2], [3, 3, 3, 1]]
        np.testing.assert_allclose(
            found["scores"][2, 0], np.log(1e-12) + 3 * np.log(0.5), rtol=1e-5
        )
    assert [len(row) for row in ids] == [5, 2, 4]


@pytest.mark.parametrize(
    "convert",
    [
        pytest.param(np.ndarray.tolist, id="lists"),
        pytest.param(lambda rows: rows.astype(np.int64), id="int64"),
        pytest.param(lambda rows: np.pad(rows, ((0, 0), (0, 3))), id="padded"),
        pytest.param(tf.constant, id="tensor"),
    ],
)
def test_prefix_may_be_of_any_int_type(peaked_model, as_graph, convert):
    rows, prefixes = padded(SENTENCES), padded(PREFIXES)
    wanted = search(peaked_model, rows, target_prefix=prefixes)
    found = search(peaked_model, rows, target_prefix=convert(prefixes))
    np.testing.assert_array_equal(found["token_ids"], wanted["token_ids"])


@pytest.mark.parametrize(
    "prefix, message",
    [
        pytest.param(
            [[4], [5]], r"shape \(3, P\).*Received shape: \(2, 1\)", id="rows"
        ),
        pytest.param(
            [4, 5, 6], r"shape \(3, P\).*Received shape: \(3,\)", id="vector"
        ),
        pytest.param(
            [[4, 1], [5, 0], [6, 0]], r"no end of sentence \(id 1\)", id="end"
        ),
        pytest.param(
            [[4, 0], [0, 5], [6, 0]], r"no id after padding \(id 0\)", id="gap"
        ),
        pytest.param([[4], [-1], [6]], "Received: -1 to 6", id="negative"),
        pytest.param([[4], [999], [6]], "Received: 4 to 999", id="unknown"),
        pytest.param(
            [[4, 0, 5], [5, 0, 0], [6, 7, 8]], "after padding", id="hole"
        ),
    ],
)
def test_wrong_prefix_is_refused(peaked_model, prefix, message):
    with pytest.raises(
        ValueError, match="(?s)`target_prefix` must.*" + message
    ):
        search(peaked_model, padded(SENTENCES), target_prefix=prefix)


# === Attention ===


@pytest.mark.parametrize("prefixes", [None, PREFIXES], ids=["free", "prefix"])
def test_attention_is_that_of_the_results(peaked_model, as_graph, prefixes):
    rows = padded(SENTENCES)
    found = search(
        peaked_model,
        rows,
        max_length=6,
        return_attention=True,
        target_prefix=None if prefixes is None else padded(prefixes),
    )
    token_ids, attention = found["token_ids"], found["attention"]
    length = token_ids.shape[2]
    # A decoder block of 3 heads.
    assert attention.shape == (3, 3, 1, 3, length, rows.shape[1])
    assert attention.dtype == np.float32
    for number, sentence in enumerate(SENTENCES):
        for rank in range(3):
            ids = until_end(token_ids[number, rank])
            if not ids:
                continue
            scores = peaked_model.attention_scores(
                {
                    "source_token_ids": np.array([sentence]),
                    "target_token_ids": np.array(
                        [[peaked_model.start_token_id, *ids[:-1]]]
                    ),
                }
            )["cross"]
            np.testing.assert_allclose(
                attention[number, rank, :, :, : len(ids), : len(sentence)],
                np.concatenate(scores),
                atol=1e-5,
            )
    for scores, sentence in zip(attention, SENTENCES):
        np.testing.assert_allclose(
            scores[..., : len(sentence)].sum(-1), 1.0, atol=1e-5
        )
        assert not scores[..., len(sentence) :].any()


def test_attention_is_that_of_each_block():
    model = ra.Transformer.from_preset(
        "transformer_tiny_relative",
        vocabulary_size=13,
        num_encoder_layers=1,
        num_decoder_layers=2,
        hidden_dim=18,
        num_heads=3,
    )
    rows = padded(SENTENCES)
    found = search(model, rows, max_length=2, return_attention=True)
    first = found["token_ids"][:, 0]
    scores = model.attention_scores(
        {
            "source_token_ids": rows,
            "target_token_ids": np.pad(first[:, :-1], ((0, 0), (1, 0))),
        }
    )["cross"]
    assert found["attention"].shape == (3, 3, 2, 3, first.shape[1], 7)
    for block in range(2):
        np.testing.assert_allclose(
            found["attention"][:, 0, block], scores[block], atol=1e-5
        )


def test_attention_changes_no_result(peaked_model, as_graph):
    rows = padded(SENTENCES)
    plain = search(peaked_model, rows)
    attended = search(peaked_model, rows, return_attention=True)
    assert set(plain) == {"token_ids", "scores"}
    for name, value in plain.items():
        np.testing.assert_array_equal(attended[name], value)


def test_attention_is_float32_when_the_model_is_half_precision(peaked_model):
    model = ra.Transformer(peaked_model.config, dtype="mixed_bfloat16")
    found = search(
        model, padded(SENTENCES), max_length=3, return_attention=True
    )
    assert found["attention"].dtype == np.float32


@pytest.mark.parametrize(
    "options",
    [
        {},
        {
            "min_length": 3,
            "max_length": 8,
            "target_prefix": np.zeros((0, 2), np.int32),
        },
    ],
    ids=["free", "with_options"],
)
def test_empty_batch_gives_no_results(peaked_model, as_graph, options):
    found = search(
        peaked_model,
        np.zeros((0, 5), np.int32),
        return_attention=True,
        **options,
    )
    assert found["token_ids"].shape == (0, 3, 0)
    assert found["scores"].shape == (0, 3)
    assert found["attention"].shape == (0, 3, 1, 3, 0, 5)


def test_no_length_gives_no_tokens(peaked_model, as_graph):
    found = search(
        peaked_model, padded(SENTENCES), max_length=0, return_attention=True
    )
    assert found["token_ids"].shape == (3, 3, 0)
    assert found["attention"].shape == (3, 3, 1, 3, 0, 7)


# === What a sentence costs, and does not owe to others ===


@pytest.mark.parametrize("num_beams", [1, 3])
def test_model_does_not_see_sentences_that_are_done(chain, num_beams):
    # They go on to their limit, and those in the middle are done first.
    sources = padded(
        [[7] * length + [1] for length in (7, 1, 3, 3, 5, 7, 7, 7, 7)]
    )
    endless = chain({0: {2: 1.0}, 2: {2: 1.0}})
    found = search(
        endless,
        sources,
        num_beams=num_beams,
        num_results=1,
        max_extra_length=0,
    )
    lengths = np.count_nonzero(found["token_ids"][:, 0], axis=-1)
    assert lengths.tolist() == [8, 2, 4, 4, 6, 8, 8, 8, 8]
    sizes = [len(rows) for rows in endless.sources]
    # The first is one in nine, not worth a copy of the others.
    assert sizes == [9, 9, 9, 9, 6, 6, 5, 5]
    assert endless.sources[4] == sources[[0, 4, 5, 6, 7, 8]].tolist()
    assert endless.sources[6] == sources[[0, 5, 6, 7, 8]].tolist()


OPTIONS = {
    "max_extra_length": 4,
    "max_length": 9,
    "min_length": 3,
    "return_attention": True,
}
MANY = [*SENTENCES, [2, 2, 1], [1], [10, 3, 9, 8, 1], [6, 5, 1], [7, 7, 7, 1]]
MANY_PREFIXES = [[4, 7, 9], [], [9], [], [3], [2, 2, 2, 2, 2], [], [12, 8]]


def assert_sentence_has_the_same(found, number, others, other, source_length):
    rows = [until_end(row) for row in found["token_ids"][number]]
    assert rows == [until_end(row) for row in others["token_ids"][other]]
    np.testing.assert_allclose(
        found["scores"][number], others["scores"][other], atol=1e-4
    )
    for rank, ids in enumerate(rows):
        np.testing.assert_allclose(
            *(
                result["attention"][index, rank][
                    :, :, : len(ids), :source_length
                ]
                for result, index in ((found, number), (others, other))
            ),
            atol=1e-5,
        )


@pytest.mark.parametrize("batch_size", [1, 3])
def test_sentence_gets_the_same_in_another_batch(
    peaked_model, as_graph, batch_size
):
    together = search(
        peaked_model,
        padded(MANY),
        target_prefix=padded(MANY_PREFIXES),
        **OPTIONS,
    )
    order = [4, 0, 7, 2, 5, 1, 6, 3]
    for start in range(0, len(order), batch_size):
        chosen = order[start : start + batch_size]
        part = search(
            peaked_model,
            padded([MANY[i] for i in chosen], extra=2),
            target_prefix=padded([MANY_PREFIXES[i] for i in chosen]),
            **OPTIONS,
        )
        for place, number in enumerate(chosen):
            assert_sentence_has_the_same(
                together, number, part, place, len(MANY[number])
            )


def test_search_with_options_is_the_same_as_a_graph(peaked_model, request):
    arguments = {"target_prefix": padded(MANY_PREFIXES), **OPTIONS}
    eager = search(peaked_model, padded(MANY), **arguments)
    request.getfixturevalue("as_graph")
    graph = search(peaked_model, padded(MANY), **arguments)
    for number, sentence in enumerate(MANY):
        assert_sentence_has_the_same(
            graph, number, eager, number, len(sentence)
        )


class WithoutCache:
    """The same model, which reads every hypothesis anew at each step."""

    def __init__(self, model):
        self.model = model
        self.start_token_id = model.start_token_id

    def start_cache(self, source_token_ids):
        # The tokens of all places, a position after the other.
        return {
            "source_token_ids": source_token_ids,
            "token_ids": keras.ops.zeros_like(source_token_ids)[:, None, :0],
        }

    def merge_cache(self, cache):
        return cache

    def decode_step(self, token_ids, cache, position, ancestors=None):
        batch_size, num_places = keras.ops.shape(token_ids)
        seen = keras.ops.concatenate(
            [cache["token_ids"], token_ids[:, None]], axis=2
        )
        inputs = keras.ops.transpose(
            keras.ops.reshape(seen, (batch_size, -1, num_places)), (0, 2, 1)
        )
        if ancestors is not None:
            inputs = keras.ops.take_along_axis(inputs, ancestors, axis=1)
        logits = self.model(
            {
                "source_token_ids": keras.ops.repeat(
                    cache["source_token_ids"], num_places, axis=0
                ),
                "target_token_ids": keras.ops.reshape(
                    inputs, (batch_size * num_places, position + 1)
                ),
            }
        )[:, -1]
        logits = keras.ops.reshape(
            logits,
            (batch_size, num_places, self.model.config.vocabulary_size),
        )
        return logits, {**cache, "token_ids": seen}


@pytest.mark.parametrize("num_beams", [1, 3])
def test_long_search_is_the_same_without_a_cache(
    peaked_model, rng, as_graph, num_beams
):
    # The cache is merged every 32 positions; some sentences are done before,
    # some between, and one long after the second time.
    limits = [70, 6, 37, 32, 71]
    sources = padded([[*rng.integers(2, 13, limit - 1), 1] for limit in limits])
    arguments = {
        "num_beams": num_beams,
        "num_results": num_beams,
        "max_extra_length": 0,
        "max_length": None,
        "min_length": 1000,
    }
    cached = search(peaked_model, sources, **arguments)
    anew = search(WithoutCache(peaked_model), sources, **arguments)
    np.testing.assert_array_equal(cached["token_ids"], anew["token_ids"])
    np.testing.assert_allclose(cached["scores"], anew["scores"], rtol=1e-4)
    lengths = [len(until_end(row[0])) for row in cached["token_ids"]]
    assert lengths == limits
