"""Arrays on disk that grow."""

import numpy as np
import pytest

from relative_attention.data.growing_array import growing_array


@pytest.mark.parametrize("dtype", [np.uint16, np.int64])
@pytest.mark.parametrize(
    "pieces", [[], [[]], [[1, 2], [], [3]], [list(range(12_345))] * 9]
)
def test_file_holds_all_pieces(pieces, dtype, tmp_path):
    path = tmp_path / "a.npy"
    with growing_array(path, dtype) as append:
        for piece in pieces:
            append(piece)
    loaded = np.load(path)
    assert loaded.dtype == dtype
    assert loaded.tolist() == [number for piece in pieces for number in piece]
    if pieces:
        # What is mapped to memory is the same.
        mapped = np.lib.format.open_memmap(path, "r") if len(loaded) else loaded
        np.testing.assert_array_equal(mapped, loaded)
