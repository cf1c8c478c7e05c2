"""Checks `TF_CONFIG`, which tells several machines of one another."""

import json
from typing import Any

from relative_attention.errors import InputError

_EXAMPLE = (
    '{"cluster": {"worker": ["first:2222", "second:2222"]}, '
    '"task": {"type": "worker", "index": 0}}'
)


def check_tf_config(text: str) -> None:
    """Refuses a `TF_CONFIG` that TensorFlow would wait with, or crash on.

    Args:
        text: A string, what the environment variable holds.

    Raises:
        InputError: if it is not JSON, has no lists of addresses, or its task
            is none of them.
    """
    try:
        config = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _error(f"be JSON ({error})", text) from error
    if not isinstance(config, dict):
        raise _error("be a JSON object", text)
    cluster, task = config.get("cluster"), config.get("task")
    if not isinstance(cluster, dict) or not cluster:
        raise _error("have a `cluster`, lists of addresses by job", text)
    for job, addresses in cluster.items():
        if not (
            isinstance(addresses, list)
            and addresses
            and all(_is_address(address) for address in addresses)
        ):
            raise _error(f'have a list of "host:port" for `{job}`', text)
    if not isinstance(task, dict) or task.get("type") not in cluster:
        raise _error(
            f"have a `task` whose `type` is one of {', '.join(cluster)}", text
        )
    index, last = task.get("index"), len(cluster[task["type"]]) - 1
    if type(index) is not int or not 0 <= index <= last:
        raise _error(f"have a `task` whose `index` is from 0 to {last}", text)


def _is_address(address: Any) -> bool:
    if not isinstance(address, str):
        return False
    host, _, port = address.rpartition(":")
    return bool(host) and port.isdecimal() and int(port) < 2**16


def _error(wanted: str, text: str) -> InputError:
    return InputError(
        f"The environment variable TF_CONFIG must {wanted}, for example "
        f"{_EXAMPLE}. Received: {text[:500]}."
    )
