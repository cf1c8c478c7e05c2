"""The same numbers on TensorFlow, JAX and PyTorch."""

import importlib.util
import re

import numpy as np
import pytest

from tests.backend_numbers import numbers_on
from tests.integration.readme_blocks import ROOT
from tests.integration.readme_blocks import blocks

# Pages that promise three backends. test_readme.py runs them on TensorFlow.
PAGES = ["README.md", "docs/index.md", "docs/moving_in/multi_head_attention.md"]


@pytest.fixture(scope="module", params=["jax", "torch"])
def backend(request):
    if importlib.util.find_spec(request.param) is None:
        pytest.skip(
            f"{request.param} is not installed; `make test-backends` does"
        )
    return request.param


@pytest.fixture(scope="module")
def on_tensorflow(tmp_path_factory):
    folder = tmp_path_factory.mktemp("numbers")
    return numbers_on("tensorflow", folder, "models")


@pytest.mark.large
def test_first_block_of_each_page_runs(backend, run_python):
    codes = []
    for page in PAGES:
        found = blocks((ROOT / page).read_text(encoding="utf-8"))
        codes.append(next(code for kind, code in found if kind == "python"))
    script = "".join(f"exec({code!r}, {{}})\n" for code in codes)
    printed = run_python(script, KERAS_BACKEND=backend)
    # PyTorch prints a shape as `torch.Size([2, 10])`.
    printed = re.sub(r"torch\.Size\(\[(.*?)\]\)", r"(\1)", printed)
    shown = re.findall(r"^print\(.*\)  # (.*)$", "\n".join(codes), re.M)
    assert len(shown) == len(PAGES)
    assert printed.splitlines() == shown


# The backend first: where there is none, nothing is computed.
@pytest.mark.large
def test_numbers_equal_tensorflow(backend, on_tensorflow, tmp_path):
    numbers = numbers_on(backend, tmp_path, "models")
    assert numbers.keys() == on_tensorflow.keys()
    # Some gradients are 0 by right, as those of the bias of keys: what is left
    # of them are the rounded numbers of the layer that they were summed from.
    largest: dict[str, float] = {}
    for name, expected in on_tensorflow.items():
        layer, size = name.split("/")[0], np.abs(expected).max(initial=1)
        largest[layer] = max(size, largest.get(layer, 1))
    for name, expected in on_tensorflow.items():
        np.testing.assert_allclose(
            numbers[name],
            expected,
            rtol=1e-5,
            atol=1e-6 * (10 + largest[name.split("/")[0]]),
            err_msg=name,
        )
