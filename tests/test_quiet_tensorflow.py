import os

import pytest

from relative_attention.quiet_tensorflow import without_info_lines

INFO = b"normalizer.cc(51) LOG(INFO) use identity normalization.\n"
ERROR = b"model.cc(7) LOG(ERROR) broken.\n"


def test_what_cpp_logs_as_info_is_left_out_and_nothing_else(capfd):
    with without_info_lines():
        os.write(2, b"before\n" + INFO + ERROR + b"no end of line")
    os.write(2, b" here\n")
    assert capfd.readouterr().err == (
        "before\n" + ERROR.decode() + "no end of line here\n"
    )


def test_error_passes_and_so_does_what_was_written_before_it(capfd):
    with pytest.raises(ValueError, match="wrong"):
        with without_info_lines():
            os.write(2, INFO + ERROR)
            raise ValueError("wrong")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == (INFO + ERROR).decode() + "after\n"
