"""Results of a paired bootstrap, for reading."""

from collections.abc import Mapping
from collections.abc import Sequence

from relative_attention.evaluation.paired_bootstrap import BootstrapResult

_SIGNIFICANT = 0.05
_HEADER = ("metric", "system", "score", "mean ± 95 %", "p")


def bootstrap_table(results: Mapping[str, Sequence[BootstrapResult]]) -> str:
    """A row for each metric and system, and the signatures below.

    Args:
        results: what `paired_bootstrap` returned.

    Returns:
        Several lines. A star marks what differs from the first system with a
        p-value below 0.05.
    """
    rows: list[tuple[str, ...]] = [_HEADER]
    for systems in results.values():
        rows += [_row(result) for result in systems]
    widths = [max(map(len, column)) for column in zip(*rows)]
    lines = [
        "  ".join(
            # Names to the left, numbers to the right, under one another.
            cell.ljust(width) if index < 2 else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(row, widths))
        ).rstrip()
        for row in rows
    ]
    first = next(iter(results.values()))[0].system
    lines += [
        f"p: how probable so great a difference from {first} is by chance; "
        f"*: under {_SIGNIFICANT}",
        *(
            f"{systems[0].name} ({systems[0].signature})"
            for systems in results.values()
        ),
    ]
    return "\n".join(lines)


def _row(result: BootstrapResult) -> tuple[str, ...]:
    p_value = ""
    if result.p_value is not None:
        star = "*" if result.p_value < _SIGNIFICANT else " "
        p_value = f"{result.p_value:.4f} {star}"
    return (
        result.name,
        result.system,
        f"{result.score:.2f}",
        f"{result.mean:.2f} ± {result.interval:5.2f}",
        p_value,
    )
