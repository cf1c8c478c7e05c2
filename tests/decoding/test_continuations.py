"""The best continuations of two beams, by hand."""

import numpy as np
import tensorflow as tf

from relative_attention.decoding.continuations import best_continuations
from relative_attention.decoding.continuations import take_beams

# Beam 0 has 0.6, beam 1 has 0.4; each row is what follows a beam.
BEAMS = tf.constant(np.log([[0.6, 0.4]]), tf.float32)
LOGITS = tf.constant(
    np.log([[[0.1, 0.2, 0.7], [0.05, 0.9, 0.05]]]) + 5.0, tf.float32
)


def test_best_are_of_all_beams_of_a_sentence():
    found = best_continuations(BEAMS, LOGITS, LOGITS, 4)
    # 0.6 * 0.7, 0.4 * 0.9, 0.6 * 0.2, 0.6 * 0.1; the logits are no
    # probabilities, but 5 more than their logarithms.
    assert found.token_ids.numpy().tolist() == [[2, 1, 1, 0]]
    assert found.parents.numpy().tolist() == [[0, 1, 0, 0]]
    np.testing.assert_allclose(
        np.exp(found.log_probs), [[0.42, 0.36, 0.12, 0.06]], rtol=1e-5
    )
    assert found.is_broken.numpy().tolist() == [False]


def test_what_is_not_allowed_still_counts_in_the_sum():
    allowed = tf.where(tf.range(3) == 2, -1e7, LOGITS)
    found = best_continuations(BEAMS, LOGITS, allowed, 2)
    assert found.token_ids.numpy().tolist() == [[1, 1]]
    np.testing.assert_allclose(
        np.exp(found.log_probs), [[0.36, 0.12]], rtol=1e-5
    )


def test_sentence_with_a_logit_that_is_no_number_is_broken():
    beams, logits = (tf.concat([x] * 4, axis=0) for x in (BEAMS, LOGITS))
    array = logits.numpy()
    array[1, 1, 0], array[3, 0, 2] = np.nan, np.inf
    found = best_continuations(beams, tf.constant(array), tf.constant(array), 2)
    assert found.is_broken.numpy().tolist() == [False, True, False, True]


def test_beams_are_taken_within_their_sentence():
    values = tf.constant([[[1, 2], [3, 4]], [[5, 6], [7, 8]]])
    taken = take_beams(values, tf.constant([[1, 1, 0], [0, 1, 1]]))
    assert taken.numpy().tolist() == [
        [[3, 4], [3, 4], [1, 2]],
        [[5, 6], [7, 8], [7, 8]],
    ]
