"""Prints the results of a paired bootstrap for people to read."""

from collections.abc import Mapping
from collections.abc import Sequence

import tabulate

from relative_attention.evaluation.paired_bootstrap import BootstrapResult

_SIGNIFICANT = 0.05
_HEADER = ("metric", "system", "score", "mean ± 95 %", "p", "")


def bootstrap_table(results: Mapping[str, Sequence[BootstrapResult]]) -> str:
    """Returns a row for each metric and system, and the signatures below.

    Args:
        results: dict. What `paired_bootstrap` returned.

    Returns:
        A string of several lines. A star marks what differs from the first
        system with a p-value below 0.05.
    """
    lines = [
        tabulate.tabulate(
            [
                _row(result)
                for systems in results.values()
                for result in systems
            ],
            headers=_HEADER,
            tablefmt="plain",
            # Numbers stand under one another, as they are written here.
            colalign=("left", "left", "right", "right", "right", "left"),
            disable_numparse=True,
        )
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
    """Returns the cells of one system's row."""
    p_value = star = ""
    if result.p_value is not None:
        p_value = f"{result.p_value:.4f}"
        star = "*" if result.p_value < _SIGNIFICANT else ""
    return (
        result.name,
        result.system,
        f"{result.score:.2f}",
        f"{result.mean:.2f} ± {result.interval:5.2f}",
        p_value,
        star,
    )
