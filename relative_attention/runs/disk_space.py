"""Checks that a run fits on the disk, before it begins."""

import pathlib
import shutil

from relative_attention.errors import InputError


def check_disk_space(
    directory: pathlib.Path,
    checkpoint_bytes: int,
    num_checkpoints: int,
    other_bytes: int = 0,
) -> None:
    """Refuses a run whose checkpoints would fill the disk.

    Counted are the checkpoints that are kept, one more that is being written,
    and the best and the finished model; what `directory` holds of them
    already is not asked for again.

    Args:
        directory: The path of the run, which exists.
        checkpoint_bytes: An integer, the size of a checkpoint.
        num_checkpoints: An integer, how many are kept.
        other_bytes: An integer, the size of what else is kept. Defaults to
            `0`.

    Raises:
        InputError: if there is less space than that.
    """
    needed = (num_checkpoints + 2) * checkpoint_bytes + other_bytes
    there = sum(
        file.stat().st_size
        for file in directory.rglob("*.safetensors")
        if file.is_file()
    )
    free = shutil.disk_usage(directory).free
    if free + there < needed:
        others = f", and {_size(other_bytes)} of epochs" if other_bytes else ""
        raise InputError(
            f"The disk of {directory} has {_size(free)} free; the run needs "
            f"{_size(needed - there)}: {num_checkpoints + 2} checkpoints of "
            f"{_size(checkpoint_bytes)}{others}. Free some, choose another "
            "`--output`, or lower `training.keep_checkpoints`."
        )


def _size(num_bytes: int) -> str:
    return f"{num_bytes / 1e6:,.0f} MB"
