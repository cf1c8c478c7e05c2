"""What results attend to: the scores of the whole model, read anew."""

import numpy as np
import pytest

import relative_attention as ra

pytestmark = pytest.mark.usefixtures("eagerly")

SENTENCES = [
    [5, 11, 2, 8, 1],
    [3, 1],
    [12, 4, 4, 9, 7, 6, 1],
]


def arrays(results):
    return {name: np.asarray(value) for name, value in results.items()}


@pytest.mark.parametrize("search", ["beam_search", "sample"])
def test_attention_is_that_of_the_results(
    peaked_model, padded, until_end, search
):
    rows = padded(SENTENCES)
    arguments = {"num_results": 3, "max_length": 3}
    arguments |= {"num_beams": 3} if search == "beam_search" else {"seed": 7}
    plain = arrays(getattr(ra, search)(peaked_model, rows, **arguments))
    found = arrays(
        getattr(ra, search)(
            peaked_model, rows, return_attention=True, **arguments
        )
    )
    attention = found.pop("attention")
    assert found.keys() == plain.keys() == {"token_ids", "scores"}
    for name, value in plain.items():
        np.testing.assert_array_equal(found[name], value)
    length = plain["token_ids"].shape[2]
    # A decoder block of 3 heads.
    assert attention.shape == (3, 3, 1, 3, length, rows.shape[1])
    assert attention.dtype == np.float32
    for number, sentence in enumerate(SENTENCES):
        for rank in (0, 2):
            ids = until_end(plain["token_ids"][number, rank])
            # Fewer may have ended than were asked for.
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


def test_attention_is_that_of_each_block(make_model, padded):
    model = make_model(num_decoder_layers=2)
    rows = padded(SENTENCES)
    found = ra.beam_search(
        model, rows, num_beams=1, max_length=2, return_attention=True
    )
    found = arrays(found)
    first = found["token_ids"][:, 0]
    scores = model.attention_scores(
        {
            "source_token_ids": rows,
            "target_token_ids": np.pad(
                first[:, :-1],
                ((0, 0), (1, 0)),
                constant_values=model.start_token_id,
            ),
        }
    )["cross"]
    assert found["attention"].shape == (3, 1, 2, 3, first.shape[1], 7)
    for block in range(2):
        np.testing.assert_allclose(
            found["attention"][:, 0, block], scores[block], atol=1e-5
        )


@pytest.mark.parametrize("search", [ra.beam_search, ra.sample])
@pytest.mark.parametrize("num_rows, max_length", [(0, 9), (3, 0)])
@pytest.mark.parametrize("with_options", [False, True])
def test_no_sentence_or_no_length_gives_no_tokens(
    peaked_model, padded, search, num_rows, max_length, with_options
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
