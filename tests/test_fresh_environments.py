"""Environments with fewer packages, as the install page makes them."""

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


@pytest.mark.slow
def test_translates_where_only_that_is_installed(tmp_path):
    page = (ROOT / "docs" / "guides" / "install.md").read_text("utf-8")
    packages = re.search(r"pip install (ctranslate2 .*)", page)[1].split()
    docker = (ROOT / "Dockerfile").read_text("utf-8")
    (same,) = re.findall(
        r"pip install --no-cache-dir (ctr.*?[^\\])\n", docker, re.S
    )
    assert same.replace("\\", "").split() == packages
    subprocess.run(
        [sys.executable, "-m", "venv", tmp_path / "venv"], check=True
    )
    commands = tmp_path / "venv" / "bin"
    pip = [commands / "pip", "install", "--quiet"]
    found = subprocess.run([*pip, *packages], capture_output=True, text=True)
    if found.returncode:
        pytest.skip(f"They cannot be installed: {found.stderr[-500:]}")
    subprocess.run([*pip, "--no-deps", ROOT], check=True)
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"}
    environment["RELATIVE_ATTENTION_CACHE"] = str(tmp_path / "cache")

    def run(*words):
        return subprocess.run(
            [commands / "relative-attention", *words],
            cwd=tmp_path,
            env=environment,
            input="Where is the station?\n",
            capture_output=True,
            text=True,
        )

    done = run("translate", "tatoeba_en_de")
    assert done.stdout == "Wo ist der Bahnhof?\n", done.stderr
    assert done.stderr.startswith("Keras is not installed: the engine is")
    # The server starts, but for its port.
    done = run("serve", "tatoeba_en_de", "--host", "192.0.2.1", "--no-token")
    assert "Nothing can listen at" in done.stderr
    for words in (
        ["train", "tatoeba_en_de"],
        ["translate", "tatoeba_en_de", "--sample"],
    ):
        done = run(*words)
        assert done.returncode and done.stderr.count("\n") == 1
        assert "needs Keras, which is not installed" in done.stderr
