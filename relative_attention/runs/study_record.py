"""What the record of a finished run must have."""

from typing import Any

from relative_attention.evaluation import BleuStatistics

# What the table, the list and the comparisons read.
_KINDS: dict[str, Any] = {
    "row": str,
    "seed": int,
    "values": dict,
    "precision": str,
    "steps": int,
    "minutes": int | float,
    "test": dict,
    "validation": dict,
}
_TEST_KINDS: dict[str, Any] = {
    "bleu": int | float,
    "bleu_lowercased": int | float,
    "signature": str,
    "counts": str,
}


def check_record(record: Any) -> None:
    """Checks that a record has what is read of it.

    Args:
        record: What JSON gave back.

    Raises:
        ValueError: if it has not; the error names the key.
    """
    _check_kinds(record, _KINDS, "")
    _check_kinds(record["test"], _TEST_KINDS, "test.")
    if record["steps"] < 1:
        raise ValueError(f"`steps` is {record['steps']}")
    BleuStatistics.from_json(record["test"])


def _check_kinds(mapping: Any, kinds: dict[str, Any], where: str) -> None:
    if not isinstance(mapping, dict):
        raise ValueError(f"there is {mapping!r}, no JSON object")
    for name, kind in kinds.items():
        if not isinstance(mapping.get(name), kind):
            raise ValueError(f"`{where}{name}` is {mapping.get(name)!r}")
