"""How good translations of short and of long sentences are."""

from relative_attention.plot.figure import make_figure


def length_figure(scores, title="BLEU by length of the source"):
    """Draw BLEU against the length of the source.

    Above a line for each system; each point stands at the mean length of its
    bucket. Below how many sentences each bucket has: of few, BLEU says little.

    Args:
        scores: list of what `bleu_by_length` returns, or a dict of such lists
            by the name of the system, all of the same sources.
        title: string.

    Returns:
        matplotlib `Figure`.

    Raises:
        InputError: if `matplotlib` is not installed.
        ValueError: if there is nothing to draw.

    Example:
    >>> scores = ra.bleu_by_length(sources, hypotheses, references)
    >>> ra.plot.length_figure({"relative": scores})
    """
    systems = scores if isinstance(scores, dict) else {"": scores}
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
    if isinstance(scores, dict):
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
