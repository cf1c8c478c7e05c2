"""Environments with Keras and one backend, as the install page makes them."""

import os
import pathlib
import re
import subprocess
import sys

import pytest

from tests.integration.test_examples import EXAMPLES
from tests.integration.test_examples import briefly

ROOT = pathlib.Path(__file__).parents[1]
# The versions of `make test-backends`.
PACKAGES = {"jax": "jax>=0.10.2", "torch": "torch==2.13.0"}


@pytest.fixture(scope="module", params=list(PACKAGES))
def run_fresh(request, tmp_path_factory):
    """What runs a program in a new environment, which is made once."""
    folder = tmp_path_factory.mktemp(request.param)
    subprocess.run([sys.executable, "-m", "venv", folder / "venv"], check=True)
    pip = [folder / "venv" / "bin" / "pip", "install", "--quiet"]
    found = subprocess.run(
        [*pip, "keras", PACKAGES[request.param]], capture_output=True, text=True
    )
    if found.returncode:
        pytest.skip(f"Keras cannot be installed: {found.stderr[-500:]}")
    subprocess.run([*pip, "--no-deps", ROOT], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}

    def run(program):
        done = subprocess.run(
            [folder / "venv" / "bin" / "python", "-c", program],
            cwd=folder,
            env={**environment, "KERAS_BACKEND": request.param},
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        return done.stdout

    return run


@pytest.mark.slow
def test_layers_and_models_train_with_keras_and_one_backend(run_fresh):
    text = (ROOT / "README.md").read_text("utf-8")
    first = re.search(r"^```python\n(.*?)^```", text, re.M | re.DOTALL)[1]
    assert run_fresh(first).count("2, 10, 512") == 1
    for example in EXAMPLES:
        assert run_fresh(briefly(example))
    assert "Transformer" in run_fresh(
        "import numpy as np\n"
        "import relative_attention as ra\n"
        "model = ra.Transformer.from_preset('transformer_tiny',\n"
        "    vocabulary_size=9, hidden_dim=8, num_heads=2)\n"
        "model.compile('adam', ra.MaskedCrossEntropy())\n"
        "ids = np.ones((2, 4), 'int32')\n"
        "x = {'source_token_ids': ids, 'target_token_ids': ids}\n"
        "model.fit(x, ids, verbose=0)\n"
        "print(type(model).__name__)\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "call, package",
    [
        ("ra.Vocabulary", "sentencepiece"),
        ("ra.corpus_bleu", "sacrebleu"),
        ("ra.find_recipe", "PyYAML"),
        ("ra.load_translator", "safetensors"),
        ("ra.hub", "keras-nlp"),
        ("ra.Transformer.from_preset('tatoeba_en_de')", "safetensors"),
    ],
)
def test_missing_package_names_its_extra(run_fresh, call, package):
    printed = run_fresh(
        "import relative_attention as ra\n"
        "try:\n"
        f"    {call}\n"
        "except (ImportError, ra.InputError) as error:\n"
        "    print(error)\n"
    )
    assert f"package {package}" in printed
    assert f"`pip install {package}`" in printed
    assert printed.count("\n") == 1
