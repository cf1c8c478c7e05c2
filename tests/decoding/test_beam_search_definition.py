"""A Transformer's beam search against the definition, without cache or batch.

All searches of three beams are of two graphs: one that is free, and one that
has a least length and prefixes, which may be empty.
"""

import numpy as np
import pytest

import relative_attention as ra

SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]


PREFIXES = [[4, 7, 9], [], [9]]


NO_PREFIXES = [[], [], []]


ENCODINGS = {
    "relative_per_head_post_norm": {
        "share_relations_across_heads": False,
        "normalize_first": False,
    },
    "sinusoidal": {"position_encoding": "sinusoidal"},
    # Fewer positions than tokens: the last ones share an embedding.
    "learned": {"position_encoding": "learned", "max_length": 5},
    "both": {"position_encoding": "relative+sinusoidal"},
}


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


@pytest.fixture
def reference_search(log_probs, penalty):
    """Finished hypotheses `(score, ids)` or else beams, best first.

    What is not allowed is no candidate; the search never ends early.
    """

    def reference_search(
        model, sentence, limit, num_beams, min_length=0, prefix=(), alpha=0.6
    ):
        limit = max(limit, len(prefix) + 1 if prefix else 0)

        def is_allowed(length, token_id):
            if length <= len(prefix):
                return token_id == prefix[length - 1]
            return token_id != 1 or length >= min(min_length, limit)

        beams, finished = [(0.0, [])], []
        for length in range(1, limit + 1):
            rows = log_probs(model, sentence, [ids for _, ids in beams])[:, -1]
            candidates = sorted(
                (
                    (total + row[token_id], [*ids, token_id])
                    for (total, ids), row in zip(beams, rows)
                    for token_id in range(len(row))
                    if is_allowed(length, token_id)
                ),
                reverse=True,
            )
            # One beam is greedy search: what ends, ends.
            candidates = candidates[: 1 if num_beams == 1 else 2 * num_beams]
            finished += [
                (total / penalty(length, alpha), ids)
                for total, ids in candidates
                if ids[-1] == 1
            ]
            finished = sorted(finished, reverse=True)[:num_beams]
            beams = [c for c in candidates if c[1][-1] != 1][:num_beams]
            if not beams:
                break
        return finished or beams

    return reference_search


@pytest.fixture
def assert_is_the_definition(reference_search, padded):
    def check(
        model,
        num_beams,
        max_extra_length,
        min_length=0,
        prefixes=None,
        alpha=0.6,
    ):
        found = search(
            model,
            padded(SENTENCES),
            num_beams=num_beams,
            num_results=num_beams,
            max_extra_length=max_extra_length,
            max_length=None,
            min_length=min_length,
            target_prefix=None if prefixes is None else padded(prefixes),
            length_penalty=alpha,
        )
        for number, sentence in enumerate(SENTENCES):
            wanted = reference_search(
                model,
                sentence,
                len(sentence) + max_extra_length,
                num_beams,
                min_length,
                prefixes[number] if prefixes else (),
                alpha,
            )
            rows = found["token_ids"][number].tolist()
            # Behind the end, and where less was found, are zeros alone.
            wanted_ids = [ids for _, ids in wanted]
            wanted_ids += [[]] * (num_beams - len(wanted))
            assert rows == [
                [*ids, *[0] * (len(rows[0]) - len(ids))] for ids in wanted_ids
            ]
            np.testing.assert_allclose(
                found["scores"][number][: len(wanted)],
                [score for score, _ in wanted],
                atol=1e-4,
            )
        return found

    return check


# === The definition ===


@pytest.mark.parametrize("max_extra_length, alpha", [(4, 0.6), (9, 2.0)])
def test_cached_batched_search_is_the_definition(
    peaked_model, assert_is_the_definition, until_end, max_extra_length, alpha
):
    found = assert_is_the_definition(
        peaked_model, 3, max_extra_length, alpha=alpha
    )
    lengths = {
        len(until_end(row)) for rows in found["token_ids"] for row in rows
    }
    assert len(lengths) > 2
    assert found["token_ids"].dtype == np.int32
    assert found["scores"].dtype == np.float32


@pytest.mark.large
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_definition_holds_for_every_position_encoding(
    make_model, assert_is_the_definition, encoding
):
    seed = {"relative_per_head_post_norm": 13, "sinusoidal": 2}.get(encoding)
    model = make_model(seed or 51, **ENCODINGS[encoding])
    for max_extra_length, alpha in ((4, 0.6), (9, 2.0)):
        assert_is_the_definition(model, 3, max_extra_length, alpha=alpha)


@pytest.mark.parametrize(("num_beams", "alpha"), [(1, 0.0), (3, 0.6)])
def test_definition_holds_when_caches_are_merged_often(
    peaked_model,
    assert_is_the_definition,
    eagerly,
    monkeypatch,
    num_beams,
    alpha,
):
    # One beam is the greedy loop. Some sentences are done before the cache is
    # merged, some between, and one after the second time.
    monkeypatch.setattr(
        "relative_attention.decoding.model_steps._MERGE_EVERY", 2
    )
    assert_is_the_definition(peaked_model, num_beams, 1, alpha=alpha)


def test_prefix_is_the_definition_with_forced_tokens(
    peaked_model, assert_is_the_definition
):
    found = assert_is_the_definition(peaked_model, 3, 1, 5, PREFIXES)
    for rows, prefix in zip(found["token_ids"], PREFIXES):
        for row in rows:
            assert not row.any() or row[: len(prefix)].tolist() == prefix


