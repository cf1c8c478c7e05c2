import os

import pytest

from relative_attention.quiet_tensorflow import without_info_lines

INFO = b"normalizer.cc(51) LOG(INFO) use identity normalization.\n"
ERROR = b"model.cc(7) LOG(ERROR) broken.\n"


def test_only_info_of_cpp_is_hidden(capfd):
    with without_info_lines():
        os.write(2, b"before\n" + INFO + ERROR + b"no end of line")
    os.write(2, b" here\n")
    assert capfd.readouterr().err == (
        "before\n" + ERROR.decode() + "no end of line here\n"
    )


def test_error_and_earlier_output_are_shown(capfd):
    with pytest.raises(ValueError, match="wrong"):
        with without_info_lines():
            os.write(2, INFO + ERROR)
            raise ValueError("wrong")
    os.write(2, b"after\n")
    assert capfd.readouterr().err == (INFO + ERROR).decode() + "after\n"
