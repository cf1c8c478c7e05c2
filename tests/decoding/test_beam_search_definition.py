"""A Transformer's beam search against the definition, without cache or batch.

All searches of three beams are of two graphs: one that is free, and one that
has a least length and prefixes, which may be empty.
"""

import numpy as np
import pytest

import relative_attention as ra
from tests.decoding.known_models import SENTENCES
from tests.decoding.known_models import arrays
from tests.decoding.known_models import beam_search
from tests.decoding.known_models import log_probs
from tests.decoding.known_models import make_model
from tests.decoding.known_models import padded
from tests.decoding.known_models import penalty
from tests.decoding.known_models import until_end

PREFIXES = [[4, 7, 9], [], [9]]


def reference_search(
    model, sentence, limit, num_beams, min_length=0, prefix=(), alpha=0.6
):
    """Finished hypotheses `(score, ids)` or else beams, best first.

    What is not allowed is no candidate; the search never ends early.
    """
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


def assert_is_the_definition(
    model, num_beams, max_extra_length, min_length=0, prefixes=None, alpha=0.6
):
    found = beam_search(
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
        width = len(rows[0])
        assert rows == [[*ids, *[0] * (width - len(ids))] for ids in wanted_ids]
        np.testing.assert_allclose(
            found["scores"][number][: len(wanted)],
            [score for score, _ in wanted],
            atol=1e-4,
        )
    return found


# === The definition ===


@pytest.mark.parametrize("max_extra_length, alpha", [(4, 0.6), (9, 2.0)])
def test_cached_batched_search_is_the_definition(
    peaked_model, max_extra_length, alpha
):
    found = assert_is_the_definition(
        peaked_model, 3, max_extra_length, alpha=alpha
    )
    lengths = {
        len(until_end(row)) for rows in found["token_ids"] for row in rows
    }
    assert len(lengths) > 2


@pytest.mark.parametrize(
    ("num_beams", "alpha"),
    [(3, 0.6), pytest.param(1, 0.0, marks=pytest.mark.large)],
)
def test_definition_holds_when_caches_are_merged_often(
    peaked_model, eagerly, monkeypatch, num_beams, alpha
):
    # One beam is the greedy loop. Some sentences are done before the cache is
    # merged, some between, and one after the second time.
    monkeypatch.setattr(
        "relative_attention.decoding.model_steps._MERGE_EVERY", 2
    )
    assert_is_the_definition(peaked_model, num_beams, 1, alpha=alpha)


def test_prefix_is_the_definition_with_forced_tokens(peaked_model):
    assert_is_the_definition(peaked_model, 3, 1, 5, PREFIXES)


# === A sentence and its batch ===


OPTIONS = {
    "max_extra_length": 4,
    "max_length": 9,
    "min_length": 3,
    "return_attention": True,
}
MANY = [*SENTENCES, [2, 2, 1], [1], [10, 3, 9, 8, 1], [6, 5, 1], [7, 7, 7, 1]]
MANY += [[]]
MANY_PREFIXES = [[4, 7, 9], [], [9], [], [3], [2, 2, 2, 2, 2], [], [12, 8], []]


def search_many(model, chosen, extra=0):
    return beam_search(
        model,
        padded([MANY[i] for i in chosen], extra),
        target_prefix=padded([MANY_PREFIXES[i] for i in chosen]),
        **OPTIONS,
    )


@pytest.fixture(scope="module")
def together(peaked_model):
    """All sentences in one batch, as a graph."""
    found = search_many(peaked_model, range(len(MANY)))
    assert np.isfinite(found["scores"]).all()
    return found


def assert_sentence_has_the_same(found, number, others, other):
    rows = [until_end(row) for row in found["token_ids"][number]]
    assert rows == [until_end(row) for row in others["token_ids"][other]]
    np.testing.assert_allclose(
        found["scores"][number], others["scores"][other], atol=1e-4
    )
    for rank, ids in enumerate(rows):
        seen = np.s_[rank, :, :, : len(ids), : len(MANY[number])]
        np.testing.assert_allclose(
            found["attention"][number][seen],
            others["attention"][other][seen],
            atol=1e-5,
        )


# Alone, and among others in another order; both padded more.
@pytest.mark.parametrize(
    "chosen", [[0], [4, 0, 7, 2], [5, 1, 8, 6, 3]], ids=str
)
def test_sentence_gets_the_same_in_another_batch(
    peaked_model, together, chosen
):
    part = search_many(peaked_model, chosen, extra=2)
    for index, number in enumerate(chosen):
        assert_sentence_has_the_same(together, number, part, index)


def test_search_is_the_same_when_run_eagerly(peaked_model, together, eagerly):
    eager = search_many(peaked_model, range(len(MANY)))
    for number in range(len(MANY)):
        assert_sentence_has_the_same(together, number, eager, number)


def test_scores_are_float32_when_the_model_is_half_precision(
    peaked_model, eagerly
):
    model = ra.Transformer(peaked_model.config, dtype="mixed_bfloat16")
    model.set_weights(peaked_model.get_weights())
    found = beam_search(
        model, padded(SENTENCES), max_length=3, return_attention=True
    )
    assert found["token_ids"].dtype == np.int32
    assert found["scores"].dtype == found["attention"].dtype == np.float32
    assert np.isfinite(found["scores"]).all()


# === Attention ===


@pytest.mark.parametrize(
    "search", ["beam_search", pytest.param("sample", marks=pytest.mark.large)]
)
def test_attention_is_that_of_the_results(eagerly, search):
    model = make_model(num_decoder_layers=2)
    rows = padded(SENTENCES)
    arguments = {"num_results": 3, "max_length": 3}
    arguments |= {"num_beams": 3} if search == "beam_search" else {"seed": 7}
    plain = arrays(getattr(ra, search)(model, rows, **arguments))
    found = arrays(
        getattr(ra, search)(model, rows, return_attention=True, **arguments)
    )
    attention = found.pop("attention")
    assert found.keys() == plain.keys()
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value)
    length = plain["token_ids"].shape[2]
    # Two decoder blocks of 3 heads.
    assert attention.shape == (3, 3, 2, 3, length, rows.shape[1])
    for number, sentence in enumerate(SENTENCES):
        for rank in (0, 2):
            ids = until_end(plain["token_ids"][number, rank])
            # Fewer may have ended than were asked for.
            if not ids:
                continue
            target = [[model.start_token_id, *ids[:-1]]]
            scores = model.attention_scores(
                {
                    "source_token_ids": np.array([sentence]),
                    "target_token_ids": np.array(target),
                }
            )["cross"]
            np.testing.assert_allclose(
                attention[number, rank, :, :, : len(ids), : len(sentence)],
                np.concatenate(scores),
                atol=1e-5,
            )
        assert not attention[number, ..., len(sentence) :].any()


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize("num_rows, max_length", [(0, 9), (3, 0)])
def test_no_sentence_or_no_length_gives_no_tokens(
    peaked_model, eagerly, search, num_rows, max_length
):
    results = search(
        peaked_model,
        padded(SENTENCES)[:num_rows],
        num_results=3,
        max_length=max_length,
        min_length=3,
        target_prefix=np.zeros((num_rows, 2), np.int32),
        return_attention=True,
    )
    assert tuple(results["token_ids"].shape) == (num_rows, 3, 0)
    assert tuple(results["scores"].shape) == (num_rows, 3)
    assert tuple(results["attention"].shape) == (num_rows, 3, 1, 3, 0, 7)
