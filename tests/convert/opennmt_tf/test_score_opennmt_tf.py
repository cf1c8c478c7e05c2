"""A converted model gives its own translations the score that it found."""

import numpy as np

import relative_attention as ra


class Numbers:
    """Sentences are ids with blanks between."""

    end_id = 1

    def encode(self, lines):
        return [[int(word) for word in line.split()] for line in lines]

    def decode(self, rows):
        return [" ".join(str(i) for i in row if i > 1) for row in rows]


def test_scores_are_those_of_the_search(opennmt_tf, object_checkpoint):
    model = ra.load_opennmt_tf(object_checkpoint(opennmt_tf()))
    assert model.start_token_id == 2
    sources = ["5 16 3", "7", "9 9 4 12", "3 8 14", "11 6"]
    rows = [[*row, 1, 0, 0, 0][:5] for row in Numbers().encode(sources)]
    results = ra.beam_search(
        model, np.array(rows), num_beams=3, length_penalty=0.0
    )
    token_ids = np.asarray(results["token_ids"])[:, 0]
    ended = np.flatnonzero((token_ids == 1).any(axis=1))
    assert len(ended) > 2
    scores = ra.score_translations(
        ra.Translator(model, Numbers()),
        [sources[index] for index in ended],
        Numbers().decode(token_ids[ended]),
    )
    np.testing.assert_allclose(
        [score.log_probability for score in scores],
        np.asarray(results["scores"])[ended, 0],
        rtol=1e-6,
        atol=1e-5,
    )