def test_lengths_of_another_call_are_used(peaked_model, padded, until_end):
    # They must not have become a part of the graph.
    for length in (2, 5):
        found = search(
            peaked_model,
            padded(SENTENCES),
            min_length=length,
            max_length=length,
            target_prefix=padded(NO_PREFIXES),
        )
        for row in found["token_ids"][:, 0]:
            assert len(until_end(row)) == length


# === A sentence and its batch ===


OPTIONS = {
    "max_extra_length": 4,
    "max_length": 9,
    "min_length": 3,
    "return_attention": True,
}


MANY = [*SENTENCES, [2, 2, 1], [1], [10, 3, 9, 8, 1], [6, 5, 1], [7, 7, 7, 1]]


MANY_PREFIXES = [[4, 7, 9], [], [9], [], [3], [2, 2, 2, 2, 2], [], [12, 8]]


@pytest.fixture(scope="module")
def together(peaked_model, padded):
    """All sentences in one batch, as a graph."""
    return search(
        peaked_model,
        padded(MANY),
        target_prefix=padded(MANY_PREFIXES),
        **OPTIONS,
    )


@pytest.fixture
def assert_sentence_has_the_same(until_end):
    def check(found, number, others, other, source_length):
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

    return check


# Alone, and among others in another order; both padded more.
@pytest.mark.parametrize("chosen", [[0], [4, 0, 7, 2], [5, 1, 6, 3]], ids=str)
def test_sentence_gets_the_same_in_another_batch(
    peaked_model, together, padded, assert_sentence_has_the_same, chosen
):
    part = search(
        peaked_model,
        padded([MANY[i] for i in chosen], extra=2),
        target_prefix=padded([MANY_PREFIXES[i] for i in chosen]),
        **OPTIONS,
    )
    for index, number in enumerate(chosen):
        assert_sentence_has_the_same(
            together, number, part, index, len(MANY[number])
        )


def test_empty_source_changes_no_other(peaked_model, padded, until_end):
    alone = search(peaked_model, [SENTENCES[1]])
    found = search(peaked_model, padded([[9] * 11 + [1], SENTENCES[1], []]))
    assert [until_end(row) for row in found["token_ids"][1]] == [
        until_end(row) for row in alone["token_ids"][0]
    ]
    np.testing.assert_allclose(
        found["scores"][1], alone["scores"][0], atol=1e-5
    )
    assert np.isfinite(found["scores"]).all()


def test_search_is_the_same_when_run_eagerly(
    peaked_model, together, padded, eagerly, assert_sentence_has_the_same
):
    eager = search(
        peaked_model,
        padded(MANY),
        target_prefix=padded(MANY_PREFIXES),
        **OPTIONS,
    )
    for number, sentence in enumerate(MANY):
        assert_sentence_has_the_same(
            together, number, eager, number, len(sentence)
        )


def test_scores_are_float32_when_the_model_is_half_precision(
    peaked_model, padded, eagerly
):
    model = ra.Transformer(peaked_model.config, dtype="mixed_bfloat16")
    model.set_weights(peaked_model.get_weights())
    found = search(
        model, padded(SENTENCES), max_length=3, return_attention=True
    )
    assert found["token_ids"].dtype == np.int32
    assert found["scores"].dtype == found["attention"].dtype == np.float32
    assert np.isfinite(found["scores"]).all()


# === Attention ===


def arrays(results):
    return {name: np.asarray(value) for name, value in results.items()}


@pytest.mark.parametrize("search", ["beam_search", "sample"])
def test_attention_is_that_of_the_results(
    make_model, padded, until_end, eagerly, search
):
    model = make_model(num_decoder_layers=2)
    rows = padded(SENTENCES)
    arguments = {"num_results": 3, "max_length": 3}
    arguments |= {"num_beams": 3} if search == "beam_search" else {"seed": 7}
    plain = arrays(getattr(ra, search)(model, rows, **arguments))
    found = arrays(
        getattr(ra, search)(model, rows, return_attention=True, **arguments)
    )
    attention = found.pop("attention")
    assert found.keys() == plain.keys() == {"token_ids", "scores"}
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value)
    length = plain["token_ids"].shape[2]
    # Two decoder blocks of 3 heads.
    assert attention.shape == (3, 3, 2, 3, length, rows.shape[1])
    assert attention.dtype == np.float32
    for number, sentence in enumerate(SENTENCES):
        for rank in (0, 2):
            ids = until_end(plain["token_ids"][number, rank])
            # Fewer may have ended than were asked for.
            if not ids:
                continue
            scores = model.attention_scores(
                {
                    "source_token_ids": np.array([sentence]),
                    "target_token_ids": np.array(
                        [[model.start_token_id, *ids[:-1]]]
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


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize("num_rows, max_length", [(0, 9), (3, 0)])
@pytest.mark.parametrize("with_options", [False, True])
def test_no_sentence_or_no_length_gives_no_tokens(
    peaked_model, padded, eagerly, search, num_rows, max_length, with_options
):
    options = {}
    if with_options:
        options = {
            "min_length": 3,
            "target_prefix": np.zeros((num_rows, 2), np.int32),
        }
    results = search(
        peaked_model,
        padded(SENTENCES)[:num_rows],
        num_results=3,
        max_length=max_length,
        return_attention=True,
        **options,
    )
    assert tuple(results["token_ids"].shape) == (num_rows, 3, 0)
    assert tuple(results["scores"].shape) == (num_rows, 3)
    assert tuple(results["attention"].shape) == (num_rows, 3, 1, 3, 0, 7)
