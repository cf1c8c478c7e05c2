import os
import subprocess
import sys

import pytest

SHOW = """
from relative_attention.ops.onednn import computes_with_onednn

print(computes_with_onednn())
"""


@pytest.mark.only_on("tensorflow", reason="asks TensorFlow")
def test_environment_can_forbid_onednn():
    shown = subprocess.run(
        [sys.executable, "-c", SHOW],
        env={**os.environ, "TF_ENABLE_ONEDNN_OPTS": "0"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert shown == "False\n"
