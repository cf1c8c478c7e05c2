"""Arrays written to disk piece by piece."""

import contextlib

import numpy as np


@contextlib.contextmanager
def growing_array(path, dtype):
    """Write a one-dimensional `.npy` file whose length is not known yet.

    Yields a function that appends an array. No more than a piece is ever in
    memory. The file is complete when the context is left.

    Args:
        path: path of the file.
        dtype: NumPy type of the elements.
    """
    dtype = np.dtype(dtype)
    length = 0
    with open(path, "wb") as file:
        _write_header(file, dtype, 0)
        start = file.tell()

        def append(values):
            nonlocal length
            values = np.ascontiguousarray(values, dtype)
            file.write(values.data)
            length += len(values)

        yield append
        file.seek(0)
        # NumPy pads the header so that any length fits in as many bytes.
        _write_header(file, dtype, length)
        if file.tell() != start:
            raise RuntimeError(f"{path}: the header of an array has grown")


def _write_header(file, dtype, length):
    np.lib.format.write_array_header_1_0(
        file,
        {
            "descr": np.lib.format.dtype_to_descr(dtype),
            "fortran_order": False,
            "shape": (length,),
        },
    )
