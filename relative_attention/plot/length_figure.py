"""Draws how good translations of short and of long sentences are."""

from collections.abc import Mapping
from collections.abc import Sequence
from typing import TYPE_CHECKING
from typing import Any

from relative_attention.plot.figure import make_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def length_figure(
    scores: Sequence[Any] | Mapping[str, Sequence[Any]],
    title: str = "BLEU by length of the source",
) -> "Figure":
    """Draws BLEU against the length of the source.

    There is a line for each system above, whose points stand at the mean
    lengths of the buckets, and a bar for the number of sentences of each
    bucket below: BLEU of few sentences says little.

    Args:
        scores: list of what `bleu_by_length` returns, or a dict of such lists
            by the name of the system, all of the same sources.
        title: string. The title of the figure.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if there is nothing to draw.

    Example:
    >>> scores = ra.bleu_by_length(sources, hypotheses, references)
    >>> ra.plot.length_figure({"relative": scores})
    """
    systems = scores if isinstance(scores, Mapping) else {"": scores}
    if not all(systems.values()) or not systems:
        raise ValueError(
            "`scores` must be what `bleu_by_length` returns, or a dict of "
            f"that. Received: {scores!r}."
        )
    figure = make_figure((6, 4.5))
    lines, bars = figure.subplots(2, 1, sharex=True, height_ratios=(3, 1))
    for name, buckets in systems.items():
        lines.plot(
            [bucket.mean for bucket in buckets],
            [bucket.bleu for bucket in buckets],
            marker="o",
            label=name,
        )
    lines.set_title(title)
    lines.set_ylabel("BLEU")
    best = max(bucket.bleu for line in systems.values() for bucket in line)
    lines.set_ylim(0, 1.1 * best or 1)
    lines.grid(alpha=0.3)
    if isinstance(scores, Mapping):
        # A path may begin with an underscore, matplotlib's mark of a line
        # without a name.
        lines.legend(lines.lines, list(systems), fontsize="small")
    buckets = next(iter(systems.values()))
    bars.bar(
        [(bucket.least + bucket.most) / 2 for bucket in buckets],
        [bucket.num_sentences for bucket in buckets],
        [bucket.most - bucket.least + 1 for bucket in buckets],
        color="lightgray",
        edgecolor="gray",
    )
    bars.set_ylabel("sentences")
    bars.set_xlabel("words of the source")
    return figure
