"""Label smoothing: the distribution that a model is to learn."""

import math


def smoothed_distribution(
    label_smoothing: float, vocabulary_size: int
) -> tuple[float, float, float]:
    """Describes the distribution `q` that stands in place of a label.

    `q` gives `1 - label_smoothing` to the label and spreads the rest evenly
    over the other ids, as tensor2tensor's does (Szegedy et al. 2016, section
    7, spread it over all of them).

    Args:
        label_smoothing: float in `[0, 1)`.
        vocabulary_size: int, the number of ids.

    Returns:
        Triple of floats: `q` of every other id, how much more the label has,
        and the entropy of `q`, below which no cross entropy gets.
    """
    confidence = 1 - label_smoothing
    low = label_smoothing / max(vocabulary_size - 1, 1)
    entropy = -sum(
        count * p * math.log(p)
        for count, p in ((1, confidence), (vocabulary_size - 1, low))
        if p > 0
    )
    return low, confidence - low, entropy
